"""Which runs an export takes, and a file of conversations, as forms."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from django import forms

from agents.debug.trajectories import MOST, Wanted
from agents.errors import MalformedLog
from agents.models import Run
from agents.pages.audience import AudienceForm
from agents.pure.chatlog import Conversation, decode, parse

MOST_BYTES = 8 * 1024 * 1024  # of a file; larger ones come in by command
MOST_MESSAGES = 2_000  # of a file: each is a step that is stored while somebody waits
TITLE_CHARACTERS = 60
OUTCOMES = [
    (Run.Status.SUCCEEDED.value, "succeeded"),
    (Run.Status.FAILED.value, "failed"),
]
VERDICTS = [("", "any, or none"), ("good", "good"), ("bad", "bad")]


class WantedForm(forms.Form):
    """As the command's options; what is left empty narrows nothing."""

    agent = forms.ChoiceField(required=False, label="Agent")
    version = forms.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, label="Agent's version"
    )
    outcome = forms.ChoiceField(required=False, choices=OUTCOMES, label="Outcome")
    verdict = forms.ChoiceField(required=False, choices=VERDICTS, label="Verdict")
    max_cost = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=12,
        decimal_places=6,
        label="Cost at most, $",
    )
    unedited = forms.BooleanField(required=False)
    cheapest = forms.BooleanField(required=False)
    most = forms.IntegerField(
        required=False, min_value=1, max_value=MOST, label="The newest"
    )

    def __init__(self, *args: Any, agents: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        menu = [("", "any"), *((name, name) for name in agents)]
        self.fields["agent"] = forms.ChoiceField(
            required=False, choices=menu, label="Agent"
        )

    def wanted(self) -> Wanted:
        """Of a form that is valid."""
        values = self.cleaned_data
        return Wanted(
            agent=values["agent"],
            version=values["version"],
            outcome=values["outcome"] or Run.Status.SUCCEEDED,
            verdict=values["verdict"],
            most_cost=values["max_cost"],
            unedited=values["unedited"],
            cheapest=values["cheapest"],
            most=values["most"] or MOST,
        )

    def chosen(self) -> list[tuple[str, str]]:
        """What was chosen, for a form that sends the same again."""
        return [(name, self.data[name]) for name in self.fields if self.data.get(name)]


class ImportForm(AudienceForm):
    """A file of conversations, and who may see the threads that they become."""

    file = forms.FileField(
        allow_empty_file=True, error_messages={"required": "Choose a file."}
    )

    def clean_file(self) -> list[Conversation]:
        given = self.cleaned_data["file"]
        self._stem = PurePath(given.name).stem
        if given.size > MOST_BYTES:
            raise forms.ValidationError(
                f"It has {given.size:,} bytes; this page takes {MOST_BYTES // 1024**2} MB"
                " at most. Larger files come in with manage.py import_chat."
            )
        try:
            found = parse(decode(given.read()), lines=given.name.endswith(".jsonl"))
        except MalformedLog as wrong:
            raise forms.ValidationError(str(wrong)) from None
        messages = sum(len(conversation.messages) for conversation in found)
        if messages > MOST_MESSAGES:
            raise forms.ValidationError(
                f"It has {messages:,} messages; this page takes {MOST_MESSAGES:,} at most."
                " Larger files come in with manage.py import_chat."
            )
        return found

    @property
    def title(self) -> str:
        """For conversations without an id."""
        return self._stem[:TITLE_CHARACTERS] or "Imported"
