"""The verbs: start, message, status, history, state at a step, fork, cancel, try again."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Path, Query, Router, Status
from ninja.parser import Parser

from agents.api import approvals, problems
from agents.api.auth import ProgramRequest, cancels, forks, messages, reads, starts
from agents.api.shapes import (
    PLAIN,
    AgentOut,
    CancelOut,
    ForkIn,
    ForkOut,
    MessageIn,
    MessageOut,
    RetryIn,
    StartIn,
)
from agents.models import Run
from agents.runs import control, report, start, stop
from agents.runs.edits import ForkEdits
from agents.tools import registry
from checkpoints.models import Branch, Thread
from checkpoints.pure.strict import first_problem


class JsonParser(Parser):
    """Strict JSON: no NaN, nothing too deep, and nothing that parsers disagree about.

    What is decided is what was sent: of a key that is given twice nobody could say which
    counts, and an integer beyond 64 bits would become another number.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        said = orjson.loads(request.body)  # refuses, quickly, what is no JSON at all
        if problem := first_problem(request.body.decode()):
            raise problem
        return said


router = Router()
RunId = Annotated[UUID, Path()]
Limit = Annotated[int, Query(ge=1, le=200)]


@router.get("/agents", auth=reads, response=list[AgentOut], summary="Agents")
def agents(request: ProgramRequest) -> Any:
    """The agents that can be started."""
    off = control.switched_off(request.auth)
    return [agent for agent in registry if agent.name not in off]


@router.post(
    "/runs",
    auth=starts,
    response={200: report.RunReport, 201: report.RunReport},
    summary="Start a run",
)
def start_run(request: ProgramRequest, body: StartIn) -> Any:
    """A new thread with this message, open to the whole workspace, and a run on it.

    With an `external_id` that was used before, for the same, it answers 200 with the run
    that there is; for something else, 409.
    """
    known = Run.objects.for_user(request.auth).filter(external_id=body.external_id)
    is_new = body.external_id is None or not known.exists()
    run = start.start_run(
        agent=body.agent,
        message=body.message,
        title=body.title,
        params=body.params,
        external_id=body.external_id,
        priority=body.priority,
        by=request.auth,
    )
    return Status(201 if is_new else 200, report.brief(run, by=request.auth))


@router.get("/runs", auth=reads, response=list[report.RunReport], summary="Runs")
def runs(
    request: ProgramRequest,
    status: Literal[
        "", "ready", "running", "waiting", "succeeded", "failed", "cancelled"
    ] = "",
    agent: Annotated[str, Query(max_length=60, pattern=PLAIN)] = "",
    external_id: Annotated[str, Query(max_length=200, pattern=PLAIN)] = "",
    before: UUID | None = None,
    limit: Limit = 50,
) -> Any:
    """Newest first. To go on, give the last one's id as `before`."""
    return report.runs_of(
        request.auth,
        status=status,
        agent=agent,
        external_id=external_id,
        before=before,
        limit=limit,
    )


@router.get("/runs/{run_id}", auth=reads, response=report.RunDetail, summary="Status")
def run_status(request: ProgramRequest, run_id: RunId) -> Any:
    """How a run stands: why it failed, what it answered, whose decision it waits for."""
    return report.detail(_run(request, run_id), by=request.auth)


@router.post(
    "/runs/{run_id}/cancel", auth=cancels, response=CancelOut, summary="Cancel"
)
def cancel(request: ProgramRequest, run_id: RunId) -> Any:
    """At once while it waits, after its step while it runs; false: it was over already."""
    run = _run(request, run_id)
    done = stop.cancel(run, by=request.auth)
    return {"cancelled": done, "run": report.brief(run, by=request.auth)}


@router.post(
    "/runs/{run_id}/retry",
    auth=starts,
    response={201: report.RunReport},
    summary="Try again",
)
def retry(request: ProgramRequest, run_id: RunId, body: RetryIn | None = None) -> Any:
    """A new run from the head, where this one failed or was cancelled."""
    resume = body.resume if body else ""
    again = start.retry(_run(request, run_id), by=request.auth, resume=resume)
    return Status(201, report.brief(again, by=request.auth))


@router.get(
    "/threads/{thread_id}", auth=reads, response=report.ThreadReport, summary="Thread"
)
def thread(request: ProgramRequest, thread_id: Annotated[UUID, Path()]) -> Any:
    """A thread's branches and runs."""
    return report.thread_of(_thread(request, thread_id), by=request.auth)


@router.post(
    "/threads/{thread_id}/messages",
    auth=messages,
    response={202: MessageOut},
    summary="Send a message",
)
def message(
    request: ProgramRequest, thread_id: Annotated[UUID, Path()], body: MessageIn
) -> Any:
    """For the run at work on the branch, or for a new one. Messages keep their order.

    Sent again with the same `request_key`, it is said once.
    """
    said = start.send_message(
        _branch(request, thread_id, body.branch),
        message=body.message,
        by=request.auth,
        agent=body.agent,
        request_key=body.request_key,
        resume=body.resume,
    )
    return Status(
        202,
        {
            "id": said.pk,
            "position": said.position,
            "thread": thread_id,
            "branch": said.branch_id,
        },
    )


@router.get(
    "/threads/{thread_id}/history",
    auth=reads,
    response=report.HistoryReport,
    summary="History",
)
def history(
    request: ProgramRequest,
    thread_id: Annotated[UUID, Path()],
    branch: UUID | None = None,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1)] = -1,
    limit: Limit = 200,
) -> Any:
    """The steps of a branch from the thread's start, through its forks."""
    return report.history(
        _branch(request, thread_id, branch), by=request.auth, after=after, limit=limit
    )


@router.get(
    "/threads/{thread_id}/states/{step}",
    auth=reads,
    response=report.StateReport,
    summary="State at a step",
)
def state(
    request: ProgramRequest,
    thread_id: Annotated[UUID, Path()],
    step: Annotated[int, Path(ge=0, le=2**31 - 1)],
    branch: UUID | None = None,
    contents: bool = False,
) -> Any:
    """The whole state after a step; with `contents`, long values instead of references."""
    return report.state(
        _branch(request, thread_id, branch),
        by=request.auth,
        step=step,
        contents=contents,
    )


@router.post(
    "/threads/{thread_id}/forks", auth=forks, response={201: ForkOut}, summary="Fork"
)
def fork(
    request: ProgramRequest, thread_id: Annotated[UUID, Path()], body: ForkIn
) -> Any:
    """A branch that goes on from a step, changed so, and a run of its own.

    The source stays as it is. Of calls with effects, `calls` says whether recorded
    results are used, and a person is asked where there is none (`recorded`), whether
    those others are only simulated (`simulate`), or made once a person approved (`live`).
    """
    source = report.checkpoint_at(
        _branch(request, thread_id, body.branch), step=body.step, by=request.auth
    )
    names = ("system", "model", "temperature", "top_p", "seed", "message")
    made = start.fork_run(
        source,
        edits=ForkEdits(**{name: getattr(body, name) for name in names}),
        name=body.name,
        by=request.auth,
        calls=body.calls,
        run=body.run,
        agent=body.agent,
        request_key=body.request_key,
        resume=body.resume,
    )
    run = Run.objects.for_user(request.auth).filter(branch=made).first()
    return Status(
        201,
        {"thread": thread_id, "branch": made.pk, "run": run.pk if run else None},
    )


def _run(request: ProgramRequest, run_id: UUID) -> Run:
    return get_object_or_404(Run.objects.for_user(request.auth), pk=run_id)


def _thread(request: ProgramRequest, thread_id: UUID) -> Thread:
    return get_object_or_404(Thread.objects.for_user(request.auth), pk=thread_id)


def _branch(request: ProgramRequest, thread_id: UUID, branch: UUID | None) -> Branch:
    found = _thread(request, thread_id)
    if branch is None:
        return report.main_branch(found)
    return get_object_or_404(found.branches.select_related("thread"), pk=branch)


class Api(NinjaAPI):
    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = super().create_temporal_response(request)
        response["Cache-Control"] = "no-store"  # it shows opened state
        return response


api = Api(
    title="Holdpoint",
    version="1",
    description="Start, watch, message, fork and cancel runs of agents, and decide what "
    "they ask, for the person who made the token.",
    docs_url=None,  # a page of foreign scripts; docs/api.md describes it
    urls_namespace="api",
    parser=JsonParser(),
)
problems.install(api)
api.add_router("", router)
api.add_router("", approvals.router)


@csrf_exempt  # a program that mistyped an address has no form that was too old
def elsewhere(request: HttpRequest, path: str) -> HttpResponse:
    """Any other address below /api/."""
    return problems.answer(request, Http404())
