"""Who took a step, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from django.contrib.auth import get_user_model

from agents.pages.text import name_of

if TYPE_CHECKING:
    from agents.pages.thread.subject import Subject


class Taken(Protocol):
    """A step, as far as its person goes."""

    @property
    def actor_id(self) -> int | None: ...


def people(steps: Iterable[Taken]) -> dict[int, str]:
    """Names of those who took a step."""
    ids = {step.actor_id for step in steps if step.actor_id}
    if not ids:
        return {}
    return {
        user.pk: name_of(user) for user in get_user_model().objects.filter(pk__in=ids)
    }


def authors(subject: Subject, steps: Iterable[int]) -> dict[int, str]:
    """Who took each of these steps of the branch, where a person did; the rows of those
    that are not listed are asked for."""
    near, far = {}, {}
    for step in steps:
        if step in subject.near:
            near[step] = subject.steps[step].actor_id
        else:
            far[subject.where(step)[0]] = step
    names = subject.people
    if far:
        inputs = subject.thread.checkpoints.filter(pk__in=far, actor__isnull=False)
        rows = list(inputs.only("actor"))
        near |= {far[row.pk]: row.actor_id for row in rows}
        names = names | people(rows)
    return {step: names[actor] for step, actor in near.items() if actor in names}
