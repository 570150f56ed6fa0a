"""What the fork page takes: what may change, and how the branch goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms

from agents.models import Run
from agents.pages.cost_limit import cost_field
from agents.pages.damage import GONE
from agents.pages.fork.places import LONGEST, normal, text_at, value_at
from agents.pages.thread.cards import messages
from agents.pages.thread.place import LONGEST as LONGEST_PATH
from agents.pages.thread.place import asked_path
from agents.runs.edits import ForkEdits
from agents.runs.repeat import MOST as MOST_REPEATS
from checkpoints.blobs import Contents, is_ref
from checkpoints.errors import NotJson
from checkpoints.models import Branch
from checkpoints.pure import codec
from checkpoints.pure.codec import State, same

ONE_CALL = "call-"  # begins the names of fields: what becomes of one recorded call
NOT_OPENED = "Open this path first: then what is there can be changed."
GONE_TEXT = "This message cannot be edited here: open another one."


class ForkForm(forms.Form):
    """What may change in a fork. A field that is left as it was changes nothing.

    Two editors are open or not: `said_path` names the message whose text `said` is,
    `opened` the path that `value` is the JSON of. Both travel with the form, so that
    what was typed is never taken for the text of something else.
    """

    name = forms.CharField(
        max_length=60, error_messages={"required": "Give the branch a name."}
    )
    system = forms.CharField(required=False, strip=False, max_length=LONGEST)
    message = forms.CharField(required=False, strip=False, max_length=LONGEST)
    said_path = forms.CharField(required=False, strip=False, max_length=LONGEST_PATH)
    said = forms.CharField(
        required=False, strip=False, max_length=LONGEST, label="Message or result"
    )
    path = forms.CharField(required=False, strip=False, max_length=LONGEST_PATH)
    opened = forms.CharField(required=False, strip=False, max_length=LONGEST_PATH)
    value = forms.CharField(required=False, strip=False, max_length=LONGEST)
    model = forms.CharField(required=False, max_length=100)
    temperature = forms.FloatField(required=False)
    top_p = forms.FloatField(required=False)
    seed = forms.IntegerField(required=False)
    agent = forms.CharField(required=False, max_length=60)
    calls = forms.ChoiceField(
        required=False, choices=Branch.Calls.choices, label="Side effects"
    )
    resume = forms.ChoiceField(
        required=False, choices=Run.Resume.choices, label="Goes on from"
    )
    repeat = forms.IntegerField(required=False, min_value=1, max_value=MOST_REPEATS)
    max_cost = cost_field()
    reapply = forms.BooleanField(required=False, label="Later messages")
    request_key = forms.UUIDField()

    @property
    def sent(self) -> Any:
        """What came with the form, or what it starts with: as it is, unchecked."""
        return self.data if self.is_bound else self.initial

    @property
    def opened_path(self) -> str | None:
        """The path whose JSON is edited; "" is the whole state, None that none is."""
        found = self.sent.get("opened")
        return None if found is None else asked_path(found)

    @property
    def call_choices(self) -> dict[str, str]:
        """What was chosen for single calls of the source, by id; "": as the others."""
        found = self.sent
        return {
            name.removeprefix(ONE_CALL): found[name]
            for name in found
            if name.startswith(ONE_CALL)
        }

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        try:
            values["call_choices"] = {
                UUID(call): choice
                for call, choice in self.call_choices.items()
                if choice
            }
        except ValueError:
            self.add_error("calls", "This page has no such call.")
        return values

    def clean_path(self) -> str:
        path = asked_path(self.cleaned_data["path"])
        if path != (self.opened_path or ""):
            raise forms.ValidationError(NOT_OPENED)
        return path

    def edits(self, was: Was, state: State, contents: Contents) -> ForkEdits | None:
        """What differs from the source; None where errors were added."""
        values = self.cleaned_data

        def changed(name: str) -> Any:
            value, old = values[name], getattr(was, name)
            if isinstance(value, str):
                value = normal(value)
                old = normal(old)
            return None if value in (None, old) else value

        edits = ForkEdits(
            system=changed("system"),
            model=changed("model") or None,
            temperature=changed("temperature"),
            top_p=changed("top_p"),
            seed=changed("seed"),
            message=changed("message"),
            said=self._said(state, contents),
            value=self._value(state),
        )
        return None if self.errors else edits

    def _said(self, state: State, contents: Contents) -> dict[str, str]:
        path, typed = self.cleaned_data["said_path"], self.cleaned_data["said"]
        if not path:
            return {}
        was = text_at(state, path, contents)
        if was is None:
            self.add_error("said", GONE_TEXT)
            return {}
        return {} if normal(typed) == normal(was) else {path: normal(typed)}

    def _value(self, state: State) -> dict[str, Any]:
        if self.opened_path is None:
            return {}
        there, typed = value_at(state, self.opened_path), self.cleaned_data["value"]
        if there.problem:
            self.add_error("path", there.problem)
            return {}
        if there.nothing and not typed.strip():
            return {}
        try:
            value = codec.load_strict(normal(typed))
        except NotJson as problem:
            self.add_error("value", str(problem))
            return {}
        if not there.nothing and same(codec.clean(value)[0], there.was):
            return {}
        return {there.path: value}


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
