"""A thread's log beside a model of it that is nothing but lists of states.

Each rule does one thing to both. Whenever they are compared, every step of every branch
has the state that the model remembers; while the content is elsewhere, or one bit of it
is wrong, reading says so and gives nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection, transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from checkpoints import clock, gate
from checkpoints.access import Reason, UserPrincipal
from checkpoints.errors import CheckpointsError, Pruned, Shredded
from checkpoints.keys import hierarchy
from checkpoints.keys.rewrap import rewrap
from checkpoints.keys.rotation import rotate_thread_keys, rotate_workspace_key
from checkpoints.log import archive, expire, source
from checkpoints.log.append import NewStep, commit, writer
from checkpoints.log.hydrate import read, state
from checkpoints.log.pack import pack_branch
from checkpoints.log.restore import restore
from checkpoints.log.threads import create_thread, fork
from checkpoints.models import (
    Archive,
    Branch,
    Checkpoint,
    CheckpointDelta,
    Segment,
    Thread,
    Workspace,
)
from checkpoints.pure import codec, ops, schema
from checkpoints.pure.codec import State
from tests.checkpoints.strategies import near_twins, states, texts
from tests.conftest import as_owner

BRANCHES = Branch.objects.unscoped(Reason.TEST)
CHECKPOINTS = Checkpoint.objects.unscoped(Reason.TEST)
WHERE = ("host", "port", "dbname", "user", "password")
MOST_BRANCHES = 6

which = st.integers(0, MOST_BRANCHES - 1)
back = st.integers(0, 200)
here = precondition(lambda self: self.where == "here")
away = precondition(lambda self: self.where == "archived")
alive = precondition(lambda self: self.where != "shredded")

MIGRATIONS = schema.Migrations()
for version in range(1, 10):

    @MIGRATIONS.add(from_version=version)
    def count_versions(before: State) -> State:
        return {**before, "versions": [*before.get("versions", []), 0]}


@dataclass
class Line:
    """What the model knows of a branch: its states, step by step, from the start."""

    id: UUID
    states: list[bytes] = field(default_factory=list)  # canonical

    def head(self) -> State:
        return codec.parse(self.states[-1])


class Machine(RuleBasedStateMachine):
    """One thread and its branches; made anew for each example."""

    def __init__(
        self, workspace: Workspace, reader: UserPrincipal, settings: Any
    ) -> None:
        super().__init__()
        self.workspace = workspace
        self.reader = reader
        self.settings = settings  # pytest's: put back after the test
        self.where = "here"  # or archived, shredded
        first: State = {"messages": []}
        branch = create_thread(
            workspace=workspace,
            owner_id=reader.user_id,
            title="Machine",
            state=first,
            label="start",
        )
        self.thread_id = branch.thread_id
        self.lines = [Line(branch.pk, [codec.canonical(first)])]

    # What agents and people do

    @here
    @rule(which=which, text=texts)
    def append(self, which: int, text: str) -> None:
        line = self._line(which)
        message = {"id": str(len(line.states)), "role": "user", "content": text}
        if type(line.head().get("messages", [])) is list:
            self._commit(line, [ops.append("/messages", message)])
        else:
            self._commit(line, [ops.put("", "messages", [message])])

    @here
    @rule(which=which, many=st.integers(20, 70))
    def append_many(self, which: int, many: int) -> None:
        """So that segments fill up."""
        self._commit(
            self._line(which), *([ops.put("", "count", each)] for each in range(many))
        )

    @here
    @rule(which=which, after=states | near_twins().map(lambda pair: pair[0]))
    def edit(self, which: int, after: State) -> None:
        line = self._line(which)
        self._commit(line, ops.diff(line.head(), after), kind="edit")

    @here
    @precondition(lambda self: len(self.lines) < MOST_BRANCHES)
    @rule(which=which, back=back, after=st.none() | states)
    def fork(self, which: int, back: int, after: State | None) -> None:
        line = self._line(which)
        step = back % len(line.states)
        kept = line.states[: step + 1]
        edits = [] if after is None else ops.diff(codec.parse(kept[-1]), after)
        source = self._checkpoint(line, step)
        made = fork(source, name="fork", by_id=self.reader.user_id, ops=edits)
        if edits:
            kept = [*kept, codec.canonical(after)]
        self.lines.append(Line(made.pk, kept))

    @here
    @rule(which=which)
    def migrate(self, which: int) -> None:
        line = self._line(which)
        head = line.head()
        if schema.version(head) >= 9:
            return
        to = schema.version(head) + 1
        after = schema.migrate(head, to=to, migrations=MIGRATIONS)
        self._commit(line, ops.diff(head, after), kind="migrate")

    # What looks after the log

    @here
    @rule(which=which, force=st.booleans(), rewrite=st.booleans())
    def pack(self, which: int, force: bool, rewrite: bool) -> None:
        pack_branch(self._line(which).id, force=force, rewrite=rewrite)

    @here
    @rule()
    def rotate_data_key(self) -> None:
        rotate_thread_keys(self.thread_id)

    @rule()
    def rotate_workspace_key(self) -> None:
        with as_owner():  # `manage.py keys`
            rotate_workspace_key(self.workspace, before=clock.now())

    @rule(secret=st.binary(min_size=32, max_size=32).filter(lambda s: len(set(s)) > 16))
    def rotate_key_encryption_key(self, secret: bytes) -> None:
        old = self.settings.KEY_ENCRYPTION_KEYS
        self.settings.KEY_ENCRYPTION_KEYS = {f"kek:{len(old)}": secret, **old}
        with as_owner():  # `manage.py keys`
            rewrap()

    @rule()
    def forget_keys(self) -> None:
        """As another process, which has unwrapped none yet."""
        hierarchy.forget()

    @here
    @rule()
    def archive(self) -> None:
        archive.write(self.thread_id)

    @here
    @rule()
    def expire(self) -> None:
        assert expire.prune(archive.write(self.thread_id))
        self.where = "archived"

    @away
    @rule()
    def restore(self) -> None:
        restore(self._archive())
        self.where = "here"

    @alive
    @precondition(lambda self: len(self.lines) > 2)  # it ends the example
    @rule()
    def shred(self) -> None:
        expire.shred(self.thread_id, by=self.reader)
        self.where = "shredded"

    # What happens to it

    @here
    @rule(which=which, at=st.integers(0, 1), said=st.booleans())
    def crash_while_appending(self, which: int, at: int, said: bool) -> None:
        line = self._line(which)
        step = NewStep("model", [ops.put("", "crashed", at)], "crash")
        with self._crash(at, after=said):
            commit(writer(self._branch(line)), step)
        head = self._branch(line).head_step
        if head == len(line.states):  # it got through before the answer was lost
            line.states.append(codec.canonical({**line.head(), "crashed": at}))
        assert head == len(line.states) - 1

    @here
    @rule(which=which, at=st.integers(0, 15), said=st.booleans())
    def crash_while_packing(self, which: int, at: int, said: bool) -> None:
        with self._crash(at, after=said):
            pack_branch(self._line(which).id, force=True, rewrite=True)

    @here
    @rule(at=st.integers(0, 12), said=st.booleans())
    def crash_while_rotating(self, at: int, said: bool) -> None:
        with self._crash(at, after=said):
            rotate_thread_keys(self.thread_id)

    @here
    @rule(at=st.integers(0, 60), said=st.booleans())
    def crash_while_expiring(self, at: int, said: bool) -> None:
        """It went whole or not at all; the next try ends what this one began."""
        with self._crash(at, after=said):
            expire.prune(archive.write(self.thread_id))
        if not self._is_pruned():
            self.expire()
        self.where = "archived"

    @away
    @rule(at=st.integers(0, 40), said=st.booleans())
    def crash_while_restoring(self, at: int, said: bool) -> None:
        with self._crash(at, after=said):
            restore(self._archive())
        if self._is_pruned():
            restore(self._archive())
        self.where = "here"

    @here
    @rule(
        which=which, of_segments=st.booleans(), at=st.integers(0), bit=st.integers(0, 7)
    )
    def corrupt(self, which: int, of_segments: bool, at: int, bit: int) -> None:
        """One bit of one record of a branch: it is refused, and put right, read again."""
        line = self._line(which)
        model = Segment if of_segments else CheckpointDelta
        rows = model.objects.unscoped(Reason.TEST).filter(branch=line.id)
        row = rows.first()
        if row is None:
            return
        whole = bytes(row.record)
        broken = bytearray(whole)
        broken[at % len(whole)] ^= 1 << bit
        overwrite(row, bytes(broken))
        with pytest.raises(CheckpointsError):
            read(self._pass(), self._branch(line))
        with pytest.raises(CheckpointsError):
            state(self._pass(), self._branch(line))
        overwrite(row, whole)

    # What must hold

    @here
    @rule(which=which, back=back)
    def any_step_is_as_it_was(self, which: int, back: int) -> None:
        line = self._line(which)
        step = back % len(line.states)
        found = state(self._pass(), self._branch(line), step=step)
        assert codec.canonical(found) == line.states[step]

    @rule()
    def all_is_as_it_was(self) -> None:
        opened = self._pass()
        for line in self.lines:
            branch = self._branch(line)
            if self.where != "here":
                why = Pruned if self.where == "archived" else Shredded
                with pytest.raises(why):
                    read(opened, branch)
                with pytest.raises(why):
                    state(opened, branch)
                continue
            history = read(opened, branch)
            found = history.states(*range(len(history.records)))
            assert [codec.canonical(each) for each in found] == line.states
            assert codec.canonical(state(opened, branch)) == line.states[-1]

    def teardown(self) -> None:
        self.all_is_as_it_was()

    def _line(self, which: int) -> Line:
        return self.lines[which % len(self.lines)]

    def _branch(self, line: Line) -> Branch:
        return BRANCHES.select_related("thread").get(pk=line.id)

    def _pass(self) -> gate.Pass:
        thread = Thread.objects.unscoped(Reason.TEST).get(pk=self.thread_id)
        return gate.admit(self.reader, purpose="test", threads=[thread])

    def _is_pruned(self) -> bool:
        thread = Thread.objects.unscoped(Reason.TEST).get(pk=self.thread_id)
        return thread.pruned_at is not None

    def _archive(self) -> source.Source:
        newest = Archive.objects.unscoped(Reason.TEST).filter(
            thread_id=self.thread_id, status=Archive.Status.PRUNED
        )
        kept = newest.latest("created_at")
        return source.stored(kept.store, kept.object_name)

    def _checkpoint(self, line: Line, step: int) -> Checkpoint:
        """The row of a step, by way of the branches that it may be on."""
        branch = self._branch(line)
        while branch.fork_step >= step:
            assert branch.parent_id  # a fork has one
            branch = BRANCHES.get(pk=branch.parent_id)
        return CHECKPOINTS.get(branch=branch, step=step)

    def _commit(self, line: Line, *steps: list[ops.Op], kind: str = "model") -> None:
        at = writer(self._branch(line))
        for edits in steps:
            at = commit(at, NewStep(kind, edits, "step"))
            line.states.append(codec.canonical(ops.fold(line.head(), edits)))

    @contextmanager
    def _crash(self, at: int, *, after: bool) -> Iterator[None]:
        """PostgreSQL ends our session at the statement with this number."""
        try:
            with connection.execute_wrapper(Crash(at, after=after)):
                yield
        except (OperationalError, InterfaceError):
            pass
        with contextlib.suppress(OperationalError, InterfaceError):
            connection.close()
        hierarchy.forget()  # the next process has nothing in its caches


class Crash:
    """Ends the session from outside, before a statement is sent or before its answer."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: Any,
        context: Any,
    ) -> Any:
        self.left -= 1
        if self.left != -1:
            return execute(sql, params, many, context)
        if self.after:
            execute(sql, params, many, context)
        ours = context["connection"]
        known = ours.get_connection_params()
        where = {name: known[name] for name in WHERE if known.get(name)}
        with psycopg.connect(**where, autocommit=True) as other:
            pid = ours.connection.info.backend_pid
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return execute(sql, params, many, context)


def overwrite(row: Segment | CheckpointDelta, record: bytes) -> None:
    """As the owner of the tables could, who can switch triggers off."""
    table, key = row._meta.db_table, row._meta.pk.column
    with as_owner(), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            f"UPDATE {table} SET record = %s WHERE {key} = %s",  # noqa: S608
            [record, row.pk],
        )
