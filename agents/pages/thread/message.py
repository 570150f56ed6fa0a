"""Send a message to the agent of a thread."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST

from agents.errors import AgentsError
from agents.pages.principal import MemberRequest, member
from agents.pages.respond import hx_location, is_fragment
from agents.pages.thread.place import Place
from agents.pages.thread.rights import VIEWER
from agents.runs.start import send_message
from checkpoints.models import Branch

LONGEST = 20_000  # characters


class MessageForm(forms.Form):
    branch = forms.UUIDField(widget=forms.HiddenInput)
    message = forms.CharField(
        max_length=LONGEST,
        error_messages={"required": "Write what the agent should know or do."},
    )
    request_key = forms.UUIDField(widget=forms.HiddenInput)
