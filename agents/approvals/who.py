"""Who may decide a request: the right, the groups that are asked, and who is left out.

Asked when a page is drawn, again under the locks of a decision, and once more of
everyone who approved just before the call runs (`verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet, prefetch_related_objects

from agents.models import Approval, Decision, Run
from agents.pure.terms import Terms
from checkpoints.access import Reason, Role, UserPrincipal, unscoped
from checkpoints.db.prepared import Prepared
from checkpoints.models import ApiToken, Branch, Group, Membership, ThreadInput

Verdict = Decision.Verdict

NO_MEMBER = "You are no longer a member of this workspace."
NOT_ASKED = "“{rule}” asks {groups}. You are in none of these groups."
EXCLUDED = {
    "starter": "You started this run. “{rule}” asks somebody else.",
    "author": "You wrote the message that this run acts on. “{rule}” asks somebody else.",
    "editor": "You edited the arguments. “{rule}” asks somebody else to approve them.",
}


def ineligible(
    approval: Approval, by: UserPrincipal, verdict: str = Verdict.APPROVE
) -> str:
    """Why this person may not decide the request so; empty when they may.

    Who is left out may still reject: nothing runs by it.
    """
    return without_right(approval, by) or not_asked(approval, by.user_id, verdict)


def ineligible_each(
    approvals: Sequence[Approval], by: UserPrincipal, verdict: str = Verdict.APPROVE
) -> list[str]:
    """As `ineligible`, for many requests with as many queries as for one."""
    member = _member(by)
    terms = [Terms.of(each.terms) for each in approvals]
    asked = [asked_groups(each, of) for each, of in zip(approvals, terms, strict=True)]
    groups = {pk for each in asked for pk in each}
    mine = _groups_of(by.workspace_id, by.user_id, groups) if groups else set()
    left_out = {
        which: _EXCLUDED[which]([each for each, of in concerned])
        for which in {which for of in terms for which in of.exclude}
        if (
            concerned := [
                (each, of)
                for each, of in zip(approvals, terms, strict=True)
                if which in of.exclude and not _counts_for_nothing(verdict, of)
            ]
        )
    }
    names: dict[UUID, str] = {}
    if groups - mine:
        names = dict(_named(by.workspace_id, groups).values_list("pk", "name"))
    found = []
    for each, of, wanted in zip(approvals, terms, asked, strict=True):
        why = _without_right(each, member)
        if not why and wanted and not mine & set(wanted):
            why = _said_not_asked(
                each, sorted(names[pk] for pk in wanted if pk in names)
            )
        if not why and not _counts_for_nothing(verdict, of):
            for which in of.exclude:
                if by.user_id in left_out[which][each.pk]:
                    why = EXCLUDED[which].format(rule=each.rule)
                    break
        found.append(why)
    return found


def without_right(approval: Approval, by: UserPrincipal) -> str:
    """Why this person may decide nothing of the kind; empty when they may."""
    return _without_right(approval, _member(by))


def _member(by: UserPrincipal) -> tuple[Any, ...] | None:
    return _MEMBER.row({"workspace": by.workspace_id, "user": by.user_id})


def _without_right(approval: Approval, member: tuple[Any, ...] | None) -> str:
    if member is None:
        return NO_MEMBER
    role, can_approve = member
    if role == Role.AUDITOR:
        return "Auditors read the audit log; they decide nothing."
    if has_right(approval, str(role), can_approve=can_approve == "true"):
        return ""
    if approval.kind == Approval.Kind.QUESTION:
        return "Viewers do not answer questions; an operator can."
    return (
        f"You may look at this. “{approval.rule}” asks someone with the right to "
        "approve, which a workspace admin can give you."
    )


def has_right(approval: Approval, role: str, *, can_approve: bool) -> bool:
    """Whether a member of this role decides such requests: operators answer questions."""
    if role == Role.AUDITOR:
        return False
    is_question = approval.kind == Approval.Kind.QUESTION
    return can_approve or (is_question and role in (Role.OPERATOR, Role.ADMIN))


def is_admin(by: UserPrincipal) -> bool:
    """Whether they are an admin with the right to approve, now."""
    return _member(by) == (Role.ADMIN, "true")


# As it is now: a session knows the member as it was when the request came in.
_MEMBER = Prepared(f"""
SELECT m.role, m.can_approve::text
FROM {Membership._meta.db_table} m JOIN {User._meta.db_table} u ON u.id = m.user_id
WHERE m.workspace_id = %(workspace)s AND m.user_id = %(user)s AND u.is_active
""")  # noqa: S608  # our own names; values are parameters


def not_asked(approval: Approval, user_id: int, verdict: str = Verdict.APPROVE) -> str:
    """Why the request's terms leave this person out; empty when they do not."""
    terms = Terms.of(approval.terms)
    groups = asked_groups(approval, terms)
    if groups and not _groups_of(approval.workspace_id, user_id, groups):
        return _said_not_asked(approval, group_names(approval, terms))
    if _counts_for_nothing(verdict, terms):
        return ""
    for which in terms.exclude:
        if user_id in _EXCLUDED[which]([approval])[approval.pk]:
            return EXCLUDED[which].format(rule=approval.rule)
    return ""


def _said_not_asked(approval: Approval, names: Sequence[str]) -> str:
    groups = " or ".join(names) or "a group that is gone"
    return NOT_ASKED.format(rule=approval.rule, groups=groups)


def _counts_for_nothing(verdict: str, terms: Terms) -> bool:
    """Whether nothing runs by it, so that nobody is left out."""
    return verdict == Verdict.REJECT or (
        verdict == Verdict.EDIT and edit_stays_open(terms)
    )


def edit_stays_open(terms: Terms) -> bool:
    """Whether edited arguments wait for others to approve them."""
    return terms.approvers > 1 or "editor" in terms.exclude


def asked_groups(approval: Approval, terms: Terms) -> list[UUID]:
    """Whose members may decide; empty: everyone with the right to approve.

    Each step of the escalation that was taken adds its group.
    """
    if not terms.groups:
        return []
    steps = terms.escalation[: approval.level]
    wanted = [*terms.groups, *(step.group for step in steps if step.group)]
    return [UUID(group) for group in dict.fromkeys(wanted)]


def group_names(approval: Approval, terms: Terms) -> list[str]:
    """Of the groups that are asked, for pages: whom the request waits for."""
    found = _named(approval.workspace_id, asked_groups(approval, terms))
    return list(found.order_by("name").values_list("name", flat=True))


def excluded(approval: Approval) -> dict[int, str]:
    """Who is left out, by user id, and as what: "starter", "author", "editor"."""
    terms = Terms.of(approval.terms)
    return {
        user_id: which
        for which in reversed(terms.exclude)
        for user_id in _EXCLUDED[which]([approval])[approval.pk]
    }


def _named(workspace_id: UUID, groups: Collection[UUID]) -> QuerySet[Group]:
    found: QuerySet[Group] = Group.objects.unscoped(Reason.WORKER).filter(
        workspace_id=workspace_id, pk__in=groups
    )
    return found


def _groups_of(workspace_id: UUID, user_id: int, groups: Collection[UUID]) -> set[UUID]:
    """Those of these groups that the person is in."""
    mine = _named(workspace_id, groups).filter(
        members__user_id=user_id, members__workspace_id=workspace_id
    )
    return set(mine.values_list("pk", flat=True))


# By request: who is left out of it. A query or two, however many requests there are.
LeftOut = dict[UUID, set[int]]


def _starters(approvals: Sequence[Approval]) -> LeftOut:
    """Who started the run; of a retry, whoever started the runs that it retries, too."""
    runs: dict[UUID, Run] = {}
    with unscoped(Reason.WORKER):
        ahead = {each.run_id for each in approvals}
        while ahead:
            runs |= Run.objects.select_related("grant__token").in_bulk(ahead)
            ahead = {run.retry_of_id for run in runs.values() if run.retry_of_id}
            ahead -= runs.keys()
    found: LeftOut = {}
    for each in approvals:
        people, seen = set[int](), set[UUID]()
        at: UUID | None = each.run_id
        while at is not None and at not in seen:
            seen.add(at)
            run = runs[at]
            people |= _people(run.started_by_id, _maker(run.grant.token))
            at = run.retry_of_id
        found[each.pk] = people
    return found


def _authors(approvals: Sequence[Approval]) -> LeftOut:
    """Who wrote the last message before the request, or made the branch with one."""
    found: LeftOut = {}
    with unscoped(Reason.WORKER):
        prefetch_related_objects(list(approvals), "checkpoint")
        todo = list(approvals)
        while todo:  # once, as what waits on one branch waits at one step
            steps = {each.branch_id: each.checkpoint.step for each in todo}
            now = [
                each for each in todo if steps[each.branch_id] == each.checkpoint.step
            ]
            todo = [each for each in todo if each not in now]
            wrote = _last_authors(steps)
            found |= {each.pk: wrote[each.branch_id] for each in now}
    return found


def _last_authors(steps: Mapping[UUID, int]) -> dict[UUID, set[int]]:
    """Of the last message on each of these branches, up to this step of it."""
    upto = Q(pk=None)
    for branch, step in steps.items():
        upto |= Q(branch=branch, checkpoint__step__lte=step)
    inputs = (
        ThreadInput.objects.filter(upto)
        .order_by("branch_id", "-position")
        .distinct("branch_id")
        .values_list("branch_id", "author_id", "token__created_by_id")
    )
    found = {branch: _people(author, maker) for branch, author, maker in inputs}
    silent = steps.keys() - found.keys()
    if silent:
        for row in Branch.objects.select_related("thread").filter(pk__in=silent):
            made = row.created_by_id if row.parent_id else row.thread.owner_id
            found[row.pk] = _people(made)
    return found


def _editors(approvals: Sequence[Approval]) -> LeftOut:
    """Everyone who edited the arguments of this request."""
    found: LeftOut = {each.pk: set() for each in approvals}
    edits = Decision.objects.unscoped(Reason.WORKER).filter(
        approval__in=found, verdict=Verdict.EDIT
    )
    for pk, user_id in edits.values_list("approval_id", "by_id"):
        found[pk].add(user_id)
    return found


def _maker(token: ApiToken | None) -> int | None:
    """A program acts for whoever made its token."""
    return token.created_by_id if token else None


def _people(*ids: int | None) -> set[int]:
    return {person for person in ids if person is not None}


_EXCLUDED: dict[str, Callable[[Sequence[Approval]], LeftOut]] = {
    "starter": _starters,
    "author": _authors,
    "editor": _editors,
}
