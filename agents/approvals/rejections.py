"""The third rejection of one tool in a row pauses its run: the agent does not listen.

Nothing is lost: whoever resumes the run lets the agent read the reasons and go on. After
as many more it pauses again.
"""

from __future__ import annotations

from agents.models import Approval, Run
from checkpoints import audit, gate
from checkpoints.access import Reason, UserPrincipal, unscoped
from checkpoints.clock import ClockTimestamp

IN_A_ROW = 3
ERROR_CLASS = "rejected_again"
WHY = (
    "People rejected {tool} {times} times in a row, so the run is paused. Resume lets the"
    " agent read the last reason and try another way; a message can tell it which."
)


def pause_after(row: Approval, run: Run, by: UserPrincipal) -> None:
    """Pause the run where this rejection is one too many; in its transaction."""
    if row.kind == Approval.Kind.UNKNOWN or run.paused_at is not None:
        return
    tool = row.call.tool
    with unscoped(Reason.WORKER):
        times = _in_a_row(run, tool)
        if not times or times % IN_A_ROW:
            return
        Run.objects.filter(pk=run.pk).update(
            paused_at=ClockTimestamp(),
            error_class=ERROR_CLASS,
            error=gate.seal(run, "error", WHY.format(tool=tool, times=times)),
        )
    audit.record(by, "pause", obj=run, purpose="rejections", rejections=times)


def take_back(run: Run) -> None:
    """A rejection was taken back: the run goes on, unless enough are left of some tool."""
    if run.error_class != ERROR_CLASS:
        return
    with unscoped(Reason.WORKER):
        rejected = Approval.objects.filter(run=run.pk, status=Approval.Status.REJECTED)
        tools = rejected.values_list("call__tool", flat=True).distinct()
        if any(_in_a_row(run, tool) >= IN_A_ROW for tool in tools):
            return
    let_go(run)


def let_go(run: Run) -> None:
    """Let the run go on that was paused so, in its transaction."""
    with unscoped(Reason.WORKER):
        Run.objects.filter(pk=run.pk, error_class=ERROR_CLASS).update(
            paused_at=None, error_class="", error=None
        )


def _in_a_row(run: Run, tool: str) -> int:
    """How often people rejected the tool since they last let it go ahead."""
    closed = Approval.objects.filter(
        run=run.pk, call__tool=tool, decided_by__isnull=False
    ).order_by("-decided_at")
    times = 0
    for status in closed.values_list("status", flat=True)[:100]:
        if status != Approval.Status.REJECTED:
            break
        times += 1
    return times
