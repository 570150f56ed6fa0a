"""What a model call is sent: a function of the state, and the record of it."""

from __future__ import annotations

from agents.pure.context.compose import (
    SUMMARY,
    Request,
    compose,
    request_of,
    summing_up,
)
from agents.pure.context.facts import PERSON
from agents.pure.context.resumed import (
    CHANNEL,
    FACTUAL,
    WHOLE,
    WINDOW,
    Resumed,
    facts_until,
    resumed,
    whole_again,
    whole_from,
)
from agents.pure.context.transcript import (
    NO_RESULT,
    AsSent,
    answers,
    backwards,
    calls_of,
    kept_apart,
    messages_of,
)
from agents.pure.context.window import Moved, Window, moved, window_of

__all__ = [
    "CHANNEL",
    "FACTUAL",
    "NO_RESULT",
    "PERSON",
    "SUMMARY",
    "WHOLE",
    "WINDOW",
    "AsSent",
    "Moved",
    "Request",
    "Resumed",
    "Window",
    "answers",
    "backwards",
    "calls_of",
    "compose",
    "facts_until",
    "kept_apart",
    "messages_of",
    "moved",
    "request_of",
    "resumed",
    "summing_up",
    "whole_again",
    "whole_from",
    "window_of",
]
