from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from agents.rights import RIGHTS


class AgentsConfig(AppConfig):
    name = "agents"
    rights = RIGHTS  # see checkpoints/db/roles.py
    verbose_name = "Agents"

    def ready(self) -> None:
        """Import each installed app's `agents.py`, which registers its agents."""
        autodiscover_modules("agents")
