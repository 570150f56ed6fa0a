from __future__ import annotations

from django.urls import URLPattern, URLResolver

from agents.pages import control, fork, runs, shell, start, tokens
from agents.pages.audit import views as audit
from agents.pages.inbox import views as inbox
from agents.pages.retention import urls as retention
from agents.pages.thread import urls as thread
from agents.pages.threads import views as threads

app_name = "agents"

# Each page module brings its own list; a page is added here by one line.
urlpatterns: list[URLPattern | URLResolver] = [
    *inbox.urlpatterns,
    *threads.urlpatterns,
    *thread.urlpatterns,
    *fork.urlpatterns,
    *start.urlpatterns,
    *runs.urlpatterns,
    *control.urlpatterns,
    *audit.urlpatterns,
    *retention.urlpatterns,
    *tokens.urlpatterns,
    *shell.urlpatterns,
]
