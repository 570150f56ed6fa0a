"""What a role makes for itself, PostgreSQL lets it; our functions do not look there."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction

from checkpoints import audit, audit_chain
from checkpoints.access import Reason
from checkpoints.db.session import DatabaseRole, acting_as, enter
from checkpoints.models import AuditEvent, AuditPending, CheckpointDelta
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

# What the web role needs no right of ours for.
IN_THE_WAY = """
CREATE TEMPORARY TABLE checkpoints_auditpending
    (event_id uuid, workspace_id uuid, position bigint);
CREATE FUNCTION pg_temp.as_whom() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET holdpoint.ran_as = %L', current_user);
    RETURN NULL;
END
$$;
CREATE TRIGGER as_whom AFTER INSERT ON pg_temp.checkpoints_auditpending
    FOR EACH ROW EXECUTE FUNCTION pg_temp.as_whom();
GRANT ALL ON pg_temp.checkpoints_auditpending TO PUBLIC
"""


def ask(sql: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.fetchone() if cursor.description else None


@pytest.fixture(autouse=True)
def none_is_left():
    yield
    connection.close()  # and with it what is temporary


def test_an_event_cannot_be_kept_out_of_the_chain(alice):
    with acting_as(DatabaseRole.WEB), transaction.atomic():
        enter(alice.workspace_id)
        ask(IN_THE_WAY)
        audit.record(alice, "probe")
        ran_as = ask("SELECT current_setting('holdpoint.ran_as', true)")[0]
        ask("DROP TABLE pg_temp.checkpoints_auditpending")
    assert not ran_as, f"the web role's code ran as {ran_as}"
    with as_owner():
        event = AuditEvent.objects.unscoped(Reason.TEST).get(action="probe")
        pending = AuditPending.objects.unscoped(Reason.TEST)
        assert pending.filter(event_id=event.pk).exists()
        audit_chain.link_pending()
        assert event.link.workspace_id == alice.workspace_id


def test_a_worker_cannot_make_up_the_rows_that_let_content_go(make_thread, alice):
    branch = make_thread(owner=alice)
    with acting_as(DatabaseRole.WORKER), pytest.raises(IntegrityError, match="be lost"):
        delete_behind_a_copy(branch.thread_id)
    assert CheckpointDelta.objects.unscoped(Reason.TEST).exists()


@transaction.atomic
def delete_behind_a_copy(thread_id: UUID) -> None:
    ask(
        "CREATE TEMPORARY TABLE checkpoints_segment AS"
        " SELECT thread_id, branch_id, 0 AS first_step, 9 AS last_step"
        " FROM checkpoints_checkpointdelta"
    )
    ask("DELETE FROM checkpoints_checkpointdelta WHERE thread_id = %s", thread_id)


def test_every_function_of_ours_says_where_it_looks():
    """But for those that look at no table."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, proconfig FROM pg_proc"
            " WHERE pronamespace = 'public'::regnamespace AND prosrc ~ 'checkpoints_'"
        )
        found = dict(cursor.fetchall())
    assert len(found) == 5
    assert set(map(str, found.values())) == {"['search_path=public, pg_temp']"}
