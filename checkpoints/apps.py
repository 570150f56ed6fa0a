from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import Tags, register

from checkpoints.db.checks import own_credentials
from checkpoints.keys import keyring, providers
from checkpoints.rights import RIGHTS


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = "Checkpoints"
    rights = RIGHTS  # see db/roles.py

    def ready(self) -> None:
        providers.check_settings()
        keyring.check_settings()
        register(own_credentials, Tags.security, deploy=True)
