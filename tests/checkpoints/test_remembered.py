"""Segments that were opened a moment ago: the same as opened anew, or not given at all."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from checkpoints import clock, gate
from checkpoints.access import Reason
from checkpoints.errors import DecryptionError, NotPermitted, Shredded
from checkpoints.log import hydrate
from checkpoints.log.line import SealedSegment
from checkpoints.log.pack import pack_branch
from checkpoints.log.remembered import (
    STATES,
    End,
    Found,
    Place,
    Remembered,
    segments,
    weight,
)
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

    def test_what_was_folded_a_moment_ago_is_gone_on_from(self, branch, look, alice):
        pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
        whole = hydrate.read(pass_, branch)
        first = look(branch)
        first.states(150, HEAD)
        again = look(branch)
        for end in (127, 191):
            assert again.state_at(end) is first.state_at(end)
        for steps in ((150, HEAD), (70,), (3, 63, 64, 65, 127, 128, 191, 192)):
            assert again.states(*steps) == whole.states(*steps)
            assert look(branch).states(*steps) == whole.states(*steps)
        segments.forget()
        assert look(branch).state_at(127) is not first.state_at(127)

    def test_a_fork_goes_on_from_what_it_shares_alone(self, branch, look, alice):
        look(branch).states(70, HEAD)
        other = fork(step_of(branch, 99), name="what-if", by_id=alice.user_id)
        grow(other, 60)
        pack_branch(other.pk)
        pass_ = gate.admit(alice, purpose="test", threads=[branch.thread])
        whole = hydrate.read(pass_, other)
        for _ in range(2):
            assert look(other, first=158).states(99, 130, 159) == whole.states(
                99, 130, 159
            )

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

    @pytest.fixture
    def place(self):
        return Place(uuid4(), uuid4())

    def put(self, kept, of: SealedSegment, place, *, size=100) -> Found:
        put = found(of)
        kept.put(of, b"secret", place, size, put)
        return put

    def test_it_is_given_for_the_same_bytes_key_and_place_alone(self, kept, place):
        one = sealed(0)
        put = self.put(kept, one, place)
        assert kept.get(one, b"secret", place) is put
        others: dict[str, Any] = {
            "record": b"other",
            "first": 1,
            "last": 1,
            "id": uuid4(),
            "branch": uuid4(),
            "data_key": uuid4(),
            "alive": False,
        }
        for name, other in others.items():
            changed = one._replace(**{name: other})
            assert kept.get(changed, b"secret", place) is None, name
        assert kept.get(one, b"another", place) is None
        assert kept.get(one, b"secret", replace(place, thread=uuid4())) is None
        assert kept.get(one, b"secret", replace(place, workspace=uuid4())) is None

    def test_its_time_is_not_longer_for_being_looked_at(self, kept, now, place):
        one = sealed(0)
        self.put(kept, one, place)
        now[0] += 59
        assert kept.get(one, b"secret", place)
        now[0] += 1
        assert kept.get(one, b"secret", place) is None

    def test_where_there_is_no_room_what_is_there_stays(self, kept, place):
        many = [sealed(n) for n in range(4)]
        for one in many:
            self.put(kept, one, place)
        there = [kept.get(one, b"secret", place) is not None for one in many]
        assert there == [True, True, False, False]
        self.put(kept, many[1], place)  # again: not counted twice
        self.put(kept, sealed(9), place, size=50)
        assert len(kept) == 3
        kept.forget()
        self.put(kept, sealed(9), place, size=251)
        assert len(kept) == 0
        self.put(kept, many[2], place)
        assert kept.get(many[2], b"secret", place)

    def test_each_goes_when_its_time_is_over_though_nobody_asks(self, place):
        kept = Remembered(seconds=2.0)
        began = time.monotonic()
        self.put(kept, sealed(0), place)
        time.sleep(1.0)
        self.put(kept, sealed(1), place)  # not yet due when the first one goes
        assert len(kept) == 2
        left = []
        while len(kept) and time.monotonic() < began + 10:
            left.append((time.monotonic() - began, len(kept)))
            time.sleep(0.01)
        assert len(kept) == 0
        assert max(at for at, count in left if count == 2) < 2.8
        assert 2.9 < left[-1][0] < 3.8
        self.put(kept, sealed(2), place)  # and what comes later goes, too
        while len(kept) and time.monotonic() < began + 20:
            time.sleep(0.01)
        assert len(kept) == 0

    def test_where_no_thread_can_be_had_nothing_is_kept_and_nobody_is_disturbed(
        self, place, monkeypatch
    ):
        kept = Remembered(seconds=0.2)

        def none_left(thread):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", none_left)
            self.put(kept, sealed(0), place)
        assert len(kept) == 0
        self.put(kept, sealed(1), place)
        assert len(kept) == 1
        deadline = time.monotonic() + 10
        while len(kept) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(kept) == 0

    def test_a_state_is_given_under_its_mac_and_goes_with_its_segment(
        self, kept, now, place
    ):
        one, other = sealed(0), sealed(1)
        end = End(63, one.id, b"mac")
        kept.keep_folded(end, {"kept": False})  # its segment is not there
        self.put(kept, one, place)
        assert kept.folded([end]) is None
        kept.keep_folded(end, {"of": "one"})
        later = End(127, other.id, b"later")
        assert kept.folded([later, end]) == (end, {"of": "one"})
        assert kept.folded([replace(end, mac=b"another")]) is None
        now[0] += 60
        assert kept.folded([end]) is None
        now[0] -= 60
        self.put(kept, one, place)  # opened anew: folded anew
        assert kept.folded([end]) is None
        kept.keep_folded(end, {"of": "one"})
        kept.forget()
        assert kept.folded([end]) is None

    def test_the_last_few_states_are_kept(self, kept, place):
        ends = []
        for n in range(STATES + 1):
            one = sealed(n)
            self.put(kept, one, place, size=1)
            ends.append(End(one.last, one.id, b"mac"))
            kept.keep_folded(ends[-1], {"n": n})
        assert [end for end in ends if kept.folded([end])] == ends[1:]

    def test_many_small_values_weigh_more_than_one_long_text(self):
        one = sealed(0, record=b"1234")
        assert weight(one, b'["' + b"x" * 996 + b'"]') == 4 + 1000 + 64
        assert weight(one, b"[" + b",".join([b"[]"] * 333) + b"]") > 30_000

    def test_with_no_time_at_all_nothing_is_kept(self, place):
        kept = Remembered(seconds=0)
        self.put(kept, sealed(0), place)
        assert len(kept) == 0

    def test_it_shows_nothing_of_what_it_keeps(self, kept, place):
        one = sealed(0, record=b"the record")
        put = self.put(kept, one, place)
        assert repr(kept) == "Remembered(1 segments)"
        [entry] = kept._kept.values()
        shown = repr(entry) + repr(put)
        assert not any(hidden in shown for hidden in ("ops", "secret", "the record"))
