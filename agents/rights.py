"""What pages and workers do to the tables of agents."""

from __future__ import annotations

from checkpoints.db.roles import ADD, ALL, CHANGE, READ, Rights

RIGHTS = {
    "agents_agent": Rights(web=CHANGE, worker=CHANGE),
    "agents_agentversion": Rights(web=ADD, worker=ADD),
    "agents_run": Rights(web=CHANGE, worker=CHANGE),
    "agents_toolcall": Rights(web=CHANGE, worker=CHANGE),
    "agents_approval": Rights(web=CHANGE, worker=CHANGE),
    "agents_decision": Rights(web=ADD, worker=ADD),
    "agents_price": Rights(web=ALL, worker=READ),
    # Of no workspace: which worker processes there are.
    "agents_worker": Rights(web=READ, worker=ALL),
}
