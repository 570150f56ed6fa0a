from __future__ import annotations

from django.apps import AppConfig

from checkpoints.keys import keyring, providers


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = "Checkpoints"

    def ready(self) -> None:
        providers.check_settings()
        keyring.check_settings()
