from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents"

    def ready(self) -> None:
        """Import each installed app's `agents.py`, which registers its agents."""
        autodiscover_modules("agents")
