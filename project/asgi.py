"""The web process: `uvicorn project.asgi:application --lifespan off`."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("DATABASE_POOL", "8")  # see settings
os.environ.setdefault("DATABASE_ROLE", "web")

application = get_asgi_application()
