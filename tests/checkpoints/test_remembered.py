"""Segments that were opened a moment ago: the same as opened anew, or not given at all."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest

from checkpoints import clock, gate
from checkpoints.access import Reason
from checkpoints.errors import DecryptionError, NotPermitted, Shredded
from checkpoints.log import hydrate
from checkpoints.log.line import SealedSegment
from checkpoints.log.pack import pack_branch
from checkpoints.log.remembered import Found, Remembered, segments
from checkpoints.log.threads import fork
from checkpoints.models import Branch, DataKey, Segment
from checkpoints.pure.ops import Op
from checkpoints.pure.segment import Packed
from tests.checkpoints.packing import grow, step_of
from tests.tampering import tamper

HEAD = 199


@pytest.fixture
def branch(make_thread, alice) -> Branch:
    """Three segments and a tail."""
    segments.forget()
    branch = make_thread(owner=alice)
    grow(branch, HEAD)
    pack_branch(branch.pk)
    return branch


@pytest.fixture
def look(alice):
    """As a page that shows the last steps does."""

    def look(branch: Branch, *, first: int = 195, by=alice):
        pass_ = gate.admit(by, purpose="test", threads=[branch.thread])
        return hydrate.around(pass_, branch, first=first, last=None)

    return look


def at(history, step: int) -> list[Op]:
    return next(ops for number, ops in history.operations() if number == step)


@pytest.mark.django_db
class TestABranch:
    def test_what_was_opened_a_moment_ago_is_not_opened_again(self, branch, look):
        first, second = look(branch), look(branch)
        assert list(first.operations()) == list(second.operations())
        assert at(first, 3) is at(second, 3)
        assert len(segments) == 3
        assert first.states(0, 100, HEAD) == second.states(0, 100, HEAD)

    def test_where_rows_are_read_it_is_opened_anew(self, branch, look):
        first, near = look(branch), look(branch, first=60)
        assert at(first, 3) is not at(near, 3)
        assert list(first.operations()) == list(near.operations())

    def test_other_ways_to_read_keep_nothing(self, branch, alice):
        pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
        hydrate.read(pass_, branch)
        hydrate.state(pass_, branch)
        hydrate.operations(pass_, branch)
        assert len(segments) == 0

    def test_a_fork_from_the_middle_has_what_it_inherits_and_no_more(
        self, branch, look, alice
    ):
        look(branch)
        other = fork(step_of(branch, 99), name="what-if", by_id=alice.user_id)
        grow(other, 30)
        forked = look(other, first=125)
        assert [step for step, _ in forked.operations()] == list(range(130))
        assert at(forked, 3) is at(look(branch), 3)
        pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
        assert list(forked.operations()) == list(
            hydrate.read(pass_, other).operations()
        )

    @pytest.mark.parametrize("what", ["one byte", "another segment's", "an older one"])
    def test_other_bytes_are_opened_and_refused(self, branch, look, what):
        look(branch)
        first, second, _ = Segment.objects.unscoped(Reason.TEST).order_by("first_step")
        record = bytes(first.record)
        record = {
            "one byte": record[:-1] + bytes([record[-1] ^ 1]),
            "another segment's": bytes(second.record),
            "an older one": record[: len(record) // 2],
        }[what]
        assert tamper(
            "UPDATE checkpoints_segment SET record = %s WHERE id = %s",
            [record, first.pk],
        )
        with pytest.raises(DecryptionError, match="Steps 0-63"):
            look(branch)

    def test_a_destroyed_key_opens_nothing(self, branch, look):
        look(branch)
        # In another process: this one still has the key, too.
        keys = DataKey.objects.unscoped(Reason.TEST).filter(thread=branch.thread)
        keys.update(wrapped=None, destroyed_at=clock.now())
        with pytest.raises(Shredded):
            look(branch)

    def test_who_may_not_read_is_given_nothing(self, branch, look, auditor):
        look(branch)
        with pytest.raises(NotPermitted):
            look(branch, by=auditor)


def sealed(number: int, *, record: bytes = b"record") -> SealedSegment:
    return SealedSegment(
        branch=uuid4(),
        first=64 * number,
        last=64 * number + 63,
        id=uuid4(),
        data_key=uuid4(),
        alive=True,
        record=record,
    )


def found(of: SealedSegment) -> Found:
    packed = Packed(
        of.branch, of.first, of.last, None, b"", b"", b"", (), memoryview(b"")
    )
    return Found(packed, [{"ops": []}])


class TestWhatIsKept:
    @pytest.fixture
    def now(self):
        return [100.0]

    @pytest.fixture
    def kept(self, now):
        return Remembered(most=250, seconds=60, clock=lambda: now[0])

    def put(self, kept, of: SealedSegment, thread, *, size=100) -> Found:
        put = found(of)
        kept.put(of, b"secret", thread, size, put)
        return put

    def test_it_is_given_for_the_same_bytes_key_and_place_alone(self, kept):
        one, thread = sealed(0), uuid4()
        put = self.put(kept, one, thread)
        assert kept.get(one, b"secret", thread) is put
        assert kept.get(one._replace(record=b"other"), b"secret", thread) is None
        assert kept.get(one._replace(first=1), b"secret", thread) is None
        assert kept.get(one._replace(branch=uuid4()), b"secret", thread) is None
        assert kept.get(one._replace(data_key=uuid4()), b"secret", thread) is None
        assert kept.get(one._replace(alive=False), b"secret", thread) is None
        assert kept.get(one, b"another", thread) is None
        assert kept.get(one, b"secret", uuid4()) is None
        assert kept.get(one._replace(id=uuid4()), b"secret", thread) is None

    def test_its_time_is_not_longer_for_being_looked_at(self, kept, now):
        one, thread = sealed(0), uuid4()
        self.put(kept, one, thread)
        now[0] += 59
        assert kept.get(one, b"secret", thread)
        now[0] += 1
        assert kept.get(one, b"secret", thread) is None

    def test_the_oldest_goes_where_there_are_too_many(self, kept):
        many, thread = [sealed(n) for n in range(4)], uuid4()
        for one in many:
            self.put(kept, one, thread)
        there = [kept.get(one, b"secret", thread) is not None for one in many]
        assert there == [False, False, True, True]
        self.put(kept, many[2], thread)  # again: not counted twice
        assert len(kept) == 2
        self.put(kept, sealed(9), thread, size=251)  # more than all that may be kept
        assert len(kept) == 0

    def test_it_goes_though_nobody_asks(self):
        kept = Remembered(seconds=0.05)
        self.put(kept, sealed(0), uuid4())
        assert len(kept) == 1
        deadline = time.monotonic() + 10
        while len(kept) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(kept) == 0
        self.put(kept, sealed(1), uuid4())  # and what comes later goes, too
        while len(kept) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(kept) == 0

    def test_with_no_time_at_all_nothing_is_kept(self):
        kept = Remembered(seconds=0)
        self.put(kept, sealed(0), uuid4())
        assert len(kept) == 0

    def test_it_shows_nothing_of_what_it_keeps(self, kept):
        self.put(kept, sealed(0), uuid4())
        assert repr(kept) == "Remembered(1 segments)"
