"""Ids: UUIDv7, in order within a process; and the database's clock."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest
from django.db import transaction

from checkpoints import clock
from checkpoints.ids import short, uuid7


def test_ids_are_version_7_and_carry_the_time():
    before = time.time_ns() // 1_000_000
    made = uuid7()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_of_a_process_rise():
    made = [uuid7() for _ in range(10_000)]
    assert all(one < other for one, other in pairwise(made))


def test_threads_do_not_make_the_same_id():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: uuid7(), range(5_000)))
    assert len({uuid.int >> 64 for uuid in made}) == 5_000


def test_the_short_name_is_the_end_of_an_id():
    assert short(UUID("01900000-0000-7000-8000-0000000a7f3a")) == "7f3a"


@pytest.mark.django_db
def test_the_clock_goes_on_within_a_transaction():
    with transaction.atomic():
        first, second = clock.now(), clock.now()
    assert first.utcoffset() == timedelta(0)
    assert first < second
