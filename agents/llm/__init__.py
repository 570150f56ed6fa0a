"""The model, over OpenAI's chat completions: what vLLM, Ollama, llama.cpp and the
vendors share. The only package that knows the client.

One reply is one step. Within it a call is tried again when that may help, until the
attempts or the time for the step are used up; each attempt is recorded. Replies are
streamed, so that a call can be followed and ended while it answers.
"""

from __future__ import annotations

from agents.llm.embeddings import Embeddings
from agents.llm.model import OpenAIModel, Sign
from agents.llm.server import Server

__all__ = ["Embeddings", "OpenAIModel", "Server", "Sign"]
