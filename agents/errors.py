"""Everything that agents, runs and approvals refuse, and whether trying again helps.

    AgentsError
    ├─ BadDeclaration, UnknownAgent, UnknownTool  the code does not provide it
    ├─ EmptyMessage, InvalidEdit, InvalidDecision,
    │  InvalidPolicy, InvalidSticky               what was given does not fit
    ├─ ArgumentsDoNotFit, ToolError ─ SecretUnusable,
    │  ResultNotKept                              a call goes back to the model
    ├─ ModelFailed                                no usable reply came
    ├─ AdvanceFailed                              an agent's own loop gave no next step
    ├─ MalformedLog, BadFile, AlreadyImported, TooLarge,
    │  NoTestCase                                 a file is not taken, or not made
    ├─ InvalidRemark                              a note, label or reason does not fit
    ├─ LostRace ─ AlreadyDecided, Stale, NotAsShown,
    │  Outdated, TooLate                          it is not any more as shown
    ├─ NotEligible ─ NeedsPage                    not for this person to decide
    ├─ ApprovalInvalid                            what was approved may not run
    ├─ NotAGuard                                  a guard or preview gave no such thing
    ├─ NotAskable                                 a step is no answer of a model
    └─ BranchBusy, AlreadyStarted, NotRetryable   the run is elsewhere by now

As in `checkpoints.errors`, a message names the thing, what was found and what was
expected, and never holds keys or prompts. What a tool or a model server said may
quote state: it is sealed where it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


class InvalidRemark(AgentsError):
    """What was written beside a thread is empty, too long, or one too many."""

    code = "invalid_remark"
    status = 422


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


@dataclass(frozen=True)
class Problem:
    """What is wrong with which field of which rule of a policy. -1: with all of it."""

    index: int
    field: str  # "outcome", "terms.grace"; empty: of the rule itself
    text: str


class InvalidPolicy(AgentsError):
    """A policy is not one; `problems` has a line for each field that is wrong."""

    code = "invalid_policy"
    status = 422

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(
            "; ".join(
                f"{'the policy' if problem.index < 0 else f'rule {problem.index + 1}'}"
                f"{f', {problem.field}' if problem.field else ''}: {problem.text}"
                for problem in problems
            )
        )
        self.problems = tuple(problems)


class InvalidSticky(AgentsError):
    """What is to be remembered is not narrow enough, or for too long; by field."""

    code = "invalid_sticky"
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


class FileRefused(ToolError):
    """What a tool was to do with the agent's files does not fit; nothing was changed."""


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


class AdvanceFailed(AgentsError):
    """An agent's own `advance` gave nothing that can be done next.

    `error_class` is the code that runs are counted by; the message names the function.
    """

    code = "advance_failed"
    retry = True

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class


class MalformedLog(AgentsError):
    """A chat log that cannot be taken; says which conversation, message and why."""

    code = "malformed_log"
    status = 422


class BadFile(AgentsError):
    """A bundle or a test case is not one that we take; `place` says where in it."""

    code = "bad_file"
    status = 422

    MOST = 300  # characters of a problem: it may quote a key or a path of the file

    def __init__(self, place: str, problem: str) -> None:
        if len(problem) > self.MOST:
            problem = f"{problem[: self.MOST - 1]}…"
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


class TooLarge(AgentsError):
    """What is to be exported is more than a file may hold; says what to do instead."""

    code = "too_large"
    status = 413


class NoTestCase(AgentsError):
    """A step cannot be saved as a test case; says why."""

    code = "no_test_case"
    status = 409


NOT_SHARED = "a thread that is not shared with you"


class AlreadyImported(AgentsError):
    """The conversation or bundle is a thread already; `known_as` names it."""

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
        self.is_repeat = False  # it was this very decision, sent twice

    @property
    def about(self) -> dict[str, str | None]:
        """For programs."""
        at = self.at.isoformat() if self.at else None
        return {"decided_by": self.name, "verdict": self.verdict, "decided_at": at}


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

    @property
    def about(self) -> dict[str, int]:
        """For programs."""
        return {"revision": self.now}


class NotAsShown(LostRace):
    """Its arguments are what they were, and what is shown beside them is not."""

    code = "not_as_shown"

    def __init__(self) -> None:
        super().__init__(
            "What is shown of this request, as its preview, is not what was shown when "
            "you decided. Look again, then decide."
        )


class TooLate(LostRace):
    """The decision cannot be taken back any more; the message says why."""

    code = "too_late"


class Outdated(LostRace):
    """Somebody saved another version meanwhile."""

    code = "outdated"

    def __init__(self, began_from: int, now: int) -> None:
        super().__init__(
            f"Somebody saved version {now} while you changed version {began_from}. "
            "Look at it, then save again."
        )
        self.began_from = began_from
        self.now = now


class NotEligible(AgentsError):
    """The person may see the request but not give this decision; it names the rule."""

    code = "not_eligible"
    status = 403


class NeedsPage(NotEligible):
    """Who decides this gives their password again; a program has none to give."""

    code = "needs_page"

    def __init__(self, path: str) -> None:
        super().__init__(
            "This request asks for the password of whoever decides it, and a token "
            f"cannot give one. Decide it on its page, {path}; a rejection needs none."
        )
        self.about = {"path": path}


class ApprovalInvalid(AgentsError):
    """What is about to run is not what was approved, or not by whom it must be."""

    code = "approval_invalid"
    status = 409


class NotAGuard(AgentsError):
    """A guard or a preview gave something that is none, or is too large."""

    code = "not_a_guard"


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


class NotAskable(AgentsError):
    """Only what a run here asked a model can be asked again, and is known whole."""

    code = "not_askable"
    status = 409

    def __init__(self, step: int, *, folded: bool = False) -> None:
        super().__init__(
            f"Step {step} keeps several that its agent took as one, so the request of the"
            " last is not known. Fork from the step before it."
            if folded
            else f"Step {step} is no answer that a model gave a run here, so there is no"
            " request to send again. Choose a step of kind model."
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
