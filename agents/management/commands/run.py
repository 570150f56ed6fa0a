from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any
from uuid import UUID

import orjson
from django.core.management.base import BaseCommand, CommandError

from agents.errors import AgentsError
from agents.management import lookups
from agents.models import Run
from agents.pure.queues import PRIORITIES
from agents.runs import control, report, start, stop
from agents.runs.edits import ForkEdits
from checkpoints.access import UserPrincipal
from checkpoints.errors import CheckpointsError
from checkpoints.models import Branch, Thread

EDITS = {
    "system": str,
    "model": str,
    "temperature": float,
    "top_p": float,
    "seed": int,
    "message": str,
}


class Command(BaseCommand):
    help = (
        "Start, watch, message, fork and cancel runs, as a member of a workspace who may. "
        "Prints one JSON document, the same as the API's (docs/api.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parts = parser.add_subparsers(dest="part", required=True)
        begin = parts.add_parser("start", help="a new thread with a message, and a run")
        begin.add_argument("agent")
        begin.add_argument("message")
        begin.add_argument("--title", default="")
        begin.add_argument("--external-id", help="a second start with it does nothing")
        begin.add_argument("--priority", choices=PRIORITIES, help="else the agent's")
        said = parts.add_parser("message", help="send a message to a thread")
        said.add_argument("thread", type=UUID)
        said.add_argument("message")
        said.add_argument("--agent", default="", help="where none has worked yet")
        for name, does in (
            ("status", "how a run stands"),
            ("cancel", "stop a run"),
            ("retry", "a new run from the head, where this one failed"),
            ("priority", "take a run that is not over sooner, or later"),
        ):
            parts.add_parser(name, help=does).add_argument("run", type=UUID)
        parts.choices["priority"].add_argument("priority", choices=PRIORITIES)
        past = parts.add_parser("history", help="the steps of a branch")
        past.add_argument("thread", type=UUID)
        past.add_argument("--after", type=int, default=-1, help="a step")
        past.add_argument("--limit", type=int, default=200)
        state = parts.add_parser("state", help="the state after a step")
        fork = parts.add_parser("fork", help="a branch from a step, with a run")
        for part in (state, fork):
            part.add_argument("thread", type=UUID)
            part.add_argument("step", type=int)
        state.add_argument("--contents", action="store_true", help="long values, too")
        fork.add_argument("--name", default="")
        fork.add_argument("--no-run", action="store_true", help="the branch alone")
        for part in (said, parts.choices["retry"], fork):
            part.add_argument(
                "--resume",
                default="",
                choices=Run.Resume.values,
                help="what a new run goes on from: the facts, or the whole conversation;"
                " else as its agent is declared",
            )
        for name, kind in EDITS.items():
            fork.add_argument(f"--{name.replace('_', '-')}", type=kind, help="changes")
        for part in parts.choices.values():
            part.add_argument("--workspace", required=True, help="slug")
            part.add_argument("--as", required=True, dest="who", help="user name")
            part.add_argument("--branch", type=UUID, help="else the one at work")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = lookups.workspace(options["workspace"])
        by = lookups.member(lookups.person(options["who"]), workspace)
        try:
            found = getattr(self, f"_{options['part']}")(by, options)
        except (AgentsError, CheckpointsError) as refused:
            raise CommandError(str(refused)) from None
        text = orjson.dumps(found, default=str, option=orjson.OPT_INDENT_2)
        self.stdout.write(text.decode())

    def _start(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        run = start.start_run(
            agent=options["agent"],
            message=options["message"],
            title=options["title"],
            external_id=options["external_id"],
            priority=options["priority"],
            by=by,
        )
        return report.brief(run, by=by)

    def _message(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        said = start.send_message(
            self._branch(by, options),
            message=options["message"],
            agent=options["agent"],
            resume=options["resume"],
            by=by,
        )
        return {"id": said.pk, "position": said.position, "branch": said.branch_id}

    def _status(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        return report.detail(self._run(by, options), by=by)

    def _cancel(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        run = self._run(by, options)
        done = stop.cancel(run, by=by)
        return {"cancelled": done, "run": asdict(report.brief(run, by=by))}

    def _retry(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        run, resume = self._run(by, options), options["resume"]
        return report.brief(start.retry(run, by=by, resume=resume), by=by)

    def _priority(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        run = self._run(by, options)
        done = control.prioritise(run, options["priority"], by=by)
        return {"changed": done, "run": asdict(report.brief(run, by=by))}

    def _history(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        after, limit = max(options["after"], -1), max(options["limit"], 1)
        branch = self._branch(by, options)
        return report.history(branch, by=by, after=after, limit=limit)

    def _state(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        return report.state(
            self._branch(by, options),
            by=by,
            step=options["step"],
            contents=options["contents"],
        )

    def _fork(self, by: UserPrincipal, options: dict[str, Any]) -> Any:
        branch = self._branch(by, options)
        made = start.fork_run(
            report.checkpoint_at(branch, step=options["step"], by=by),
            edits=ForkEdits(**{name: options[name] for name in EDITS}),
            name=options["name"],
            by=by,
            run=not options["no_run"],
            resume=options["resume"],
        )
        run = Run.objects.for_user(by).filter(branch=made).first()
        return {"branch": made.pk, "run": run.pk if run else None}

    def _run(self, by: UserPrincipal, options: dict[str, Any]) -> Run:
        run = Run.objects.for_user(by).filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(
                f"{by.name} sees no run {options['run']} in this workspace."
            )
        return run

    def _branch(self, by: UserPrincipal, options: dict[str, Any]) -> Branch:
        thread = Thread.objects.for_user(by).filter(pk=options["thread"]).first()
        if thread is None:
            raise CommandError(
                f"{by.name} sees no thread {options['thread']} in this workspace."
            )
        if options["branch"] is None:
            return report.main_branch(thread)
        branches = thread.branches.select_related("thread")
        branch = branches.filter(pk=options["branch"]).first()
        if branch is None:
            raise CommandError(f"The thread has no branch {options['branch']}.")
        return branch
