"""Who may see a thread that a form makes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from agents.pure.visible import flat
from checkpoints.access import ScopedQuerySet, UserPrincipal
from checkpoints.models import Group, Thread


class AudienceForm(forms.Form):
    """Makes a thread, once however often it is sent."""

    visibility = forms.ChoiceField()  # or a group's id
    request_key = forms.UUIDField()

    def __init__(self, *args: Any, groups: Iterable[Group], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups = {str(group.pk): group for group in groups}
        self.fields["visibility"] = forms.ChoiceField(
            choices=[
                (Thread.Visibility.WORKSPACE, "everyone in the workspace"),
                *(
                    (pk, f"the group {flat(group.name)}")
                    for pk, group in self.groups.items()
                ),
                (Thread.Visibility.PRIVATE, "only me"),
            ]
        )

    @property
    def audience(self) -> dict[str, Any]:
        """Who may see the thread, as services take it."""
        chosen = self.cleaned_data["visibility"]
        if chosen in self.groups:
            group = self.groups[chosen]
            return {"visibility": Thread.Visibility.GROUP, "group": group}
        return {"visibility": chosen}


def groups_of(principal: UserPrincipal) -> ScopedQuerySet[Group]:
    """The groups that this person can share a thread with."""
    return Group.objects.for_user(principal).filter(pk__in=principal.groups)
