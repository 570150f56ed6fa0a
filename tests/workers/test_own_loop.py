"""An agent with an `advance` of its own: no chat loop, and every promise of one."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents.approvals import decide
from agents.debug.replay import replay
from agents.debug.testcase import save
from agents.errors import BadDeclaration, NotAskable
from agents.models import AgentVersion, Approval, Run, ToolCall
from agents.pages.thread.structure import structure
from agents.pure.bundles import file
from agents.pure.bundles.testcase import parse
from agents.runs import runner, start
from agents.runs.ask_again import ask_again
from agents.runs.control import pause, resume
from agents.runs.edits import ForkEdits
from agents.runs.report import detail
from agents.runs.stop import cancel
from agents.tools import Agent, Do, Done, Limits, Note, Say, Think, Turn
from checkpoints.ids import uuid7
from checkpoints.models import Branch, Checkpoint
from tests.conftest import as_owner
from tests.workers.conftest import ended, kinds, pending, wait_until
from tests.workers.desk.agents import look
from tests.workers.desk.written import reconciler

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

MONTH = "2026-11"
SMALL = [("A-1", "20"), ("A-3", "30")]
TO_THE_QUESTION = ["input", "code", "tool", "code", "tool", "code", "interrupt"]


@pytest.fixture
def reconciling(server, alice) -> Run:
    """A run of the agent of docs/agents.md, which nobody has worked on."""
    return start.start_run(agent=reconciler.name, by=alice, message=MONTH)


@pytest.fixture
def own(alice, deploy) -> Any:
    """Starts a run of the reconciler with another `advance`, and works on it."""

    def own(advance, message: str = MONTH, **changes: Any) -> Run:
        deploy(reconciler, advance=advance, **changes)
        run = start.start_run(agent=reconciler.name, by=alice, message=message)
        runner.work(run.pk)
        run.refresh_from_db()
        return run

    return own


def refunded(server) -> list[tuple[str, str]]:
    effects = server.ledger("refunds")
    return sorted((each["body"]["order"], each["body"]["amount"]) for each in effects)


def last(run: Run, history) -> dict[str, Any]:
    run.branch.refresh_from_db()
    return history(run.branch).state_at(run.branch.head_step)


def answered(run: Run, alice) -> str | None:
    return detail(run, by=alice).answer


def why(run: Run, alice) -> str:
    return str(detail(run, by=alice).error)


def asked(run: Run) -> Approval:
    (approval,) = pending(run)
    return approval


def test_it_works_without_any_model_and_asks_people_as_its_tools_say(
    reconciling, server, work, bob, alice, history
):
    work()
    reconciling.refresh_from_db()
    assert reconciling.status == "waiting"
    assert kinds(reconciling) == TO_THE_QUESTION
    approval = asked(reconciling)
    assert approval.call.tool == "pay_back"
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert ended(reconciling)
    assert reconciling.status == "succeeded"
    assert answered(reconciling, alice) == (
        "2026-11: 3 paid twice.\nA-1: paid back\nA-2: paid back\nA-3: paid back"
    )
    assert refunded(server) == sorted([*SMALL, ("A-2", "250")])
    assert server.requests == []
    state = last(reconciling, history)
    assert state["vars"]["twice"] == {"A-1": "20", "A-2": "250", "A-3": "30"}
    assert (reconciling.tokens, reconciling.cost) == (0, None)


def test_what_is_called_and_what_is_kept_is_one_step(reconciling, work, history):
    work()
    made = history(reconciling.branch)
    assert made.state_at(0)["vars"] == {}
    assert made.state_at(1)["vars"] == {"month": MONTH, "came": {}}
    assert made.state_at(1)["messages"][-1]["tool_calls"][0]["function"] == {
        "name": "find_twice",
        "arguments": '{"month":"2026-11"}',
    }


def test_a_person_may_refuse_or_change_a_call_and_it_reads_which(
    reconciling, server, work, bob, alice, history
):
    work()
    approval = asked(reconciling)
    decide.edit(
        approval,
        seen=approval.as_shown(),
        by=bob,
        arguments={"order": "A-2", "amount": "125"},
    )
    work()
    assert ended(reconciling)
    assert ("A-2", "125") in refunded(server)
    messages = last(reconciling, history)["messages"]
    (edited,) = [each for each in messages if "arguments" in each]
    assert edited["arguments"] == {"order": "A-2", "amount": "125"}
    assert edited["content"].startswith("{")  # the tool's result, and nothing else


def test_a_refusal_is_a_problem_that_the_agent_reports(
    reconciling, server, work, bob, alice
):
    work()
    approval = asked(reconciling)
    decide.reject(approval, seen=approval.as_shown(), by=bob, reason="not his money")
    work()
    assert ended(reconciling)
    assert "A-2: rejected" in str(answered(reconciling, alice))
    assert refunded(server) == SMALL


@pytest.mark.parametrize(
    "at",
    [
        "before step",
        "before commit",
        "after commit",
        "after intent",
        "after effect",
        "before ask",
        "after ask",
        "before end",
    ],
)
def test_wherever_a_worker_dies_another_takes_the_next_step_once(
    reconciling, server, workers, tmp_path, bob, at
):
    workers.start(HOLDPOINT_FAILPOINTS=at, HOLDPOINT_FAILPOINTS_REACHED=str(tmp_path))
    approval = wait_until(lambda: Approval.objects.pending().first())
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    wait_until(lambda: ended(reconciling))
    assert (tmp_path / at).exists()
    assert reconciling.status == "succeeded"
    assert refunded(server) == sorted([*SMALL, ("A-2", "250")])
    assert len(server.ledger("refunds")) == 3
    steps = Checkpoint.objects.filter(branch=reconciling.branch_id)
    assert kinds(reconciling)[:7] == TO_THE_QUESTION
    assert steps.filter(kind="code").count() == 5


def test_a_fork_goes_on_from_the_middle_and_pays_nobody_twice(
    reconciling, server, work, bob, alice, history
):
    work()
    approval = asked(reconciling)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    source = Checkpoint.objects.get(branch=reconciling.branch, step=2)
    before = server.ledger("refunds")
    branch = start.fork_run(
        source, edits=ForkEdits(), name="again", by=alice, calls=Branch.Calls.RECORDED
    )
    work()
    forked = Run.objects.get(branch=branch)
    assert forked.status == "succeeded"
    assert server.ledger("refunds") == before
    assert answered(forked, alice) == answered(reconciling, alice)
    calls = ToolCall.objects.filter(run=forked)
    assert all(call.recorded_from_id for call in calls)
    assert calls.count() == 3


def test_a_fork_at_a_call_makes_a_call_of_its_own(reconciling, server, work, alice):
    work()
    source = Checkpoint.objects.get(branch=reconciling.branch, step=5)
    branch = start.fork_run(source, edits=ForkEdits(), name="", by=alice)
    work()
    there = asked(Run.objects.get(branch=branch))
    assert there.call_id != asked(reconciling).call_id
    assert refunded(server) == [("A-1", "20")]


def test_another_message_is_another_run_of_the_same_code(
    reconciling, server, work, bob, alice
):
    work()
    approval = asked(reconciling)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    start.send_message(reconciling.branch, message="2026-12", by=alice)
    work()
    second = Run.objects.exclude(pk=reconciling.pk).get()
    assert second.status == "succeeded"
    assert answered(second, alice) == "2026-12: 0 paid twice."


def test_a_result_that_did_not_come_is_a_failure_with_its_reason(server, alice, work):
    run = start.start_run(agent=reconciler.name, by=alice, message="1999-01")
    work()
    run.refresh_from_db()
    assert (run.status, run.error_class) == ("failed", "advance_raised")
    said = why(run, alice)
    assert "the agent reconciler (docs_agents.reconcile) raised RuntimeError" in said
    assert "there are no books of 1999-01" in said
    assert kinds(run)[-1] == "error"


def broken(turn: Turn) -> Any:
    return {"tool": "pay_back"}


def stuck(turn: Turn) -> Any:
    turn.set("vars", turn.get("vars"))
    return Note("Thinking about it")


def sleepy(turn: Turn) -> Any:
    time.sleep(30)
    return Done()


@pytest.mark.parametrize(
    ("advance", "error_class", "words"),
    [
        (broken, "advance_invalid", "gave a dict, not Do, a list of some"),
        (lambda turn: None, "advance_invalid", "gave None"),
        (lambda turn: [], "advance_invalid", "gave a list of 0"),
        (lambda turn: Say(" "), "advance_invalid", "gave Say without a text"),
        (
            lambda turn: Done(7),  # type: ignore[arg-type]
            "advance_invalid",
            "gave a Done",
        ),
        (lambda turn: Think(), "advance_invalid", "the agent has no model"),
        (lambda turn: Do("pay"), "advance_invalid", "calls 'pay', which is none of"),
        (
            lambda turn: Do("pay_back", {"order": object()}),
            "advance_invalid",
            "with no JSON",
        ),
        (
            lambda turn: [Do("find_twice")] * 101,
            "advance_invalid",
            "wants 101 calls at once",
        ),
        (stuck, "advance_stuck", "changed nothing of working memory"),
        (
            lambda turn: turn.set("messages", []),
            "advance_raised",
            "The channel 'messages' is not a tool's to change",
        ),
        (
            lambda turn: (_ for _ in ()).throw(SystemExit(1)),
            "advance_raised",
            "SystemExit",
        ),
    ],
)
def test_what_is_no_next_step_fails_the_run_and_names_the_function(
    own, alice, advance, error_class, words
):
    run = own(advance)
    assert (run.status, run.error_class) == ("failed", error_class)
    said = why(run, alice)
    assert "The advance of the agent reconciler (tests.workers.test_own_loop." in said
    assert words in said
    assert kinds(run) == ["input", "error"]


def test_one_that_never_ends_is_given_up_in_time(own, alice, settings):
    settings.TOOL_TIMEOUT_SECONDS = 1
    run = own(sleepy)
    assert (run.status, run.error_class) == ("failed", "advance_timeout")
    assert "gave nothing within 1 s" in why(run, alice)


def test_a_retry_asks_mended_code_for_the_same_state(own, alice, deploy, work):
    run = own(broken)
    deploy(reconciler, advance=lambda turn: Done("Mended."))
    again = start.retry(run, by=alice)
    work()
    again.refresh_from_db()
    assert again.status == "succeeded"
    assert answered(again, alice) == "Mended."
    assert kinds(again) == ["input", "error", "code"]


def test_arguments_that_do_not_fit_are_told_as_a_problem(own, alice):
    def advance(turn: Turn) -> Any:
        if turn.results:
            [result] = turn.results
            return Done(f"{result.tool}: {result.problem}")
        return Do("pay_back", {"order": "A-1"})

    run = own(advance)
    assert run.status == "succeeded"
    assert answered(run, alice) == "pay_back: arguments_do_not_fit"


def test_who_talks_for_ever_comes_to_the_limit_of_steps(own):
    run = own(lambda turn: Say("Still here."), limits=Limits(max_steps=5))
    assert (run.status, run.error_class) == ("failed", "too_many_steps")
    assert kinds(run) == ["input", *["code"] * 5, "error"]


def test_who_calls_the_same_for_ever_comes_to_the_limit_of_repeats(own):
    run = own(lambda turn: Do("find_twice", {"month": MONTH}))
    assert (run.status, run.error_class) == ("failed", "repeats_itself")


def test_several_calls_of_one_step_are_asked_about_together(own, server):
    def advance(turn: Turn) -> Any:
        if turn.results:
            return Done(", ".join(r.problem or r.value["order"] for r in turn.results))
        return [Do("pay_back", {"order": o, "amount": "500"}) for o in ("B-1", "B-2")]

    run = own(advance)
    assert run.status == "waiting"
    assert len(pending(run)) == 2
    assert kinds(run) == ["input", "code", "interrupt"]


def test_it_pauses_goes_on_and_is_cancelled_between_steps(
    reconciling, work, alice, server
):
    assert pause(reconciling, by=alice)
    work()
    assert kinds(reconciling) == ["input"]
    assert resume(reconciling, by=alice)
    work()
    assert kinds(reconciling) == TO_THE_QUESTION
    assert cancel(reconciling, by=alice)
    assert ended(reconciling)
    assert reconciling.status == "cancelled"


def test_cancelling_does_not_wait_for_code_that_takes_long(server, alice, workers):
    run = start.start_run(agent="test-dawdler", by=alice, message="Take your time.")
    workers.start()
    wait_until(lambda: server.ledger("dawdling"))
    assert cancel(run, by=alice)
    wait_until(lambda: ended(run), seconds=20)
    assert run.status == "cancelled"


def test_code_and_a_model_take_turns(own, server, alice):
    def advance(turn: Turn) -> Any:
        match turn.get("vars").get("stage"):
            case None:
                turn.put("vars", "stage", "asked")
                return Say("I ask a model.")
            case "asked" if turn.get("messages")[-1].get("by") == "code":
                return Think()
            case "asked" if turn.results:
                return Think()
            case _:
                return Done()

    server.will_call("c1", "find_twice", month=MONTH)
    server.will_say("Three were.")
    run = own(advance, model="scripted")
    assert run.status == "succeeded", why(run, alice)
    assert kinds(run) == ["input", "code", "model", "tool", "model"]
    assert answered(run, alice) == "Three were."
    sent = server.requests[0]["messages"]
    assert [each["content"] for each in sent] == [MONTH, "I ask a model."]
    assert "by" not in sent[-1]


def test_asking_again_is_for_steps_of_a_model(reconciling, work, alice):
    work()
    step = Checkpoint.objects.select_related("parent__branch__thread", "branch").get(
        branch=reconciling.branch, step=1
    )
    with pytest.raises(NotAskable, match="Step 1 is no answer that a model gave"):
        ask_again(step, times=2, by=alice, request_key=uuid7())


def test_changed_code_is_another_version_and_so_is_a_changed_helper(
    own, alice, deploy, work
):
    own(lambda turn: Done("one"))
    own(lambda turn: Done("one"))
    own(lambda turn: Done("two"))
    assert AgentVersion.objects.count() == 2
    first, second = helped("a"), helped("b")
    assert first.spec() != second.spec()
    assert first.spec() == helped("a").spec()


def helped(word: str) -> Agent:
    """The same `advance`, with a helper that says something else."""
    names: dict[str, Any] = {"Done": Done, "__name__": "of_a_page"}
    code = (
        f"def help():\n    return {word!r}\ndef advance(turn):\n    return Done(help())"
    )
    exec(code, names)  # noqa: S102  # our own
    return Agent("helped", advance=names["advance"])


def test_a_run_goes_on_as_the_version_that_is_deployed_now(
    reconciling, work, bob, alice, deploy
):
    work()
    deploy(reconciler, advance=lambda turn: Done("Another way."))
    approval = asked(reconciling)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    assert ended(reconciling)
    assert answered(reconciling, alice) == "Another way."
    assert "resume" not in kinds(reconciling)  # there is no context to choose
    versions = Checkpoint.objects.filter(branch=reconciling.branch, kind="code")
    assert versions.order_by("agent_version").distinct("agent_version").count() == 2


def test_steps_are_stored_at_the_end_where_it_is_declared_so(own, alice, server):
    def advance(turn: Turn) -> Any:
        if not turn.get("vars"):
            turn.put("vars", "looked", True)
            return Note("Looked")
        return Done("All well.")

    run = own(advance, tools=[look], checkpoint="exit")
    assert run.status == "succeeded"
    assert kinds(run) == ["input", "code"]
    assert answered(run, alice) == "All well."


def test_a_test_case_is_done_again_by_the_code_of_today(
    reconciling, work, bob, alice, deploy
):
    work()
    approval = asked(reconciling)
    decide.approve(approval, seen=approval.as_shown(), by=bob)
    work()
    reconciling.branch.refresh_from_db()
    saved = save(reconciling.branch, step=0, by=alice)
    case = parse(file.read(saved.encode(), format=file.TEST_CASE).content)
    outcome = replay(case, reconciler)
    assert outcome.divergence is None
    assert outcome.steps == 11
    other = dataclasses.replace(reconciler, advance=lambda turn: Done("Nothing to do."))
    found = replay(case, other).divergence
    assert found is not None
    assert (found.step, found.expected) == (1, "the agent's code calls find_twice")


def test_its_pages_read_as_its_own_code_and_offer_no_model(
    reconciling, work, alice, history
):
    work()
    client = Client()
    with as_owner():
        client.force_login(User.objects.get(pk=alice.user_id))

    def page(name: str, *args: Any, **query: str) -> str:
        answer = client.get(reverse(f"agents:{name}", args=args), query)
        assert answer.status_code == 200
        return answer.content.decode()

    thread = reconciling.thread_id
    said = page("thread", thread)
    assert "the agent&#x27;s own code" in said
    assert "Find what was paid twice in 2026-11" in said
    step = Checkpoint.objects.get(branch=reconciling.branch, step=1)
    context = page("step", thread, step.pk, tab="context")
    assert "No model was called up to this step." in context
    assert "Ask again" not in context
    panel = page("step", thread, step.pk)
    assert "Ask again" not in panel
    assert "temperature" not in panel
    fork = page("fork", thread, step.pk)
    assert "Model and parameters" not in fork
    assert "What the agent is sent" not in fork
    about = page("agent", reconciler.name)
    assert "docs_agents.reconcile" in about
    assert "none: its own code" in page("agents")


def test_who_reads_no_content_reads_what_kind_of_step_it_was(reconciling, work):
    work()
    reconciling.branch.refresh_from_db()
    rows = structure([reconciling.branch], reconciling.branch)
    assert rows[1].label == "the agent's own code"


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({}, "neither a model nor an advance"),
        ({"advance": "reconcile"}, "advance is a str, not a function of a Turn"),
        ({"advance": lambda: Done()}, "is called with a Turn alone"),
        ({"advance": lambda turn, state: Done()}, "is called with a Turn alone"),
    ],
)
def test_a_declaration_that_cannot_work_stops_the_start(declared, words):
    with pytest.raises(BadDeclaration, match=words):
        Agent("odd", **declared)
