"""Everything that agents, runs and approvals refuse, and whether trying again helps.

    AgentsError
    ├─ BadDeclaration, UnknownAgent, UnknownTool            the code does not provide it
    ├─ EmptyMessage, InvalidEdit, InvalidDecision           what was given does not fit
    ├─ ArgumentsDoNotFit, ToolError ─ SecretUnusable,
    │  ResultNotKept                                        a call goes back to the model
    ├─ ModelFailed                                          no usable reply came
    ├─ MalformedLog, AlreadyImported                        a chat log is not taken
    ├─ LostRace ─ AlreadyDecided, Stale                     someone else was faster
    ├─ NotEligible                                          not for this person to decide
    ├─ ApprovalInvalid                                      what was approved may not run
    └─ BranchBusy, AlreadyStarted, NotRetryable                             the run is elsewhere by now

As in `checkpoints.errors`, a message names the thing, what was found and what was
expected, and never holds keys or prompts. What a tool or a model server said may
quote state: it is sealed where it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar


class AgentsError(Exception):
    """Base of the tree. `status` is what a page or the API answers with."""

    code: ClassVar[str] = "agents_error"
    status: ClassVar[int] = 500
    retry: ClassVar[bool] = False  # would the same call, made again, help?


class BadDeclaration(AgentsError):
    """An agent, tool or rule in code is not one. Stops the start."""

    code = "bad_declaration"


class UnknownAgent(AgentsError):
    """No installed app registers an agent under this name."""

    code = "unknown_agent"
    status = 404

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"No agent is called {name!r}; there are: {', '.join(known) or 'none'}."
        )
        self.name = name
        self.known = tuple(known)


class UnknownTool(AgentsError):
    """The agent has no tool of this name."""

    code = "unknown_tool"
    status = 404

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"There is no tool {name!r}; there are: {', '.join(known) or 'none'}."
        )
        self.name = name
        self.known = tuple(known)


class EmptyMessage(AgentsError):
    """A message without a word in it."""

    code = "empty_message"
    status = 422

    def __init__(self) -> None:
        super().__init__("The message is empty. Say what the agent should do.")


class InvalidEdit(AgentsError):
    """The edits of a fork do not fit; `fields` says what is wrong with which."""

    code = "invalid_edit"
    status = 422

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in fields.items()))
        self.fields = dict(fields)


class InvalidDecision(AgentsError):
    """A decision lacks something; `fields` says what is wrong with which.

    Edited arguments are addressed by JSON Pointer ("/price"), the rest by name
    ("reason", "response", "verdict").
    """

    code = "invalid_decision"
    status = 422

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in fields.items()))
        self.fields = dict(fields)


class ArgumentsDoNotFit(AgentsError):
    """Arguments do not fit a tool's schema; `fields` maps JSON Pointers to problems."""

    code = "arguments_do_not_fit"
    status = 422

    def __init__(self, fields: Mapping[str, str]) -> None:
        problems = "; ".join(f"{path or '/'}: {text}" for path, text in fields.items())
        super().__init__(f"The arguments do not fit: {problems}.")
        self.fields = dict(fields)


class ToolError(AgentsError):
    """Raised by a tool: it could not do it, for a reason that the model may read.

    With `stop`, the run fails with that reason; without, the model goes on.
    """

    code = "tool_failed"

    def __init__(self, message: str, *, stop: bool = False) -> None:
        super().__init__(message)
        self.stop = stop


class SecretUnusable(ToolError):
    """There is no secret of this name for the workers, or none that can be used."""

    code = "secret_unusable"


class ResultNotKept(AgentsError):
    """A tool was called and gave something that cannot be stored: too large, no JSON."""

    code = "result_not_kept"

    def __init__(self, problem: str) -> None:
        super().__init__(
            "The call was made, and its effect took place; what it returned cannot be"
            f" kept: {problem}"
        )


class ModelFailed(AgentsError):
    """No usable reply came, after every attempt that made sense.

    `error_class` is the code that runs are counted by; the message is for people.
    `attempts` says what each try met, for the step's record.
    """

    code = "model_failed"
    status = 502
    retry = True

    def __init__(
        self,
        error_class: str,
        message: str,
        *,
        attempts: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.attempts = [dict(attempt) for attempt in attempts]


class MalformedLog(AgentsError):
    """A chat log that cannot be taken; says which conversation, message and why."""

    code = "malformed_log"
    status = 422


class AlreadyImported(AgentsError):
    """The conversation is a thread already; `known_as` names it."""

    code = "already_imported"
    status = 409

    def __init__(self, name: str, known_as: str) -> None:
        super().__init__(f"{name} was imported before, as {known_as}.")
        self.known_as = known_as


class LostRace(AgentsError):
    """The request is not any more what the page showed."""

    code = "lost_race"
    status = 409


class AlreadyDecided(LostRace):
    """Someone, or something, closed the request first."""

    code = "already_decided"

    def __init__(self, name: str, verdict: str, at: datetime | None) -> None:
        when = f" on {at:%-d %B at %H:%M:%S} UTC" if at else ""
        super().__init__(
            f"{name} {verdict} this{when}." if name else f"This was {verdict}{when}."
        )
        self.name = name
        self.verdict = verdict
        self.at = at


class Stale(LostRace):
    """The request changed since it was shown. Look again, then decide."""

    code = "stale"

    def __init__(self, shown: int, now: int) -> None:
        super().__init__(
            "This request changed since it was shown "
            f"(revision {shown}, now {now}). Look again, then decide."
        )
        self.shown = shown
        self.now = now


class NotEligible(AgentsError):
    """The person may see the request but not give this decision; it names the rule."""

    code = "not_eligible"
    status = 403


class ApprovalInvalid(AgentsError):
    """What is about to run is not what was approved, or not by whom it must be."""

    code = "approval_invalid"
    status = 409


class BranchBusy(AgentsError):
    """Another run works on the branch. Wait for it, cancel it, or fork."""

    code = "branch_busy"
    status = 409


class AlreadyStarted(AgentsError):
    """The caller's name for a run is taken, by a run that is not the one asked for."""

    code = "already_started"
    status = 409

    def __init__(self, external_id: str, by_what: str) -> None:
        super().__init__(
            f"The external id {external_id!r} is taken, {by_what}. Give another one."
        )


class NotRetryable(AgentsError):
    """Only a run that failed or was cancelled can be tried again."""

    code = "not_retryable"
    status = 409

    def __init__(self, run_status: str) -> None:
        super().__init__(
            f"This run is {run_status}; only one that failed or was cancelled can be "
            "tried again."
        )
