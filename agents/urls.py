from __future__ import annotations

from django.urls import URLPattern, URLResolver

from agents.pages import runs, shell, start
from agents.pages.inbox import views as inbox

app_name = "agents"

# Each page module brings its own list; a page is added here by one line.
urlpatterns: list[URLPattern | URLResolver] = [
    *inbox.urlpatterns,
    *start.urlpatterns,
    *runs.urlpatterns,
    *shell.urlpatterns,
]
