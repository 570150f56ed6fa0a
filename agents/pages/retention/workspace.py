"""The workspace's policies, what they lead to now, the journal and the archives."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from agents.models import Agent
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.runs.retention import WORK
from checkpoints import audit
from checkpoints.access import Role, UserPrincipal
from checkpoints.log import content, rules, tasks
from checkpoints.models import Archive, Deletion, RetentionPolicy, RetentionTask

ADMIN = "Only an admin of the workspace sets how long threads are kept."
ROWS = 25  # of the journal, of archives and of tasks
MOST_DAYS = 36_500


class PolicyForm(forms.Form):
    """One policy, as its form has it; `policy` is empty for a new one."""

    policy = forms.UUIDField(required=False)
    agent = forms.CharField(required=False, max_length=60)
    keep_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_DAYS,
        error_messages={
            "invalid": "A whole number of days, or nothing: for ever.",
            "min_value": "At least 1 day; nothing means for ever.",
            "max_value": "At most a hundred years; nothing means for ever.",
        },
    )
    then = forms.ChoiceField(
        choices=RetentionPolicy.Then.choices,
        error_messages={"required": "Choose what happens then."},
    )
    archive_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_DAYS,
        error_messages={
            "invalid": "A whole number of days, or nothing: for ever.",
            "min_value": "At least 1 day; nothing means for ever.",
            "max_value": "At most a hundred years; nothing means for ever.",
        },
    )
    max_steps = forms.IntegerField(
        required=False,
        min_value=10,
        max_value=1_000_000,
        error_messages={
            "invalid": "A whole number of steps, or nothing: no limit.",
            "min_value": "At least 10 steps; nothing means no limit.",
            "max_value": "At most a million; nothing means no limit.",
        },
    )

    def __init__(self, *args: Any, agents: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._agents = agents

    def clean_agent(self) -> str:
        agent: str = self.cleaned_data["agent"]
        if agent and agent not in self._agents:
            raise forms.ValidationError("This workspace knows no such agent.")
        return agent


@require_http_methods(["GET", "HEAD", "POST"])
@member
def retention_page(request: MemberRequest) -> HttpResponse:
    """Admins' page; POST saves or removes a policy, or asks for a run, by `do`."""
    principal = request.principal
    if principal.role is not Role.ADMIN:
        raise PermissionDenied(ADMIN)
    if request.method != "POST":
        return _page(request)
    match request.POST.get("do", ""):
        case "run":
            asked = tasks.ask("sweep", by=principal)
            said = "Asked for. A worker does it in a moment."
            return _on(request, said if asked else "It was asked for already.")
        case "remove":
            return _on(request, _remove(principal, request.POST.get("policy", "")))
    form = PolicyForm(request.POST, agents=_agents(principal))
    if form.is_valid() and _save(principal, form):
        return _on(request, "Saved.")
    return _page(request, form)


def _save(principal: UserPrincipal, form: PolicyForm) -> bool:
    """False where the form has an error now."""
    values = {name: form.cleaned_data[name] for name in _COLUMNS}
    pk = form.cleaned_data["policy"]
    mine = RetentionPolicy.objects.for_user(principal)
    try:
        with transaction.atomic():
            if pk is None:
                policy = RetentionPolicy.objects.create(
                    workspace_id=principal.workspace_id, **values
                )
            elif mine.filter(pk=pk).update(**values):
                policy = mine.get(pk=pk)
            else:
                form.add_error(None, "This policy was removed meanwhile.")
                return False
            audit.record(
                principal,
                "policy",
                obj=policy,
                **{name: values[name] for name in _COLUMNS if name != "agent"},
            )
    except IntegrityError:
        form.add_error("agent", "There is a policy for this already; change that one.")
        return False
    return True


def _remove(principal: UserPrincipal, typed: str) -> str:
    try:
        pk = UUID(typed)
    except ValueError:
        return "It was removed already."
    policy = RetentionPolicy.objects.for_user(principal).filter(pk=pk).first()
    if policy is None:
        return "It was removed already."
    named = Archive.objects.for_user(principal).filter(policy=policy).exists() or (
        Deletion.objects.for_user(principal).filter(policy=policy).exists()
    )
    with transaction.atomic():
        audit.record(principal, "policy_remove", obj=policy)
        if not named:
            policy.delete()
            return "Removed."
        # The journal names it, so the row stays: it keeps everything from now on.
        RetentionPolicy.objects.for_user(principal).filter(pk=pk).update(
            keep_days=None, archive_days=None, max_steps=None
        )
    return "The journal names it, so it stays, and keeps everything from now on."


_COLUMNS = ("agent", "keep_days", "then", "archive_days", "max_steps")


def _on(request: MemberRequest, said: str) -> HttpResponse:
    return hx_location(request, "agents:retention", say=said)


def _agents(principal: UserPrincipal) -> list[str]:
    names = Agent.objects.for_user(principal).order_by("name")
    return list(names.values_list("name", flat=True))


def _page(request: MemberRequest, form: PolicyForm | None = None) -> HttpResponse:
    principal = request.principal
    report = [
        (found, rules.size_of(found.due))
        for found in rules.forecast(principal.workspace_id, WORK)
    ]
    journal = (
        Deletion.objects.for_user(principal)
        .select_related("by", "policy")
        .order_by("-at")[:ROWS]
    )
    return render(
        request,
        "retention.html",
        {
            "report": report,
            "form": form,
            "editing": str(form["policy"].value() or "") if form else None,
            "agents": _agents(principal),
            "then": RetentionPolicy.Then.choices,
            "due": sum(len(found.due) for found, _ in report),
            "kept": sum(sum(found.kept.values()) for found, _ in report),
            "bytes": sum(size for _, size in report),
            "journal": [(row, content.by_whom(row)) for row in journal],
            "archives": Archive.objects.for_user(principal)
            .exclude(status=Archive.Status.DELETED)
            .order_by("-created_at")[:ROWS],
            "tasks": RetentionTask.objects.for_user(principal)
            .select_related("by")
            .order_by("-asked_at")[:ROWS],
            "running": RetentionTask.objects.for_user(principal)
            .filter(thread=None, outcome=RetentionTask.Outcome.OPEN)
            .exists(),
        },
        status=422 if form else 200,
    )
