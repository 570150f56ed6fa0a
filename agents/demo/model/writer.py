"""The writer: the persona where it is offered files, and asked for a handbook.

Its work is a list of calls, a page at a time; the next one is the first that was not
tried. What the prompt and people wish for decides what the calls say, so that a fork with
another prompt writes other files. Anything else it is asked for, it does as the plain
assistant does.
"""

from __future__ import annotations

import re
from typing import Any

from agents.demo.model import chat, transcript, wire

NEEDED = {"write_file", "edit_file", "move_file"}
HANDBOOK = re.compile(r"\bhandbook\b", re.IGNORECASE)
EUROS = re.compile(r"\beuros?\b|€|\bEUR\b", re.IGNORECASE)

INDEX = """\
# Visiting us in Lisbon

- [Arriving](arriving.md)
- [Whom to call](contacts.md)
"""
ARRIVING = """\
# Arriving

From the airport, take the bus to Marquês de Pombal, then walk.
The office is at Rua Castilho 39, on the fifth floor. Ring twice.
"""
COSTS = """\
# What it costs

| what | price |
|---|---|
| metro, a day | {metro} |
| taxi from the airport | {taxi} |
| hotel, a night | {hotel} |
"""
PRICES = {
    "$": {"metro": "$7", "taxi": "$18", "hotel": "$210", "most": "$300"},
    "€": {"metro": "€6.60", "taxi": "€17", "hotel": "€195", "most": "€280"},
}
WORDS = {
    "write_file": "Writing {path}.",
    "edit_file": "{path} needs a change.",
    "move_file": "{path} is no draft any more.",
}


def answer(body: dict[str, Any]) -> wire.Message:
    talk = transcript.read(body)
    if not HANDBOOK.search(" ".join(talk.said)):
        return chat.answer(body)
    euros = EUROS.search(" ".join([talk.system, *talk.said]))
    work = _work(PRICES["€" if euros else "$"])
    tried = [(each.name, each.arguments) for each in talk.exchanges]
    for name, arguments in work:
        if (name, arguments) not in tried:
            words = WORDS[name].format(path=arguments["path"])
            return wire.use([wire.call(name, arguments)], words)
    if talk.last_role == "user":
        return chat.answer(body)
    return wire.say(
        "The handbook is done: index.md leads to arriving.md and costs.md, with all"
        f" prices in {'euros' if euros else 'dollars'}."
    )


def _work(prices: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Each call, in order."""
    most = f"\nAsk before you spend more than {prices['most']} in a day.\n"
    last = f"| hotel, a night | {prices['hotel']} |\n"
    return [
        ("write_file", {"path": "index.md", "content": INDEX}),
        ("write_file", {"path": "arriving.md", "content": ARRIVING}),
        ("write_file", {"path": "drafts/costs.md", "content": COSTS.format(**prices)}),
        (
            "edit_file",
            {
                "path": "arriving.md",
                "old": "take the bus to Marquês de Pombal, then walk",
                "new": "take the metro to Marquês de Pombal: 25 minutes, one change",
            },
        ),
        ("move_file", {"path": "drafts/costs.md", "to": "costs.md"}),
        (
            "edit_file",
            {
                "path": "index.md",
                "old": "- [Whom to call](contacts.md)",
                "new": "- [What it costs](costs.md)",
            },
        ),
        ("edit_file", {"path": "costs.md", "old": last, "new": last + most}),
    ]
