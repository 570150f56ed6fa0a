from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from agents.rights import RIGHTS


class AgentsConfig(AppConfig):
    name = "agents"
    rights = RIGHTS  # see checkpoints/db/roles.py
    verbose_name = "Agents"

    def ready(self) -> None:
        """Import each installed app's `agents.py`, which registers its agents, and have
        runs woken that wait for a lock."""
        autodiscover_modules("agents")
        from agents.wake import wake_for_lock  # models are there now
        from checkpoints.entry_locks import released

        released.connect(wake_for_lock, dispatch_uid="wake_for_lock")
