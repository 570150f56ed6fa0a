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
    "agents_approvalnote": Rights(web=ADD, worker=ADD),
    "agents_snooze": Rights(web=ALL, worker=ADD),
    "agents_policy": Rights(web=ADD, worker=READ),
    "agents_policyuse": Rights(web=READ, worker=ADD),
    "agents_stickyrule": Rights(web=CHANGE, worker=CHANGE),
    "agents_channel": Rights(web=CHANGE, worker=READ),
    "agents_delivery": Rights(web=CHANGE, worker=ALL),
    "agents_price": Rights(web=ALL, worker=READ),
    # Of no workspace: which worker processes there are.
    "agents_worker": Rights(web=READ, worker=ALL),
}
