from __future__ import annotations

from django.apps import AppConfig

from checkpoints.keys import keyring, providers
from checkpoints.rights import RIGHTS


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = "Checkpoints"
    rights = RIGHTS  # see db/roles.py

    def ready(self) -> None:
        providers.check_settings()
        keyring.check_settings()
