from __future__ import annotations

from django.urls import URLPattern, URLResolver

from agents.pages import (
    answering,
    channels,
    commands,
    control,
    runs,
    shell,
    start,
    stream,
    tokens,
)
from agents.pages.ask_again import views as ask_again
from agents.pages.audit import views as audit
from agents.pages.board import views as board
from agents.pages.bundles import views as bundles
from agents.pages.compare import views as compare
from agents.pages.fork import views as fork
from agents.pages.inbox import care, checking, deciding, picked, remembering
from agents.pages.inbox import views as inbox
from agents.pages.memory import views as memory
from agents.pages.policies import views as policies
from agents.pages.registered import views as registered
from agents.pages.remarks import views as remarks
from agents.pages.retention import urls as retention
from agents.pages.thread import urls as thread
from agents.pages.threads import views as threads
from agents.pages.trajectories import views as trajectories

app_name = "agents"

# Each page module brings its own list; a page is added here by one line.
urlpatterns: list[URLPattern | URLResolver] = [
    *inbox.urlpatterns,
    *deciding.urlpatterns,
    *picked.urlpatterns,
    *care.urlpatterns,
    *checking.urlpatterns,
    *remembering.urlpatterns,
    *threads.urlpatterns,
    *bundles.urlpatterns,
    *trajectories.urlpatterns,
    *thread.urlpatterns,
    *board.urlpatterns,
    *remarks.urlpatterns,
    *fork.urlpatterns,
    *ask_again.urlpatterns,
    *compare.urlpatterns,
    *start.urlpatterns,
    *runs.urlpatterns,
    *answering.urlpatterns,
    *control.urlpatterns,
    *commands.urlpatterns,
    *registered.urlpatterns,
    *memory.urlpatterns,
    *policies.urlpatterns,
    *audit.urlpatterns,
    *retention.urlpatterns,
    *channels.urlpatterns,
    *tokens.urlpatterns,
    *shell.urlpatterns,
    *stream.urlpatterns,
]
