"""What pages and workers do to the tables of checkpoints, and to Django's.

The log is written once: neither role may update or delete it. A delta, a segment and a
blob are deleted where they are packed, sealed anew or expired, by workers only.
"""

from __future__ import annotations

from checkpoints.db.roles import ADD, ALL, CHANGE, READ, Rights

PACKED = "SELECT, INSERT, DELETE"

RIGHTS = {
    # Workspaces, and who is in them: set in the admin
    "checkpoints_workspace": Rights(web=CHANGE, worker="SELECT, UPDATE"),
    "checkpoints_membership": Rights(web=ALL, worker=READ),
    "checkpoints_group": Rights(web=ALL, worker=READ),
    "checkpoints_group_members": Rights(web=ALL, worker=READ),
    "checkpoints_grant": Rights(web=CHANGE, worker=CHANGE),
    "checkpoints_apitoken": Rights(web=CHANGE, worker=READ),
    # The log
    "checkpoints_thread": Rights(web=CHANGE, worker=CHANGE),
    "checkpoints_branch": Rights(web=CHANGE, worker=CHANGE),
    "checkpoints_threadinput": Rights(web=CHANGE, worker=ALL),
    "checkpoints_checkpoint": Rights(web=ADD, worker=ADD),
    "checkpoints_checkpointdelta": Rights(web=ADD, worker=PACKED),
    "checkpoints_segment": Rights(web=READ, worker=PACKED),
    "checkpoints_blob": Rights(web=ADD, worker=PACKED),
    "checkpoints_searchfield": Rights(web=READ, worker=ALL),
    # Said, and taken back; never deleted. A trigger says what may change.
    "checkpoints_remark": Rights(web=CHANGE, worker=CHANGE),
    # A version is written once; what expired goes by the worker's hand.
    "checkpoints_entry": Rights(web=CHANGE, worker=ALL),
    "checkpoints_entryversion": Rights(web=ADD, worker=PACKED),
    # Made, and made anew, by workers; pages compare.
    "checkpoints_entryvector": Rights(web=READ, worker=ALL),
    # Taken by runs; a page releases one.
    "checkpoints_entrylock": Rights(web="SELECT, UPDATE", worker=ALL),
    "checkpoints_storemark": Rights(web=CHANGE, worker=CHANGE),
    "checkpoints_input_position": Rights(web="USAGE", worker="USAGE"),
    # Keys
    "checkpoints_workspacekey": Rights(web=ADD, worker="SELECT, UPDATE"),
    "checkpoints_datakey": Rights(web=ADD, worker=CHANGE),
    # What was done, and what is kept
    "checkpoints_auditevent": Rights(web=ADD, worker=ADD),
    "checkpoints_auditlink": Rights(web=READ, worker=ADD),
    # A trigger adds to it, as the owner: no event can be kept out of the chain.
    "checkpoints_auditpending": Rights(web=READ, worker="SELECT, DELETE"),
    "checkpoints_audit_position": Rights(web="USAGE", worker="USAGE"),
    "checkpoints_retentionpolicy": Rights(web=ALL, worker=READ),
    "checkpoints_retentiontask": Rights(web=ADD, worker=CHANGE),
    "checkpoints_archive": Rights(web=READ, worker=CHANGE),
    "checkpoints_deletion": Rights(web=READ, worker=ADD),
    "checkpoints_signinfailures": Rights(web=ALL),
    # Django's own
    "auth_user": Rights(web=ALL, worker=READ),
    "auth_group": Rights(web=ALL),
    "auth_permission": Rights(web=READ),
    "auth_group_permissions": Rights(web=ALL),
    "auth_user_groups": Rights(web=ALL),
    "auth_user_user_permissions": Rights(web=ALL),
    "django_session": Rights(web=ALL, worker="SELECT, DELETE"),
    "django_admin_log": Rights(web=ALL),
    "django_content_type": Rights(web=READ, worker=READ),
    "django_migrations": Rights(web=READ, worker=READ),
}
