"""The Policies page. A draft goes back and forth with its form until it is saved.

Each button of the form says what to `do`; what was typed into the open rule is read
first, and kept whatever comes of it. Looking changes nothing, nor does a dry run.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from agents.errors import InvalidPolicy, NotEligible, Outdated
from agents.models import Policy, StickyRule
from agents.pages.policies import draft as drafts
from agents.pages.policies.draft import Draft, draft_of
from agents.pages.policies.outlook import outlook
from agents.pages.policies.page import Shown, may_edit, page
from agents.pages.policies.rule_form import (
    RuleForm,
    form_of,
    posted,
    rule_of,
)
from agents.pages.policies.scope import Scope, number_of, scope_of
from agents.pages.policies.trial import trial_of, tried
from agents.pages.policies.versions import versions
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location
from agents.policies import sticky, stored
from agents.pure.policies import Problem
from checkpoints.models import Group

ADMINS = "Admins of the workspace change its policies; everybody else may read them."
NO_CHARACTER = "This rule holds a character that cannot be stored."


@require_http_methods(["GET", "HEAD", "POST"])
@member
def policies(request: MemberRequest, name: str = "") -> HttpResponse:
    """Rules and the one that is open; POST changes the draft, tries it, or saves it."""
    scope = scope_of(request.principal, name)
    newest = scope.policies(request.principal).first()
    if request.method == "POST":
        if not may_edit(request.principal):
            raise PermissionDenied(ADMINS)
        found = _do(request, scope, newest)
        if isinstance(found, HttpResponse):
            return found
        return page(request, scope, newest, found)
    return page(request, scope, newest, _looked_at(request, scope, newest))


def _looked_at(request: MemberRequest, scope: Scope, newest: Policy | None) -> Shown:
    after = newest.version if newest else 0
    wanted = number_of(request.GET.get("restore", ""))
    old = None
    if wanted is not None and may_edit(request.principal):
        old = scope.policies(request.principal).filter(version=wanted).first()
    if old is not None:
        return Shown(draft_of(old.rules, after).opened(0), restored=old.version)
    place = number_of(request.GET.get("rule", ""))
    draft = draft_of(newest.rules if newest else [], after)
    chosen = draft.opened(place - 1 if place else None)
    return Shown(
        chosen if chosen.at is not None else draft.opened(0),
        chosen=chosen.at is not None,
    )


def _do(
    request: MemberRequest, scope: Scope, newest: Policy | None
) -> Shown | HttpResponse:
    """What the button says, of the draft that came with it."""
    do, _, at = request.POST.get("do", "").partition(":")
    place = number_of(at)
    draft = drafts.posted(request.POST)
    if draft is None:
        rules, after = (newest.rules, newest.version) if newest else ([], 0)
        return Shown(draft_of(rules, after).opened(0), lost_draft=True, status=422)
    form: RuleForm | None = None
    if draft.open is not None and "as" in request.POST:
        form = posted(request.POST, draft.open)
        if do in ("add-row", "drop-row"):
            return Shown(draft, _rows_of(form, do, place), chosen=True)
        rule, form = rule_of(form, draft.open)
        if not drafts.storable(rule):
            return Shown(draft, form, failed=NO_CHARACTER, chosen=True, status=422)
        if form.errors and do not in ("delete", "list"):
            failed = "This rule cannot be read as it is written."
            return Shown(draft, form, failed=failed, chosen=True, status=422)
        draft = draft if form.errors else draft.with_rule(rule)
    match do:
        case "up" | "down" if place is not None:
            return Shown(draft.moved(place, -1 if do == "up" else 1))
        case "open" if place is not None:
            return Shown(draft.opened(place), chosen=True)
        case "new":
            return Shown(draft.with_new(), chosen=True)
        case "delete" if place is not None:
            return Shown(draft.without(place))
        case "rows" | "json" if form is not None:
            return Shown(draft, _written(form, draft, do), chosen=True)
        case "test":
            return _tested(request, scope, draft)
        case "dry" | "save":
            return _tried(request, scope, draft, save=do == "save")
    return Shown(draft)


def _tried(
    request: MemberRequest, scope: Scope, draft: Draft, *, save: bool
) -> Shown | HttpResponse:
    """The dry run; and saved, where a dry run of these very rules was looked at."""
    principal = request.principal
    note = request.POST.get("note", "").replace("\0", "")
    shown = Shown(draft, note=note, chosen=draft.at is not None)
    if wrong := draft.problems:
        return _invalid(shown, wrong)
    if save and request.POST.get("dried") == draft.fingerprint:
        try:
            policy = stored.save(
                principal,
                scope.saved_for(principal),
                [dict(rule) for rule in draft.rules],
                note,
                after_version=draft.after,
            )
        except InvalidPolicy as invalid:
            return _invalid(shown, list(invalid.problems))
        except NotEligible as refused:
            raise PermissionDenied(str(refused)) from refused
        except Outdated:
            theirs = scope.policies(principal).first()
            mine = replace(draft, after=theirs.version if theirs else 0)
            return replace(shown, draft=mine, conflict=theirs, status=409)
        said = f"Saved as version {policy.version}."
        return hx_location(request, scope.page, say=said)
    try:
        tried = outlook(principal, scope, draft)
    except InvalidPolicy as invalid:
        return _invalid(shown, list(invalid.problems))
    failed = "Not saved yet: these are not the rules that the dry run was of."
    return replace(shown, dry=tried, failed=failed if save else "")


def _tested(request: MemberRequest, scope: Scope, draft: Draft) -> Shown:
    """A call on these rules, none of which is saved."""
    principal = request.principal
    shown = Shown(draft, chosen=draft.at is not None)
    if wrong := draft.problems:
        return _invalid(shown, wrong)
    names = {str(group.pk): group.name for group in Group.objects.for_user(principal)}
    box = trial_of(scope, request.POST.dict())
    try:
        box = tried(principal, scope, draft, box, names)
    except InvalidPolicy as invalid:
        return _invalid(shown, list(invalid.problems))
    return replace(shown, trial=box, status=422 if box.errors else 200)


def _invalid(shown: Shown, wrong: list[Problem]) -> Shown:
    """422: opened at the rule that is wrong, where the open one is not."""
    draft = shown.draft
    mine = [problem for problem in wrong if problem.index == draft.at]
    if not mine and wrong[0].index >= 0:
        draft = draft.opened(wrong[0].index)
    return replace(
        shown,
        draft=draft,
        problems=wrong,
        failed="These rules are not ready.",
        chosen=True,
        status=422,
    )


def _rows_of(form: RuleForm, do: str, place: int | None) -> RuleForm:
    """A row more is there anyhow: what was typed stays, and there is one below it."""
    if do == "drop-row" and place is not None:
        rows = tuple(row for n, row in enumerate(form.rows) if n != place)
        return replace(form, rows=rows)
    return form


def _written(form: RuleForm, draft: Draft, do: str) -> RuleForm:
    """The open rule's conditions as rows, or as JSON."""
    assert draft.open is not None  # the form is of it
    read = form_of(draft.open)
    if do == "json":
        return replace(read, as_json=True)
    if read.as_json:
        nested = "These conditions nest: rows cannot show them."
        return replace(read, errors={"when": nested})
    return read


@require_POST
@member
def revoke(request: MemberRequest, pk: UUID) -> HttpResponse:
    rule = get_object_or_404(StickyRule.objects.for_user(request.principal), pk=pk)
    try:
        sticky.revoke(rule, by=request.principal)
    except NotEligible as refused:
        raise PermissionDenied(str(refused)) from refused
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        back, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    said_ = "Revoked: such calls ask again."
    return hx_location(request, back if safe else "agents:policies", say=said_)


urlpatterns = [
    path("policies/", policies, name="policies"),
    path("policies/versions", versions, name="policy_versions"),
    path("policies/sticky/<uuid:pk>/revoke", revoke, name="sticky_revoke"),
    path("policies/<slug:name>/", policies, name="policies_of"),
    path("policies/<slug:name>/versions", versions, name="policy_versions_of"),
]
