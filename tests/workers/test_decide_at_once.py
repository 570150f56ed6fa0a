"""A hundred people decide one request at the same moment, through the web process.

Half of them by the page's form, half by the API. ROUNDS=50 AT_ONCE=100 goes on for as long
as the issue asks, on a machine with nothing else to do; a few rounds, each with a hundred
requests, go with the suite.
"""

from __future__ import annotations

import json
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client

from agents.models import Approval, Decision, Run
from agents.pages.inbox.opening import open_asked
from checkpoints import tokens
from checkpoints.access import Role
from tests.conftest import as_owner
from tests.workers.conftest import pending
from tests.workers.web import web

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.unmeasured,
]

PEOPLE = 100
ROUNDS = int(os.environ.get("ROUNDS", "2"))
# More only wait in line for this machine's processors, and ten seconds at most for one of
# the web process's connections.
AT_ONCE = int(os.environ.get("AT_ONCE", "25"))


class Stay(HTTPRedirectHandler):
    """A decision by the form answers with the way to the next request."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def sent(request: Request) -> tuple[int, str]:
    try:
        with build_opener(Stay()).open(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as answer:
        return answer.code, answer.read().decode()


class ByForm:
    """A person at the page, signed in."""

    shown = ""  # what everybody's page of the request carries

    def __init__(self, address: str, user: User) -> None:
        client = Client()
        client.force_login(user)
        self.address = address
        self.name = user.get_full_name()
        self.csrf = secrets.token_hex(16)
        session = client.cookies[django_settings.SESSION_COOKIE_NAME].value
        self.cookies = f"sessionid={session}; csrftoken={self.csrf}"

    def decide(self, asked: Approval) -> tuple[int, str]:
        form = {
            "csrfmiddlewaretoken": self.csrf,
            "decision": "approve",
            "revision": asked.revision,
            "digest": bytes(asked.digest).hex(),
            "shown": self.shown,
        }
        return sent(
            Request(  # noqa: S310  # our own server
                f"{self.address}/inbox/{asked.pk}/decide",
                urlencode(form).encode(),
                {"Cookie": self.cookies, "HX-Request": "true"},
            )
        )


class ByToken:
    """A person's program."""

    def __init__(self, address: str, token: str, name: str) -> None:
        self.address = address
        self.token = token
        self.name = name

    def decide(self, asked: Approval) -> tuple[int, str]:
        said = {
            "verdict": "approve",
            "revision": asked.revision,
            "digest": bytes(asked.digest).hex(),
        }
        return sent(
            Request(  # noqa: S310  # our own server
                f"{self.address}/api/v1/approvals/{asked.pk}/decision",
                json.dumps(said).encode(),
                {
                    "Authorization": f"Bearer {self.token}",
                    "Content-Type": "application/json",
                },
            )
        )


def test_one_of_a_hundred_decides_and_the_others_learn_who(
    begin, server, work, workers, join, tmp_path
):
    people: list[ByForm | ByToken] = []
    with web(workers.web_env, tmp_path / "web.log") as address:
        for n in range(PEOPLE):
            person = join(f"person{n:03}", Role.ADMIN, can_approve=True)
            with as_owner():
                if n % 2:
                    _, token = tokens.make(
                        person.workspace_id, name="x", scopes=["decide"], by=person
                    )
                    people.append(ByToken(address, token, person.name))
                else:
                    user = User.objects.get(pk=person.user_id)
                    people.append(ByForm(address, user))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for n in range(ROUNDS):
                server.will_call(f"c{n}", "book", item=f"TP {n}", price="1200")
                server.will_say("Booked.")
                run = begin(
                    f"Book trip {n}."
                )  # the same words get the same reply again
                work()
                (asked,) = pending(run)
                ByForm.shown = open_asked(person, asked).shown
                gate = Barrier(AT_ONCE)

                def decide(
                    each: ByForm | ByToken,
                    asked: Approval = asked,
                    gate: Barrier = gate,
                ) -> tuple[int, str]:
                    gate.wait(60)
                    return each.decide(asked)

                answers = list(pool.map(decide, people))
                won = [
                    person
                    for person, (status, _) in zip(people, answers, strict=True)
                    if status in (200, 302, 303)
                ]
                assert len(won) == 1, [status for status, _ in answers]
                lost = [answer for answer in answers if answer[0] == 409]
                odd = [(status, text[:300]) for status, text in answers if status > 409]
                log = (tmp_path / "web.log").read_text()
                assert len(lost) == PEOPLE - 1, (n, odd, log[-8000:])
                assert all(won[0].name in text for _, text in lost)
                (decision,) = Decision.objects.filter(approval=asked).select_related(
                    "by"
                )
                assert decision.by.get_full_name() == won[0].name
                work()
                run.refresh_from_db()
                assert run.status == Run.Status.SUCCEEDED
                effects = [effect["body"] for effect in server.ledger()]
                assert effects == [
                    {"item": f"TP {each}", "price": "1200"} for each in range(n + 1)
                ]
