"""Fork a step: a branch that goes on from it, with an edited prompt, parameter or message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods, require_POST

from agents.errors import AgentsError, InvalidEdit
from agents.models import ToolCall
from agents.pages.damage import GONE, NO_STORE
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location, see_other
from agents.pages.thread.cards import messages
from agents.pages.thread.diff import DiffLine, text_lines
from agents.pages.thread.place import Place
from agents.pages.thread.rights import VIEWER
from agents.pages.thread.steps import Step
from agents.pages.thread.subject import Subject, calls_of, load
from agents.pure.context import calls_of as calls_of_reply
from agents.pure.context import messages_of
from agents.runs.edits import ForkEdits
from agents.runs.start import fork_run
from agents.tools import registry
from checkpoints.blobs import Contents, is_ref
from checkpoints.errors import FutureSchema, StoreUnavailable
from checkpoints.models import Branch, Checkpoint
from checkpoints.pure import text
from checkpoints.pure.codec import State

LONGEST = 100_000  # characters of a prompt or message


class ForkForm(forms.Form):
    """What may change in a fork. A field that is left as it was changes nothing."""

    name = forms.CharField(
        max_length=60, error_messages={"required": "Give the branch a name."}
    )
    system = forms.CharField(required=False, strip=False, max_length=LONGEST)
    message = forms.CharField(required=False, strip=False, max_length=LONGEST)
    model = forms.CharField(required=False, max_length=100)
    temperature = forms.FloatField(required=False)
    top_p = forms.FloatField(required=False)
    seed = forms.IntegerField(required=False)
    agent = forms.CharField(required=False, max_length=60)
    calls = forms.ChoiceField(required=False, choices=Branch.Calls.choices)
    request_key = forms.UUIDField()

    def edits(self, was: Was) -> ForkEdits:
        """What differs from the source."""
        values = self.cleaned_data

        def changed(name: str) -> Any:
            value = values[name]
            if isinstance(value, str):
                value = value.replace("\r\n", "\n")  # as browsers send a line's end
            return None if value in (None, getattr(was, name)) else value

        return ForkEdits(
            system=changed("system"),
            model=changed("model") or None,
            temperature=changed("temperature"),
            top_p=changed("top_p"),
            seed=changed("seed"),
            message=changed("message"),
        )


@dataclass(frozen=True)
class Was:
    """What the form starts with: the source's values."""

    system: str
    message: str
    model: str
    temperature: float | None
    top_p: float | None
    seed: int | None

    # The message is too long for the form, or cannot be read: a fork keeps it.
    kept: bool = False

    @classmethod
    def of(cls, state: State, contents: Contents) -> Was:
        params = state.get("params")
        params = params if isinstance(params, dict) else {}
        said, kept = "", False
        for message in reversed(messages(state)):
            if isinstance(message, dict) and message.get("role") == "user":
                content = message.get("content")
                if is_ref(content):
                    try:
                        content = contents.restore(content)
                    except GONE:
                        kept = True
                said = content if isinstance(content, str) else ""
                break
        if len(said) > LONGEST:
            said, kept = "", True
        return cls(
            system=str(params.get("system") or ""),
            message=said,
            model=str(params.get("model") or ""),
            temperature=params.get("temperature"),
            top_p=params.get("top_p"),
            seed=params.get("seed"),
            kept=kept,
        )

    def initial(self) -> dict[str, Any]:
        names = self.__dataclass_fields__.keys() - {"kept"}
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class LaterCalls:
    """Calls of one tool that the source made after the step."""

    tool: str
    effect: str
    times: int
    said: dict[str, str]  # what becomes of them, by how the fork makes its calls


@dataclass(frozen=True)
class Estimate:
    """What the source took from the step on."""

    steps: int
    cost: Decimal | None
    latency_ms: int


@dataclass(frozen=True)
class TextDiff:
    lines: list[DiffLine]
    added: int
    removed: int


def text_diff(old: str, new: str) -> TextDiff:
    lines = text_lines(text.hunks(old, new.replace("\r\n", "\n")))
    return TextDiff(
        lines,
        added=sum(line.sign == "+" for line in lines),
        removed=sum(line.sign == "-" for line in lines),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@member
def fork(request: MemberRequest, pk: UUID, checkpoint: UUID) -> HttpResponse:
    """The form; and on POST the branch, with a run or without, or a preview."""
    if not request.principal.may_operate:
        raise PermissionDenied(VIEWER)
    branch = _uuid(request.GET.get("branch"))
    subject = load(
        request.principal, pk, branch=branch, checkpoint=checkpoint, purpose="fork page"
    )
    at = subject.at(checkpoint, None)
    if subject.history is None or at is None or subject.future(at.step):
        return see_other(Place(pk, branch, checkpoint).page)  # which says why
    assert subject.opened is not None  # `load` opens the history with it
    contents = Contents(subject.opened, pk)
    was = Was.of(subject.history.state_at(at.step), contents)
    if request.method != "POST":
        initial = was.initial() | {
            "name": _free_name(subject.names.values()),
            "request_key": uuid4(),
        }
        return _page(request, subject, at, was, ForkForm(initial=initial))
    form = ForkForm(request.POST)
    if not form.is_valid() or request.POST.get("do") == "preview":
        status = 200 if form.is_valid() else 422
        return _page(request, subject, at, was, form, status=status)
    source = get_object_or_404(
        Checkpoint.objects.for_user(request.principal).select_related(
            "branch", "thread"
        ),
        pk=at.id,
    )
    runs = request.POST.get("do") != "create"
    try:
        made = fork_run(
            source,
            edits=form.edits(was),
            name=form.cleaned_data["name"],
            by=request.principal,
            run=runs,
            agent=form.cleaned_data["agent"],
            calls=form.cleaned_data["calls"] or Branch.Calls.RECORDED,
            request_key=form.cleaned_data["request_key"],
        )
    except InvalidEdit as wrong:
        for name, problem in wrong.fields.items():
            form.add_error(name, problem)
    except (AgentsError, FutureSchema) as error:
        form.add_error(None, str(error))
    except StoreUnavailable:
        form.add_error("message", NO_STORE)
    else:
        said = "Forked, and a run is queued" if runs else "Branch created"
        return hx_location(
            request, Place(pk, made.pk).page, say=f"{said}. The source is as it was."
        )
    return _page(request, subject, at, was, form, status=422)


@require_POST
@member
def preview(request: MemberRequest) -> HttpResponse:
    """The difference between two texts that the page holds; opens and changes nothing."""
    name = "message" if request.GET.get("of") == "message" else "system"
    old = request.POST.get(f"was_{name}", "")[:LONGEST].replace("\r\n", "\n")
    diff = text_diff(old, request.POST.get(name, "")[:LONGEST])
    return render(request, "fork/_diff.html", {"diff": diff, "name": name})


def _page(
    request: MemberRequest,
    subject: Subject,
    at: Step,
    was: Was,
    form: ForkForm,
    *,
    status: int = 200,
) -> HttpResponse:
    calls = calls_of(subject)
    later = subject.steps[at.step + 1 :]
    context = {
        "subject": subject,
        "thread": subject.thread,
        "at": at,
        "branch_name": subject.names[subject.branch.pk],
        "form": form,
        "was": was,
        "diffs": {
            name: text_diff(getattr(was, name), form[name].value() or "")
            for name in ("system", "message")
        },
        "calls": CALLS,
        "chosen": form["calls"].value() or Branch.Calls.RECORDED,
        "anything_else": {
            Branch.Calls.RECORDED: "asks a person",
            Branch.Calls.SIMULATE: "simulated: not run",
            Branch.Calls.LIVE: "asks a person, then runs",
        },
        "later": later_calls(calls, subject.steps, at),
        "asked_again": asked_again(calls, subject.steps, at),
        "estimate": Estimate(
            steps=len(later),
            cost=sum((step.cost for step in later if step.cost), Decimal(0)) or None,
            latency_ms=sum(step.latency_ms or 0 for step in later),
        ),
        "answered": _answered(subject, at),
        "agents": [] if subject.runs else [agent.name for agent in registry],
        "back": Place(
            subject.thread.pk,
            None if at.branch_id == subject.branch.pk else subject.branch.pk,
            at.id,
        ).page,
        "action": reverse("agents:fork", args=[subject.thread.pk, at.id])
        + f"?branch={subject.branch.pk}",
    }
    return render(request, "fork.html", context, status=status)


def _answered(subject: Subject, at: Step) -> bool:
    """Whether the agent has answered at this step, so that a run would end at once."""
    assert subject.history is not None  # `fork` sends away who may not read
    said = messages_of(subject.history.state_at(at.step))
    return (
        bool(said) and said[-1]["role"] == "assistant" and not calls_of_reply(said[-1])
    )


def later_calls(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[LaterCalls]:
    """By tool, what was called after the step, and what becomes of it in a fork."""
    found: dict[tuple[str, str], list[ToolCall]] = {}
    for call in _after(calls, steps, at):
        found.setdefault((call.tool or "unregistered tool", call.effect), []).append(
            call
        )
    return [
        LaterCalls(tool, effect, len(made), _becomes(effect, made))
        for (tool, effect), made in found.items()
    ]


def asked_again(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[str]:
    """Requests of the source that a fork would have to make anew."""
    return [
        str(approval)
        for call in _after(calls, steps, at)
        if (approval := getattr(call, "approval", None)) is not None
    ]


def _after(
    calls: Sequence[ToolCall], steps: Sequence[Step], at: Step
) -> list[ToolCall]:
    number = {step.id: step.step for step in steps}
    return [
        call
        for call in calls
        if number.get(call.result_checkpoint_id or call.reply_id, -1) > at.step
        or call.result_checkpoint_id is None
    ]


def _becomes(effect: str, made: Iterable[ToolCall]) -> dict[str, str]:
    if effect in {ToolCall.Effect.NONE, ToolCall.Effect.READ}:
        return dict.fromkeys(Branch.Calls.values, "runs again: it only looks")
    recorded = any(call.status == ToolCall.Status.SUCCEEDED for call in made)
    same = "the recorded result, where the call is the same; else " if recorded else ""
    return {
        Branch.Calls.RECORDED: f"{same}asks a person",
        Branch.Calls.SIMULATE: f"{same}simulated: not run",
        Branch.Calls.LIVE: "asks a person, then runs",
    }


CALLS = {
    Branch.Calls.RECORDED: (
        "Recorded results",
        "What the source got for the same call; a person is asked where there is none.",
    ),
    Branch.Calls.SIMULATE: (
        "Simulate",
        "Recorded results; any other call with an effect is not run, and the agent goes "
        "on as if it had been.",
    ),
    Branch.Calls.LIVE: (
        "Live",
        "Calls with effects run, for real and again; a person is asked about each.",
    ),
}


def _free_name(taken: Iterable[str]) -> str:
    names = set(taken)
    return next(name for n in count(1) if (name := f"what-if-{n}") not in names)


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


urlpatterns = [
    path("threads/<uuid:pk>/fork/<uuid:checkpoint>/", fork, name="fork"),
    path("f/fork/diff", preview, name="fork_diff"),
]
