"""The figures of `./dev bench`; that they can be measured, the command shows."""

from __future__ import annotations

import json
from itertools import islice

from bench import _run_figures, _text, pages
from bench._figures import FIGURES, THEIRS, VARIANTS, is_met, show

KEYS = """
raw_commit_ms step_commit_ms step_commit_ratio step_commit_p99_ratio
round_trips_per_step wal_flushes_per_step wal_bytes_per_step writers_16_ratio
bytes_total payload_bytes bytes_ratio
hydrate_10_ms hydrate_100_ms hydrate_1000_ms hydrate_1000_cpu_ms hydrate_10000_ms
history_50_ms history_50_states_ms fork_ms rewrap_20000_s
langgraph langgraph_encrypted langgraph_delta
"""
LANGGRAPH = "put_1000_ms bytes_total get_1000_ms history_50_ms"


def test_the_json_has_the_figures_that_were_promised(capsys):
    theirs = dict.fromkeys(THEIRS, 25.12345)
    show(dict.fromkeys(FIGURES) | dict.fromkeys(VARIANTS, theirs), as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == KEYS.split()
    assert list(shown["langgraph_delta"]) == LANGGRAPH.split()
    assert shown["langgraph"]["put_1000_ms"] == 25.1234


def test_the_table_says_what_is_missed(capsys):
    show(
        dict.fromkeys(FIGURES, 0.6) | dict.fromkeys(VARIANTS, None),
        as_json=False,
    )
    assert "missed" not in capsys.readouterr().out
    assert is_met("writers_16_ratio", 0.4) is False
    assert is_met("step_commit_ratio", 2.1) is False
    assert is_met("raw_commit_ms", 2.1) is None


def test_messages_are_about_a_kilobyte_and_do_not_repeat_for_a_segment():
    found = list(islice(_text.messages(), 64))
    assert all(1024 <= len(text.encode()) + 1 < 1500 for text in found)
    assert len(set(found)) == 64


RUN_KEYS = """
raw_commit_ms step_ms step_ratio step_p99_ms
approve_to_durable_ms.p50 approve_to_durable_ms.p95 approve_to_durable_ms.p99
pickup_ms.p50 pickup_ms.p99 kill_to_resume_ms.p50 kill_to_resume_ms.p99
lost_to_resume_ms.p50 lost_to_resume_ms.p99
steps_per_s.1 steps_per_s.2
waiting_10000.redis_bytes waiting_10000.processes waiting_10000.rss_delta_mb
dbos.step_ms dbos.step_ratio dbos.pickup_p50_ms dbos.recv_p50_ms
"""


def test_the_figures_of_runs_are_those_that_were_promised(capsys):
    assert list(_run_figures.AIMS) == RUN_KEYS.split()
    _run_figures.show(
        {"step_ratio": 3.1, "pickup_ms": {"p50": 5.0}, "dbos": {"step_ratio": 2.4}},
        as_json=False,
    )
    lines = capsys.readouterr().out.splitlines()
    [step] = [line for line in lines if "step of a run by insert" in line]
    [pickup] = [line for line in lines if "enqueue → start" in line][:1]
    [dbos] = [line for line in lines if "by a step of a run" in line]
    assert "**missed**" in step
    assert "**missed**" in dbos
    assert "missed" not in pickup
    assert "met" in pickup


def test_the_figures_of_pages_are_those_that_were_promised():
    promised = (
        "inbox_100k_ms inbox_kb approval_page_ms decide_ms blame_10k_ms"
        " compare_ms diff_1mb_ms"
        " thread_1k_ms thread_10k_ms step_ms thread_kb fork_http_ms usable_ms threads_1m_ms"
    )
    assert list(pages.AIMS) == promised.split()
