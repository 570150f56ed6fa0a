"""Tools that do nothing, and take no time for it."""

from __future__ import annotations

import time
from itertools import cycle

from agents.runs import runner
from agents.tools import Agent, register, tool
from bench import _text
from bench.desk.model import Canned

# What is measured is the runner: the model answers at once, here and in the workers,
# which install this app too.
runner.OpenAIModel = Canned  # type: ignore[attr-defined]  # not meant to be replaced elsewhere

_texts = cycle(_text.messages())
next(_texts)  # so that they are read as a process starts, not in its first run


@tool(effect="none", title="Note {number}")
def note(number: int) -> str:
    """A result of about 1 KB."""
    return next(_texts)


@tool(effect="none", title="Wait {number}")
def wait(number: int) -> str:
    """A result that takes a moment."""
    time.sleep(0.02)
    return "waited"


@tool(effect="external", idempotent=True, title="Pay {number}")
def pay(number: int) -> str:
    """Something that a person has to allow."""
    return "paid"


desk = register(
    Agent(name="bench", model="canned", system="Work.", tools=[note, wait, pay])
)
