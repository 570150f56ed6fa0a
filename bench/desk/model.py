"""A model that has its answer ready."""

from __future__ import annotations

import json
from typing import Any

from agents.llm import OpenAIModel
from agents.pure.context import Request
from agents.pure.step import Reply, ReplyMeta

SERVER = ReplyMeta(model_requested="canned", model_returned="canned", latency_ms=0)


class Canned(OpenAIModel):
    """Calls a tool as often as the last message of a person says, then is done.

    The message is "TOOL TIMES": "note 50".
    """

    def reply(self, request: Request) -> Reply:
        said = request.messages
        asked = max(at for at, each in enumerate(said) if each["role"] == "user")
        tool, times = str(said[asked]["content"]).split()
        done = sum(each["role"] == "tool" for each in said[asked:])
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if done < int(times):
            function = {"name": tool, "arguments": json.dumps({"number": done})}
            call = {"id": f"c{done}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return Reply(message=message, meta=SERVER, finish_reason="stop")
