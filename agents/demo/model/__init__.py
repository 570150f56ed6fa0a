"""The scripted model: an OpenAI-compatible server without a model in it.

It speaks chat completions to the real client on a real port, plays the demo's travel
desk, and is the tests' peer. A reply is a function of what was sent (model, messages,
tools, sampling parameters), so replays and forks reproduce, and an edited prompt leads
elsewhere. The same process keeps the demo's *external ledger*, the stand-in for the
airline that says what really happened.

Nothing here imports Django: it is a separate program, `python -m agents.demo.model`.
"""

from __future__ import annotations
