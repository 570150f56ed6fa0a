"""How states are told: a colour, an icon or letter, and always a word."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.pages.marks import icon


class Look(NamedTuple):
    """How a state is told: a colour, an icon or letter, and always a word."""

    colour: str
    sign: str
    word: str


STATUS = {
    # runs, and threads by their newest run
    "ready": Look("slate", "queue", "queued"),
    "running": Look("indigo", "run", "running"),
    "waiting": Look("amber", "clock", "waiting"),
    "succeeded": Look("jade", "check", "done"),
    "failed": Look("red", "alert", "failed"),
    "cancelled": Look("slate", "x", "cancelled"),
    "imported": Look("slate", "import", "imported"),
    "paused": Look("amber", "clock", "paused"),
    "idle": Look("slate", "low", "not run"),
    # approvals and decisions
    "pending": Look("amber", "clock", "waiting"),
    "approved": Look("jade", "check", "approved"),
    "edited": Look("violet", "write", "edited"),
    "rejected": Look("red", "x", "rejected"),
    "responded": Look("indigo", "ask", "answered"),
    "expired": Look("slate", "clock", "expired"),
    "superseded": Look("slate", "undo", "superseded"),
    # tool calls
    "proposed": Look("slate", "ask", "proposed"),
    "executing": Look("indigo", "run", "executing"),
    "unknown": Look("red", "ask", "outcome unknown"),
    "simulated": Look("violet", "fork", "simulated"),
    # steps
    "ok": Look("jade", "check", "done"),
    # workers
    "free": Look("slate", "low", "idle"),
    "busy": Look("indigo", "run", "busy"),
    "silent": Look("amber", "clock", "silent"),
    "lost": Look("red", "alert", "lost"),
    # branches
    "forked": Look("violet", "fork", "forked"),
}

RISK = {
    "low": Look("slate", "low", "low risk"),
    "medium": Look("amber", "med", "medium risk"),
    "high": Look("red", "high", "high risk"),
    "critical": Look("red", "alert", "critical risk"),
}

EFFECT = {
    "none": Look("slate", "low", "no effect"),
    "read": Look("slate", "eye", "read"),
    "write": Look("amber", "write", "write"),
    "external": Look("red", "out", "external effect"),
}

KIND = {
    "input": Look("slate", "U", "person"),
    "model": Look("indigo", "L", "model"),
    "code": Look("indigo", "C", "the agent's own code"),
    "tool": Look("jade", "T", "tool"),
    "interrupt": Look("amber", "?", "waits for a person, an agent or a lock"),
    "decision": Look("slate", "D", "decision"),
    "edit": Look("violet", "E", "edit"),
    "summary": Look("violet", "S", "summary"),
    "snapshot": Look("slate", "V", "environment snapshot"),
    "migrate": Look("slate", "M", "schema migration"),
    "progress": Look("slate", "P", "progress"),
    "resume": Look("violet", "R", "resumed"),
    "error": Look("red", "!", "failed"),
}


@cache  # there are as many as these tables have rows
def _told(look: Look) -> SafeString:
    return chip(*look)


def chip(colour: str, sign: str, word: str) -> SafeString:
    """A word with an icon, in a colour."""
    return format_html(
        '<span class="chip {}">{}{}</span>', colour, icon(sign, "s"), word
    )


def status(value: str) -> SafeString:
    """A chip for the status of a run, thread, approval, tool call or step."""
    return _told(STATUS[value])


def risk(value: str) -> SafeString:
    return _told(RISK[value])


def effect(value: str) -> SafeString:
    return _told(EFFECT[value])


def kind(value: str, failed: bool = False) -> SafeString:
    """The letter before a step; a failed step of any kind has a `!`."""
    return _letter(KIND["error" if failed else value])


@cache
def _letter(look: Look) -> SafeString:
    return format_html(
        '<span class="k {}" title="{}"><span aria-hidden="true">{}</span>'
        '<span class="vh">{}</span></span>',
        look.colour,
        look.word,
        look.sign,
        look.word,
    )


def initials(name: str) -> str:
    """`MO` of "Mira Okafor", for the disc before a name."""
    words = "".join(one if one.isalnum() else " " for one in name).split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()
