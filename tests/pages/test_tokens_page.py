"""API tokens: made and revoked by admins, shown once, kept as a digest."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from checkpoints import tokens
from checkpoints.access import Reason, Role, Scope
from checkpoints.errors import BadToken, NotPermitted, TokenRefused, TooManyRequests
from checkpoints.models import ApiToken, AuditEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(join):
    return join("ada", Role.ADMIN)


@pytest.fixture
def admin(browser, ada):
    return browser(ada)


def only_token() -> ApiToken:
    return ApiToken.objects.unscoped(Reason.TEST).get()


def actions() -> list[str]:
    events = AuditEvent.objects.unscoped(Reason.TEST).order_by("position")
    return list(events.values_list("action", flat=True))


def shown(page: str) -> str:
    found = re.search(r'id="token"[^>]*>(hp_[\w-]{64})<', page)
    assert found is not None, page
    return found[1]


def test_a_token_is_shown_once_and_works(admin, ada):
    asked = {"name": "nightly", "scopes": ["read", "start"], "days": "30"}
    answer = admin.post("/tokens/", asked)
    text = shown(answer.content.decode())
    assert answer["Cache-Control"] == "no-store"
    assert text not in admin.get("/tokens/").content.decode()
    program = tokens.authenticate(text, address="192.0.2.7")
    assert program.scopes == {Scope.READ, Scope.START}
    assert program.workspace_id == ada.workspace_id
    assert program.name == "nightly (API)"
    row = only_token()
    assert row.prefix == text[:12]
    assert row.expires_at is not None
    assert timedelta(days=29) < row.expires_at - row.created_at < timedelta(days=31)
    assert "token_make" in actions()


def test_nothing_that_is_stored_gives_the_token(admin):
    text = shown(
        admin.post("/tokens/", {"name": "n", "scopes": "read"}).content.decode()
    )
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" t')  # noqa: S608
            assert not any(text[12:44] in row for (row,) in cursor.fetchall()), table


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"scopes": "read"}, "Name the program"),
        ({"name": "x" * 61, "scopes": "read"}, "at most 60 characters"),
        ({"name": "n"}, "Choose at least one"),
        ({"name": "n", "scopes": "everything"}, "everything is not one of"),
        ({"name": "n", "scopes": "read", "days": "0"}, "At least 1 day"),
        ({"name": "n", "scopes": "read", "days": "99999"}, "At most 3650 days"),
        ({"name": "n", "scopes": "read", "days": "x"}, "whole number of days"),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_made(admin, form, said):
    answer = admin.post("/tokens/", form)
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not ApiToken.objects.unscoped(Reason.TEST).exists()


def test_a_hostile_name_is_text(admin):
    name = "<script>alert(1)</script>\u202e"
    page = admin.post("/tokens/", {"name": name, "scopes": "read"}).content.decode()
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_a_revoked_token_opens_nothing(admin, ada):
    row, text = tokens.make(ada.workspace_id, name="n", scopes=["read"], by=ada)
    assert admin.post("/tokens/", {"revoke": row.pk}).status_code == 303
    with pytest.raises(BadToken):
        tokens.authenticate(text)
    assert not tokens.revoke(row, by=ada)
    assert actions().count("token_revoke") == 1
    assert "revoked" in admin.get("/tokens/").content.decode()


@pytest.mark.parametrize("pk", ["x", "3f0c2f3e-6f0e-4d0c-9f9b-0a4f1f4a2b77"])
def test_a_token_that_is_not_there_is_not_found(admin, pk):
    assert admin.post("/tokens/", {"revoke": pk}).status_code == 404


def test_admins_of_another_workspace_neither_see_nor_end_it(browser, ada, other):
    row, text = tokens.make(ada.workspace_id, name="ours", scopes=["read"], by=ada)
    client = browser(other)
    assert "ours" not in client.get("/tokens/").content.decode()
    assert client.post("/tokens/", {"revoke": row.pk}).status_code == 404
    with pytest.raises(NotPermitted):
        tokens.revoke(row, by=other)
    assert tokens.authenticate(text).workspace_id == ada.workspace_id


@pytest.mark.parametrize("role", set(Role) - {Role.ADMIN})
def test_only_admins_make_tokens(join, role):
    person = join("pat", role)
    with pytest.raises(NotPermitted):
        tokens.make(person.workspace_id, name="n", scopes=["read"], by=person)


def test_an_expired_token_opens_nothing(ada):
    row, text = tokens.make(
        ada.workspace_id, name="n", scopes=["read"], lasts=timedelta(days=1), by=ada
    )
    ApiToken.objects.unscoped(Reason.TEST).update(expires_at=row.created_at)
    with pytest.raises(BadToken):
        tokens.authenticate(text)


def test_forged_tokens_open_nothing(ada, other):
    _, text = tokens.make(ada.workspace_id, name="n", scopes=["read"], by=ada)
    _, theirs = tokens.make(other.workspace_id, name="n", scopes=["read"], by=other)
    forged = [
        "",
        "hp_",
        text[:-1],
        text + "A",
        text.replace(text[20], "A" if text[20] != "A" else "B"),
        text[:12] + theirs[12:],  # our prefix, their workspace
        text[:46] + theirs[46:],
        "hp_" + "A" * 64,
        "hp_" + "\u00e9" * 64,
    ]
    for each in forged:
        with pytest.raises(BadToken):
            tokens.authenticate(each)


def test_a_row_that_somebody_copied_or_an_archive_brought_opens_nothing(ada, other):
    row, text = tokens.make(ada.workspace_id, name="n", scopes=["read"], by=ada)
    rows = ApiToken.objects.unscoped(Reason.TEST)
    rows.update(digest=b"")
    with pytest.raises(BadToken):
        tokens.authenticate(text)
    assert not rows.live().exists()
    rows.update(digest=bytes(row.digest), workspace_id=other.workspace_id)
    with pytest.raises(BadToken):
        tokens.authenticate(text)


def test_a_token_has_so_many_requests_in_a_minute(ada, settings):
    settings.API_REQUESTS_PER_MINUTE = 3
    _, text = tokens.make(ada.workspace_id, name="n", scopes=["read"], by=ada)
    for _ in range(3):
        tokens.authenticate(text)
    with pytest.raises(TooManyRequests, match="Try again in") as refused:
        tokens.authenticate(text)
    assert 1 <= refused.value.wait <= 20
    busy = only_token().busy_until
    assert busy is not None
    ApiToken.objects.unscoped(Reason.TEST).update(
        busy_until=busy - timedelta(minutes=1)
    )
    tokens.authenticate(text)


# The command


def token(*args: str) -> str:
    out = StringIO()
    call_command("token", *args, stdout=out)
    return out.getvalue()


def test_the_command_makes_lists_and_revokes(workspace):
    text = token("make", "ci", "--scope", "start", "--workspace", "acme").strip()
    assert tokens.authenticate(text).scopes == {Scope.START}
    listed = token("list", "--workspace", "acme")
    assert text[:12] in listed
    assert text not in listed
    assert "[start]  for ever" in listed
    assert token("revoke", text[:12], "--workspace", "acme") == "Revoked.\n"
    assert "already" in token("revoke", text[:12], "--workspace", "acme")
    with pytest.raises(BadToken):
        tokens.authenticate(text)


def test_the_command_says_what_is_wrong(workspace):
    with pytest.raises(CommandError, match="begins with 'hp_nothing'"):
        token("revoke", "hp_nothing", "--workspace", "acme")
    with pytest.raises(CommandError, match="from 1 to 3650 days"):
        token("make", "x", "--scope=read", "--days=0", "--workspace", "acme")
    with pytest.raises(CommandError, match="No workspace is called 'acne'"):
        token("list", "--workspace", "acne")


@pytest.mark.parametrize(
    ("name", "scopes"),
    [("n", []), ("n", ["root"]), (" ", ["read"]), ("x" * 61, ["read"])],
)
def test_a_token_is_refused_where_it_makes_no_sense(ada, name, scopes):
    with pytest.raises(TokenRefused):
        tokens.make(ada.workspace_id, name=name, scopes=scopes, by=ada)
