"""The web process: `uvicorn project.asgi:application --lifespan off`."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("DATABASE_POOL", "8")  # see settings
os.environ.setdefault("DATABASE_ROLE", "web")

application = get_asgi_application()

from checkpoints import memory  # noqa: E402  # needs what the line above set up
from project import health  # noqa: E402  # needs it, too

# In a thread: uvicorn imports this in its event loop, where Django runs no query. What
# is missing stops the process, before it has answered anyone.
with ThreadPoolExecutor(1) as thread:
    thread.submit(health.require_role_and_keys).result()

memory.settle()
