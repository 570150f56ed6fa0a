"""The agent that worker tests run: each tool is one way in which a call can go.

Effects go to the external ledger, which judges "exactly once".
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import date, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.error import HTTPError
from urllib.request import urlopen

from pydantic import BaseModel, Field

from agents.tools import (
    BOARD,
    FILES,
    MEMORY,
    WORKING_MEMORY,
    Agent,
    Changed,
    Done,
    Files,
    Found,
    IdempotencyKey,
    Invalid,
    Limits,
    Next,
    Preview,
    Rule,
    Seen,
    ToolContext,
    ToolError,
    Turn,
    Unchanged,
    Window,
    agent_tool,
    never,
    read_result,
    register,
    tool,
)
from agents.tools.declare import ask
from checkpoints.pure.schema import Migrations
from tests.workers.desk import written as written  # registers its own
from tests.workers.desk.ledger import post


@tool(
    effect="external",
    idempotent=True,
    title="Book {item} for {price}",
    version=os.environ.get("DESK_BOOK"),  # another: the agent was upgraded
    approve=Rule("over 1,000", when={"path": "/price", "op": "gt", "value": "1000"}),
)
def book(item: str, price: Decimal, *, key: IdempotencyKey) -> dict[str, Any]:
    """Book something."""
    return post("bookings", key, {"item": item, "price": str(price)})


def _fares() -> dict[str, Any]:
    with urlopen(f"{os.environ['DESK_LEDGER']}/fares", timeout=30) as answer:  # noqa: S310  # the test's own server
        fares: dict[str, Any] = json.load(answer)
    return fares


def _costs_now(item: str, price: Decimal, *, seen: Seen) -> Found:
    """What the airline charges for it: a price, or what becomes of who asks."""
    now = _fares().get(item, {}).get("any", {"price": str(price)})
    match now["price"]:
        case "gone":
            return Invalid(f"{item} is sold out")
        case "unknown":
            raise LookupError(f"nobody knows what {item} costs")
        case "hang":
            while _fares().get(item):
                time.sleep(0.05)
        case "nonsense":
            return {"price": 1}  # type: ignore[return-value]  # what it must not do
    if Decimal(now["price"]) == price:
        return Unchanged(now)
    old = seen or {"price": str(price)}
    text = f"it was {old['price']}, is {now['price']}"
    return Changed(old, now, text, arguments={"price": now["price"]})


def _voucher(item: str, price: Decimal) -> Preview:
    if item == "nothing to see":
        raise LookupError("no picture of it")
    return Preview.email(to="desk@example.org", subject=item, body=f"For {price}.")


@tool(
    effect="external",
    idempotent=True,
    title="Reserve {item} for {price}",
    approve=Rule("reserve"),
    guard=_costs_now,
    tolerance={"/price": "2%"},
    preview=_voucher,
    reversible="for 24 hours",
)
def reserve(item: str, price: Decimal, *, key: IdempotencyKey) -> dict[str, Any]:
    """Reserve something at a price that may change."""
    return post("reservations", key, {"item": item, "price": str(price)})


@tool(
    effect="external",
    idempotent=True,
    title="Snap up {item} for {price}",
    approve=Rule("snap up"),
    timeout=timedelta(seconds=3),
    guard=_costs_now,
    guard_age=timedelta(minutes=1),
)
def snap_up(item: str, price: Decimal, *, key: IdempotencyKey) -> dict[str, Any]:
    """Reserve something whose price must be known soon."""
    return post("reservations", key, {"item": item, "price": str(price)})


@tool(effect="external", title="Send {text}", approve=never)
def send(text: str, *, key: IdempotencyKey) -> dict[str, Any]:
    """Send something that cannot be taken back and must not go out twice."""
    return post("emails", key, {"text": text})


@tool(effect="external", idempotent=True, title="Charge {amount}", approve=never)
def charge(amount: Decimal, *, key: IdempotencyKey, ctx: ToolContext) -> dict[str, Any]:
    """Charge a card with a credential, which the payment service repeats."""
    secret = ctx.secret("DESK_PAYMENTS")
    told = post("charges", key, {"amount": str(amount), "with": secret[-4:]})
    ctx.put("facts", "header", f"Bearer {secret}")
    return {**told, "authorised by": secret}


# Seconds in which what a worker had sent when it died is there.
ARRIVES = float(os.environ.get("DESK_ARRIVES", "0"))


def _sent(key: IdempotencyKey, ctx: ToolContext) -> Any:
    """What the ledger knows of a delivery; None: nothing, and nothing is on its way."""
    until = time.monotonic() + ARRIVES
    while (found := _delivered(key)) is None and time.monotonic() < until:
        time.sleep(0.05)  # before the ledger is asked again: it only answers
    return found


def _delivered(key: IdempotencyKey) -> Any:
    try:
        with urlopen(f"{os.environ['DESK_LEDGER']}/ledger/deliveries/{key}") as answer:  # noqa: S310  # the test's own server
            text = json.load(answer)["effect"]["body"]["text"]
    except HTTPError as error:
        if error.code != 404:
            raise
        return None
    if text == "mute":
        raise LookupError("the carrier does not say")
    return {"found": text}


@tool(effect="external", title="Deliver {text}", approve=never, reconcile=_sent)
def deliver(text: str, *, key: IdempotencyKey) -> dict[str, Any]:
    """Send something that must not go out twice, and of which one can ask."""
    return post("deliveries", key, {"text": text})


@tool(effect="external", title="Wire {amount} to {to}", approve=Rule("money"))
def wire(to: str, amount: Decimal, *, key: IdempotencyKey) -> dict[str, Any]:
    """Send money, which is asked about and must not be sent twice."""
    return post("transfers", key, {"to": to, "amount": str(amount)})


@tool(effect="write", idempotent=True, title="Hold {item}", approve=never)
def hold(item: str, *, key: IdempotencyKey, ctx: ToolContext) -> str:
    """Hold something, and remember how often."""
    post("holds", key, {"item": item})
    ctx.put("vars", item, ctx.get("vars").get(item, 0) + 1)
    return "held"


@tool(effect="read", title="Quote {item}", cache=timedelta(minutes=5))
def quote(item: str, *, key: IdempotencyKey, ctx: ToolContext) -> str:
    """Ask for a price, slowly."""
    time.sleep(0.02)
    if item == "nothing":
        raise ToolError("there is no such thing")
    if item == "the last":
        return str(ctx.get("vars"))
    answer = post("quotes", key, {"item": item})
    return f"{item}: {answer['confirmation']}"


@tool(effect="read", title="Look up {what}")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is fine"


def _pages(size: int) -> str:
    """So many characters that say something different everywhere."""
    words = (sha256(str(n).encode()).hexdigest() for n in range(size // 64 + 1))
    return f"It begins. {''.join(words)}"[:size]


@tool(effect="read", title="Fetch {size}")
def fetch(size: int) -> str:
    """Fetch a long text."""
    return _pages(size)


@tool(effect="external", title="Order {size}", approve=never)
def order(size: int, *, key: IdempotencyKey, ctx: ToolContext) -> str:
    """What must not happen twice, with a long answer."""
    post("orders", key, {"size": size})
    ctx.put("vars", "ordered", size)
    return _pages(size)


@tool(effect="external", title="Order a number", approve=never)
def misorder(*, key: IdempotencyKey) -> float:
    """An effect whose answer is no JSON."""
    post("orders", key, {})
    return float("nan")


@tool(effect="write", idempotent=True, title="Note {size}", approve=never)
def note(size: int, *, ctx: ToolContext) -> str:
    """Remember a long text, and say how long the last one was."""
    before = ctx.get("vars").get("note", "")
    ctx.put("vars", "note", _pages(size))
    return f"had {len(before)}"


@tool(effect="read", title="Wait {seconds} s")
def wait(seconds: float) -> str:
    """Take a while."""
    time.sleep(seconds)
    return "waited"


@tool(effect="read", title="Break")
def explode() -> str:
    """Raise something."""
    raise RuntimeError("the boiler burst")


@tool(effect="read", title="Leave")
def leave(how: str = "exit") -> str:
    """End the process, as a script would, or a loop of its own."""
    raise asyncio.CancelledError if how == "cancel" else SystemExit(3)


@tool(effect="read", title="Search {what}", cache=timedelta(minutes=5))
def search(what: str, *, ctx: ToolContext) -> str:
    """Look something up where each search is paid for."""
    if what == "in euros":
        ctx.spent(1, "EUR")
    if what == "inexactly":
        ctx.spent(0.1)  # type: ignore[arg-type]  # what it must not do
    ctx.spent("0.25")
    ctx.spent(Decimal("0.0000014"))
    if what == "nothing":
        raise ToolError("there is nothing")
    return f"{what} is found"


@tool(effect="write", idempotent=True, title="Print {pages}", approve=never)
def print_out(pages: int, *, key: IdempotencyKey, ctx: ToolContext) -> str:
    """Print, which costs by the page."""
    ctx.spent(Decimal(pages) / 10)
    post("prints", key, {"pages": pages})
    return _pages(200_000)


@tool(effect="read", title="Complain about {what}")
def complain(what: str) -> str:
    """Raise something that quotes what it was given."""
    raise LookupError(f"no such thing: {what}")


class Unspeakable(Exception):
    def __str__(self) -> str:
        text: str = self.args[0]  # or no text at all
        return text


@tool(effect="external", idempotent=True, title="Mutter", approve=never)
def mutter(length: int) -> str:
    """Raise something that cannot be told, or only at great length."""
    raise Unspeakable("x" * length if length else length)


@tool(effect="read", title="Give up")
def give_up() -> str:
    """Stop the run."""
    raise ToolError("the airline is closed", stop=True)


@tool(effect="read", title="Give {kind}")
def give(kind: str) -> Any:
    """Give something that cannot be stored, or not as it is."""
    deep: Any = 1
    for _ in range(80):
        deep = [deep]
    return {
        "not JSON": {"at": [Decimal(1), time.sleep]},
        "NaN": {"fare": float("nan")},
        "infinity": {"fares": [1.5, float("inf")]},
        "over-deep": deep,
        "a large integer": {"seats": 2**70},
        "a surrogate key": {"\ud800": 1},
        "a surrogate": {"text": "a\ud800b"},
        "a surrogate text": "a\ud800b",
        "over-large": ["x" * 1000] * 80_000,
    }[kind]


@ask(title="{question}")
def question(question: str) -> str:
    """Ask the traveller."""
    raise AssertionError("a person answers")


class Trip(BaseModel):
    """When and how somebody wants to travel."""

    leaves: date
    bags: Annotated[int, Field(ge=0, le=3)] = 1
    budget: Decimal | None = None
    seat: Literal["aisle", "window"]
    stops: list[str] = []


@ask(title="{question}", response=Trip)
def plan(question: str) -> None:
    """Ask the traveller when and how."""


filed = register(
    Agent(
        "test-filed",
        model="scripted",
        system="What you do is found again.",
        tools=[hold, book, give_up],
        search_fields={"asked": "/goal", "bag": "/vars/bag", "rest": "/vars/rest"},
    )
)

desk = register(
    Agent(
        "test-desk",
        model="scripted",
        system="You book what you are asked for.",
        tools=[
            book,
            reserve,
            snap_up,
            send,
            deliver,
            wire,
            charge,
            hold,
            look,
            quote,
            wait,
            explode,
            leave,
            search,
            print_out,
            complain,
            mutter,
            give_up,
            give,
            question,
            plan,
            fetch,
            read_result,
            order,
            misorder,
            note,
        ],
        seed=7,
    )
)


migrations = Migrations()


@migrations.add(from_version=1)
def name_the_traveller(state: dict[str, Any]) -> dict[str, Any]:
    """Version 2 keeps the traveller apart."""
    facts = dict(state["facts"])
    return {**state, "traveller": {"name": facts.pop("name", "")}, "facts": facts}


@migrations.add(from_version=2)
def note_the_goal(state: dict[str, Any]) -> Any:
    """Version 3 knows the goal as a fact; and some states break it."""
    match state["facts"].get("breaks by"):
        case "raising":
            raise KeyError(state["goal"])
        case "a date":
            return {**state, "facts": {"at": time.gmtime}}
        case "a list":
            return [state]
    state["facts"]["goal"] = state["goal"]  # a copy: history stays as it is
    return state


scribe = register(
    Agent(
        "test-scribe",
        model="scripted",
        system="You write things down.",
        tools=[look, book],
        schema_version=3,
        migrations=migrations,
    )
)

brusque = register(
    Agent(
        "test-reject",
        model="scripted",
        system="You book what you are asked for.",
        tools=[book],
        busy="reject",
    )
)
jumpy = register(
    Agent(
        "test-interrupt",
        model="scripted",
        system="You book what you are asked for.",
        tools=[book, look],
        busy="interrupt",
    )
)

steady = register(
    Agent("test-steady", model="scripted", system="You answer.", resume="as_is")
)

patient = register(
    Agent(
        "test-patient",
        model="scripted",
        system="You look things up, for a long time.",
        tools=[look, *WORKING_MEMORY],
        limits=Limits(max_steps=3_000),
        window=Window(tokens=4_000),
    )
)


@tool(effect="none", title="Draw {path}")
def draw(path: str, size: int, *, ctx: ToolContext) -> str:
    """Make a file that is no text."""
    return f"{Files(ctx).write(path, bytes(size)).size} bytes"


filing = register(
    Agent(
        "test-files",
        model="scripted",
        system="You work on files.",
        tools=[*FILES, draw, look, book],
    )
)

rememberer = register(
    Agent(
        "test-rememberer",
        model="scripted",
        system="You remember what matters.",
        tools=MEMORY,
    )
)

boarder = register(
    Agent(
        "test-boarder",
        model="scripted",
        system="You share what you find.",
        tools=BOARD,
    )
)

researcher = register(
    Agent(
        "test-researcher",
        model="scripted",
        system="You find things out.",
        tools=[look, wire],
    )
)

planner = register(
    Agent(
        "test-planner",
        model="scripted",
        system="You plan, and have others find things out.",
        tools=[agent_tool(researcher.name, name="research"), look],
        limits=Limits(max_tokens=100_000),
    )
)

boss = register(
    Agent(
        "test-boss",
        model="scripted",
        system="You have others find things out, and pay.",
        tools=[agent_tool(researcher.name, name="research"), wire],
    )
)

scout = register(
    Agent(
        "test-scout",
        model="scripted",
        system="You find things out, and share them.",
        tools=[*BOARD, wire],
    )
)

foreman = register(
    Agent(
        "test-foreman",
        model="scripted",
        system="You have others find things out.",
        tools=[*BOARD, agent_tool(scout.name, name="scout")],
    )
)

chief = register(
    Agent(
        "test-chief",
        model="scripted",
        system="You have others have others find things out.",
        tools=[*BOARD, agent_tool(foreman.name, name="foreman")],
    )
)

# Each stores one checkpoint at the end.
brief = {
    name: register(
        Agent(
            f"test-{name}",
            model="scripted",
            system="You look things up.",
            tools=[look, wait, search, explode, give_up],
            checkpoint="exit",
            limits=limits,
        )
    )
    for name, limits in {
        "brief": Limits(),
        "brief-few-steps": Limits(max_steps=3),
        "brief-circling": Limits(max_repeats=3),
    }.items()
}

# Each stops at a limit of its own.
bounded = {
    name: register(
        Agent(
            f"test-{name}",
            model="scripted",
            system="You book what you are asked for.",
            tools=[book, look, wait, search],
            limits=limits,
        )
    )
    for name, limits in {
        "few-steps": Limits(max_steps=4),
        "few-tokens": Limits(max_tokens=1),
        "cheap": Limits(max_cost=Decimal("0.000001")),
        "quick": Limits(max_seconds=60),
        "humble": Limits(max_rejections=2),
        "circling": Limits(max_repeats=3),
        "thrifty": Limits(max_cost=Decimal("0.2")),
    }.items()
}


def dawdle(turn: Turn) -> Next:
    """What no `advance` should do: it says that it began, and then takes its time."""
    post("dawdling", "once", {})
    time.sleep(30)
    return Done()


dawdler = register(Agent("test-dawdler", advance=dawdle))
