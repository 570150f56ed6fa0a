"""How long requests wait for people, and what people make of them: figures, in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import connection
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.models import Agent, AgentVersion, Approval, Decision, Run, ToolCall
from agents.pages.inbox import find
from agents.pages.principal import MemberRequest, member
from agents.pages.text import UNKNOWN, duration
from checkpoints.access import UserPrincipal
from checkpoints.models import AuditEvent, Thread
from checkpoints.models.threads import VISIBLE

PERIODS = {"7": "7 days", "30": "30 days"}
QUICK = timedelta(seconds=2)  # a decision sooner after its first look is no reading
ROWS = 50  # of a table, those with most requests


@dataclass(frozen=True)
class Line:
    """Figures of one agent, tool or rule, or of all. Seconds are from asked to decided."""

    name: str
    decided: int
    p50: float | None
    p90: float | None
    expired: int
    edited: int
    rejected: int
    automatic: int
    quick: int

    @property
    def median(self) -> str:
        return _said(self.p50)

    @property
    def slowest(self) -> str:
        return _said(self.p90)

    @property
    def edited_share(self) -> str:
        return _share(self.edited, self.decided)

    @property
    def rejected_share(self) -> str:
        return _share(self.rejected, self.decided)

    @property
    def automatic_share(self) -> str:
        """Of all calls with effects that began, those that nobody was asked about."""
        return _share(self.automatic, self.automatic + self.decided)

    @property
    def quick_share(self) -> str:
        return _share(self.quick, self.decided)


@dataclass(frozen=True)
class Today:
    """What one person has decided since midnight. `median` is said: "41.0s"."""

    count: int
    median: str


@require_safe
@member
def metrics(request: MemberRequest) -> HttpResponse:
    days = request.GET.get("days", "7")
    days = days if days in PERIODS else "7"
    lines = _lines(request.principal, timedelta(days=int(days)))
    context = {
        "all": lines["all"][0],
        "tables": [(name, lines[name]) for name in ("agent", "tool", "rule")],
        "days": days,
        "periods": PERIODS.items(),
    }
    return render(request, "inbox_metrics.html", context)


def today(principal: UserPrincipal) -> Today:
    """What this person has decided since midnight, and how long that took as a rule."""
    with connection.cursor() as cursor:
        cursor.execute(
            _TODAY,
            {
                "workspace": principal.workspace_id,
                "user": principal.user_id,
                "midnight": find.end_of_today() - timedelta(days=1),
            },
        )
        count, seconds = cursor.fetchone()
    return Today(count, _said(seconds) if count else "")


def _lines(principal: UserPrincipal, period: timedelta) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {"all": [], "agent": [], "tool": [], "rule": []}
    with connection.cursor() as cursor:
        cursor.execute(
            _LINES,
            {
                "workspace": principal.workspace_id,
                "user": principal.user_id,
                "groups": list(map(str, principal.groups)),
                "period": period.total_seconds(),
                "quick": QUICK.total_seconds(),
            },
        )
        for of, name, *figures in cursor.fetchall():
            if of == "all" or (name and len(found[of]) < ROWS):
                found[of].append(Line(name or "", *figures))
    return found


def _said(seconds: float | None) -> str:
    return duration(None if seconds is None else seconds * 1000)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else UNKNOWN


_TODAY = f"""
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (
    ORDER BY extract(epoch FROM d.at - a.asked_at))
FROM {Decision._meta.db_table} d JOIN {Approval._meta.db_table} a ON a.id = d.approval_id
WHERE d.workspace_id = %(workspace)s AND d.by_id = %(user)s AND d.at >= %(midnight)s
"""  # noqa: S608  # our own names; values are parameters

# A request that was decided counts where it was decided; one that nobody was asked about
# where its call began. "Quick" is from the first look of whoever decided.
_LINES = f"""
WITH counted AS (
    SELECT agent.name AS agent, c.tool, a.rule, a.status,
           extract(epoch FROM a.decided_at - a.asked_at) AS seconds,
           said.verdict = 'edit' AS edited,
           said.at - (
               SELECT min(e.at) FROM {AuditEvent._meta.db_table} e
               WHERE e.object_type = '{Thread._meta.label_lower}'
                 AND e.object_id = a.thread_id AND e.actor_id = said.by_id
                 AND e.action = 'open' AND e.purpose = 'approval'
                 AND e.at >= a.asked_at
           ) < make_interval(secs => %(quick)s) AS quick
    FROM {Approval._meta.db_table} a
    JOIN {Thread._meta.db_table} thread ON thread.id = a.thread_id
    JOIN {ToolCall._meta.db_table} c ON c.id = a.call_id
    JOIN {Run._meta.db_table} run ON run.id = a.run_id
    JOIN {AgentVersion._meta.db_table} version ON version.id = run.agent_version_id
    JOIN {Agent._meta.db_table} agent ON agent.id = version.agent_id
    LEFT JOIN LATERAL (
        SELECT d.verdict, d.by_id, d.at FROM {Decision._meta.db_table} d
        WHERE d.approval_id = a.id ORDER BY d.revision DESC, d.at DESC LIMIT 1
    ) said ON true
    WHERE a.workspace_id = %(workspace)s AND {VISIBLE}
      AND a.decided_at >= statement_timestamp() - make_interval(secs => %(period)s)
      AND a.status IN ('approved', 'rejected', 'responded', 'expired')
    UNION ALL
    SELECT agent.name, c.tool, NULL, 'automatic', NULL, false, false
    FROM {ToolCall._meta.db_table} c
    JOIN {Thread._meta.db_table} thread ON thread.id = c.thread_id
    JOIN {Run._meta.db_table} run ON run.id = c.run_id
    JOIN {AgentVersion._meta.db_table} version ON version.id = run.agent_version_id
    JOIN {Agent._meta.db_table} agent ON agent.id = version.agent_id
    WHERE c.workspace_id = %(workspace)s AND {VISIBLE}
      AND c.started_at >= statement_timestamp() - make_interval(secs => %(period)s)
      AND c.effect IN ('write', 'external')
      AND NOT EXISTS (
          SELECT FROM {Approval._meta.db_table} a WHERE a.call_id = c.id)
)
SELECT CASE grouping(agent, tool, rule)
           WHEN 7 THEN 'all' WHEN 3 THEN 'agent' WHEN 5 THEN 'tool' ELSE 'rule' END,
       coalesce(agent, tool, rule),
       count(*) FILTER (WHERE status IN ('approved', 'rejected', 'responded')) AS decided,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)
           FILTER (WHERE status NOT IN ('expired', 'automatic')),
       percentile_cont(0.9) WITHIN GROUP (ORDER BY seconds)
           FILTER (WHERE status NOT IN ('expired', 'automatic')),
       count(*) FILTER (WHERE status = 'expired'),
       count(*) FILTER (WHERE edited),
       count(*) FILTER (WHERE status = 'rejected'),
       count(*) FILTER (WHERE status = 'automatic'),
       count(*) FILTER (WHERE quick)
FROM counted
GROUP BY GROUPING SETS ((), (agent), (tool), (rule))
ORDER BY 1, decided DESC, 2
"""  # noqa: S608  # our own names; values are parameters
