from __future__ import annotations

from django.core.management import call_command


def test_the_migrations_say_what_the_models_say(db):
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
