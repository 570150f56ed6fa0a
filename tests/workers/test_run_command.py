"""`manage.py run`: the API's verbs, for an operator at the server."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from agents.models import Run
from checkpoints.access import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.owner]


def run(*words: Any, who: str = "alice") -> Any:
    out = StringIO()
    name, *rest = map(str, words)
    call_command("run", name, *rest, "--workspace=acme", f"--as={who}", stdout=out)
    return json.loads(out.getvalue())


def test_the_verbs(server, work, alice):
    server.will_say("Hello.")
    made = run(
        "start", "test-desk", "Book it.", "--title=Trip", "--external-id=order-7"
    )
    assert run("start", "test-desk", "x", "--external-id=order-7")["id"] == made["id"]
    work()
    assert run("status", made["id"])["answer"] == "Hello."
    thread = made["thread"]
    kinds = [step["kind"] for step in run("history", thread)["steps"]]
    assert kinds == ["input", "model"]
    state = run("state", thread, 0, "--contents")["state"]
    assert state["goal"] == "Book it."
    forked = run("fork", thread, 0, "--name=warm", "--temperature=0.7", "--no-run")
    assert forked["run"] is None
    assert run("fork", thread, 0, "--branch", forked["branch"])["run"]
    said = run("message", thread, "And now?", "--branch", made["branch"])
    assert said["branch"] == made["branch"]
    live = Run.objects.get(branch=made["branch"], status="ready")
    assert run("cancel", live.pk)["cancelled"]
    assert run("retry", live.pk)["retry_of"] == str(live.pk)


def test_what_a_run_goes_on_from_can_be_chosen(server, alice):
    made = run("start", "test-desk", "Book it.")
    run("cancel", made["id"])
    again = run("retry", made["id"], "--resume=factual")["id"]
    run("cancel", again)
    run("message", made["thread"], "And?", "--resume=as_is")
    run("fork", made["thread"], 0, "--resume=factual")
    assert list(
        Run.objects.order_by("created_at").values_list("resume", flat=True)
    ) == [
        "",
        "factual",
        "as_is",
        "factual",
    ]
    with pytest.raises(CommandError, match="invalid choice: 'x'"):
        run("retry", again, "--resume=x")


def test_what_is_wrong_is_said(server, alice, join, other):
    join("vera", Role.VIEWER)
    made = run("start", "test-desk", "Book it.")
    for words, said in (
        (("status", uuid4()), "sees no run"),
        (("history", uuid4()), "sees no thread"),
        (("history", made["thread"], "--branch", uuid4()), "has no branch"),
        (("state", made["thread"], 9), "There is no step 9 here"),
        (("start", "nobody", "x"), "No agent is called 'nobody'"),
        (("retry", made["id"]), "only one that failed"),
    ):
        with pytest.raises(CommandError, match=said):
            run(*words)
    with pytest.raises(CommandError, match="an operator can"):
        run("start", "test-desk", "x", who="vera")
    with pytest.raises(CommandError, match="is no member of Acme"):
        run("start", "test-desk", "x", who="oscar")
