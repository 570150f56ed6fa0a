"""Calls that another agent does: a run of its own, which this one waits for as a row.

The child is started in the transaction of the step that says what is waited for: whoever
dies before it has started none, and after it, one. The call's row keeps its status; the
child's row says what became of the call.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal
from typing import Any, ClassVar

from agents.models import Agent, Run, ToolCall
from agents.pure.labels import first_words
from agents.pure.step import ToolOutcome
from agents.runs.begin import begin_child, first_state
from agents.runs.claim import Claim
from agents.runs.used import used_below
from agents.tools import Tool, registry
from agents.tools.secrets import capture, captured
from agents.tools.versions import agent_version
from checkpoints import audit, gate
from checkpoints.access import Reason, RunPrincipal, unscoped
from checkpoints.blobs import Contents
from checkpoints.errors import NotPermitted, Pruned, Shredded
from checkpoints.failpoints import failpoint
from checkpoints.log import hydrate, threads
from checkpoints.models import Branch, Checkpoint, Thread, Workspace
from checkpoints.pure.codec import clean

GONE = "What it said cannot be read any more."
NOTHING = "It ended without a message."


class SubAgents:
    """The runs that calls of one claimed run have started."""

    OPEN: ClassVar = (ToolCall.Status.PROPOSED, ToolCall.Status.APPROVED)
    MOST_DEEP = 5  # agents from the first that a person started to the last

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    def child(self, row: ToolCall) -> Run | None:
        """The run that the call has started."""
        # By the key it was started with, which has an index of its own.
        runs = Run.objects.unscoped(Reason.WORKER).filter(
            workspace=row.workspace_id, request_key=row.pk, parent_call=row.pk
        )
        return runs.first()

    def refusal(self, tool: Tool) -> str | None:
        """Why no run of the agent may be started, for the model. None: one may."""
        to = tool.delegates
        path = [*self._line(), to]
        if to in path[:-1]:
            return f"Not started: it would wait for itself ({' → '.join(path)})."
        if len(path) > self.MOST_DEEP:
            return (
                f"Not started: {' → '.join(path)} is {len(path)} agents deep, and"
                f" {self.MOST_DEEP} may wait for one another."
            )
        if to not in registry:
            return f"Not started: there is no agent {to} here."
        off = Agent.objects.unscoped(Reason.WORKER).filter(
            workspace=self._claim.run.workspace_id, name=to, enabled=False
        )
        if off.exists():
            return f"Not started: the agent {to} is switched off in this workspace."
        return None

    def start(
        self, row: ToolCall, tool: Tool, arguments: dict[str, Any], *, among: int
    ) -> Run:
        """Start the run, in the open transaction, on a thread of its own.

        `among`: how many are started at once, who share what is left of this run's limit.
        """
        parent, spec = self._claim.run, registry.agent(tool.delegates)
        text = capture(clean(arguments["task"])[0])[0]
        with unscoped(Reason.WORKER):
            workspace = Workspace.objects.get(pk=parent.workspace_id)
            thread = Thread.objects.select_related("group").get(pk=parent.thread_id)
            branch = threads.create_thread(
                workspace=workspace,
                owner_id=thread.owner_id,
                title=captured(clean(tool.title({"task": text}))[0]),
                state=first_state(spec, text, {}),
                label=first_words(f"{self._claim.agent.name}: {text}"),
                visibility=thread.visibility,
                group=thread.group,
                request_key=row.pk,
            )
            child = begin_child(
                branch,
                agent_version(workspace, spec),
                parent=parent,
                call=row,
                max_cost=self._left(among),
            )
        audit.record(
            self._claim.principal,
            "start",
            obj=child,
            via="worker",
            thread=branch.thread_id,
            call=row.pk,
        )
        failpoint("after child")
        return child

    def outcome(self, child: Run, tool: Tool, title: str) -> ToolOutcome:
        """What the run that is over came to, as the call's result."""
        status = Run.Status(child.status)
        if status == Run.Status.SUCCEEDED:
            return ToolOutcome(self._said(child), title, tool.name)
        if status == Run.Status.FAILED:
            why = f"The agent {tool.delegates} failed. {self._why(child)}"
            error_class = "sub_agent_failed"
        else:
            why = f"The agent {tool.delegates} did not finish: it was cancelled."
            error_class = "sub_agent_cancelled"
        return ToolOutcome(why, title, tool.name, failed=True, error_class=error_class)

    def _line(self) -> list[str]:
        """The agents that wait for this run, from the first, and its own."""
        line, above = [self._claim.agent.name], self._claim.run.parent_id
        runs = Run.objects.unscoped(Reason.WORKER).values_list(
            "parent", "agent_version__agent__name"
        )
        while above is not None:
            above, name = runs.get(pk=above)
            line.insert(0, name)
        return line

    def _left(self, among: int) -> Decimal | None:
        """What each of so many may cost: this run's limit, without what it has used."""
        own = (self._claim.agent.limits.max_cost, self._claim.run.max_cost)
        limits = [each for each in own if each is not None]
        if not limits:
            return None
        run = Run.objects.for_run(self._claim.principal).get(pk=self._claim.run.pk)
        below = used_below(run.pk)[1] or Decimal(0)
        left = max(min(limits) - (run.cost or Decimal(0)) - below, Decimal(0)) / among
        return left.quantize(Decimal("0.000001"), rounding=ROUND_DOWN)

    def _said(self, child: Run) -> str:
        """Its last message; a later one of its thread is none of this call's."""
        steps = Checkpoint.objects.unscoped(Reason.WORKER).filter(
            run=child.pk, branch=child.branch_id, kind__in=Checkpoint.REPLIES
        )
        last = steps.order_by("-step").values_list("step", flat=True).first()
        try:
            opener = self._opener(child)
            branch = Branch.objects.unscoped(Reason.WORKER).get(pk=child.branch_id)
            opened = hydrate.open_at(opener, branch, step=last)
        except (NotPermitted, Pruned, Shredded):
            return GONE
        message = opened.state["messages"][-1]
        if message["role"] != "assistant":
            return NOTHING  # its code said nothing at the end
        content = message.get("content")
        whole = Contents(opener, child.thread_id).restore(content)
        return whole if isinstance(whole, str) and whole else NOTHING

    def _why(self, child: Run) -> str:
        if child.error is None:
            return f"({child.error_class})"
        try:
            return str(self._opener(child).open(child, "error"))
        except (NotPermitted, Pruned, Shredded):
            return f"({child.error_class})"

    def _opener(self, child: Run) -> gate.Pass:
        """For the child's thread, under the child's own grant."""
        principal = RunPrincipal(
            child.pk, child.workspace_id, child.thread_id, child.grant_id
        )
        thread = Thread(pk=child.thread_id, workspace_id=child.workspace_id)
        return gate.admit(principal, purpose="run", threads=[thread])
