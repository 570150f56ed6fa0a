"""What a model call is sent: a function of the state, and the record of it."""

from __future__ import annotations

from agents.pure.context.compose import Request, compose
from agents.pure.context.facts import PERSON
from agents.pure.context.resumed import (
    CHANNEL,
    FACTUAL,
    WHOLE,
    Resumed,
    facts_until,
    resumed,
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

__all__ = [
    "CHANNEL",
    "FACTUAL",
    "NO_RESULT",
    "PERSON",
    "WHOLE",
    "AsSent",
    "Request",
    "Resumed",
    "answers",
    "backwards",
    "calls_of",
    "compose",
    "facts_until",
    "kept_apart",
    "messages_of",
    "resumed",
    "whole_from",
]
