"""Every setting, in one file. Values from outside come through `project.env`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from project import env

BASE_DIR = Path(__file__).resolve().parent.parent

# What kind of installation this is

DEBUG = env.flag("DEBUG", default=False)
# The travel desk, on this machine only: known keys are acceptable, HTTPS is not needed.
HOLDPOINT_DEMO = env.flag("HOLDPOINT_DEMO", default=False)
LOCAL = DEBUG or HOLDPOINT_DEMO
HTTPS = env.flag("HTTPS", default=not LOCAL)

SECRET_KEY = env.text(
    "SECRET_KEY",
    "anyone-can-read-this-in-the-source-so-it-is-for-demos-and-tests"
    if LOCAL
    else None,
    hint="Give 50 random characters or more.",
)
# Who keeps key-encryption keys. The first wraps; each unwraps what it has wrapped.
_KEYRING = "checkpoints.keys.keyring.Keyring"
KEY_PROVIDERS = env.names("KEY_PROVIDERS", [_KEYRING])
# id → 32 bytes. The first wraps new workspace keys; the others still open old ones.
KEY_ENCRYPTION_KEYS = (
    env.keys(
        "KEY_ENCRYPTION_KEYS",
        "demo:YW55b25lIGNhbiByZWFkIHRoaXMgaW4gdGhlIGNvZGU=" if LOCAL else None,
    )
    if _KEYRING in KEY_PROVIDERS
    else {}
)

ALLOWED_HOSTS = env.names(
    "ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"] if LOCAL else []
)
CSRF_TRUSTED_ORIGINS = env.names("CSRF_TRUSTED_ORIGINS")

# Applications

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_rq",
    "csp",
    "checkpoints",
    "agents",
    *(["agents.demo"] if HOLDPOINT_DEMO else []),
    # Agents and tools of your own: each app's `agents.py` is imported at start.
    *env.apps("HOLDPOINT_APPS"),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "project.security.StaticFilesMiddleware",
    "project.security.PolicyMiddleware",
    "project.security.CharsetMiddleware",
    "project.busy.ConnectionMiddleware",
    "project.security.DatabaseRoleMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "project.security.QueuePagesMiddleware",
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "agents.pages.shell.context",
            ],
        },
    },
]

# PostgreSQL

# Connections that one process keeps for its requests; 0: none is shared. The web
# process sets it (asgi.py): there each request has its own thread, so connections
# that belong to threads would pile up. A worker has one thread and keeps its own.
DATABASE_POOL = env.number("DATABASE_POOL", default=0)

# Whose work this process does: asgi.py and manage.py set it for web and workers.
DATABASE_ROLE = env.choice("DATABASE_ROLE", ("owner", "web", "worker"))
# Web and workers have credentials of their own; without them they use the owner's, and
# take their role at the start of each transaction.
DATABASE_ROLE_URLS = {
    "web": env.optional("DATABASE_WEB_URL") is not None,
    "worker": env.optional("DATABASE_WORKER_URL") is not None,
}
if DATABASE_ROLE == "web" and DATABASE_ROLE_URLS["web"]:
    _database = env.database("DATABASE_WEB_URL")
elif DATABASE_ROLE == "worker" and DATABASE_ROLE_URLS["worker"]:
    _database = env.database("DATABASE_WORKER_URL")
else:
    _database = env.database("DATABASE_URL")

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        **_database,
        "CONN_MAX_AGE": 0 if DATABASE_POOL else 60,  # seconds
        "CONN_HEALTH_CHECKS": not DATABASE_POOL,
    }
}
# No server-side cursors, no session state but prepared statements (checkpoints/db/prepared.py):
# PgBouncer in transaction mode works, from 1.21 on with max_prepared_statements.
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
PREPARED_STATEMENTS = env.flag("PREPARED_STATEMENTS", default=True)
if PREPARED_STATEMENTS:
    DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 0  # for those cursors alone
DATABASES["default"]["OPTIONS"].setdefault("connect_timeout", "5")  # seconds
if DATABASE_POOL:
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "min_size": 1,
        "max_size": DATABASE_POOL,
        "timeout": env.number("DATABASE_WAIT_SECONDS", default=30, least=1),
    }

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Large values of state, and archives: sealed objects outside the database

# A directory that the web process and every worker see, or s3://bucket/prefix.
BLOB_DIR = BASE_DIR / env.text("BLOB_DIR", default=".data/blobs")
BLOB_STORE = env.bucket("BLOB_STORE")
# Of the object store; credentials come from where boto3 finds them.
BLOB_S3_ENDPOINT = env.optional("BLOB_S3_ENDPOINT")
BLOB_S3_REGION = env.optional("BLOB_S3_REGION")
# A longer text is a blob. A step has 16 MB at most, so there is room for a few shorter.
BLOB_BYTES = env.number("BLOB_BYTES", default=64 * 1024, least=1024, most=1024 * 1024)
# A bundle is clear text of 16 MB at most: below this it lies in no temporary file.
FILE_UPLOAD_MAX_MEMORY_SIZE = 17 * 1024 * 1024

# Retention

# Where a workspace has no policy: days that a thread's content stays after its last
# step, then it is archived. 0: for ever.
RETENTION_DAYS = env.number("RETENTION_DAYS", default=7 if HOLDPOINT_DEMO else 30)
# Hours between a verified archive and the removal of what it holds.
RETENTION_GRACE_HOURS = env.number("RETENTION_GRACE_HOURS", default=24)

# Redis and the queue

REDIS_URL = env.redis_url("REDIS_URL")

# What workers may listen to, one queue each (`manage.py worker --queue`). Agents say
# which is theirs; one that says none is in "agents".
QUEUES = env.names("QUEUES", ["agents"])
RQ_QUEUES = {
    name: {
        "URL": REDIS_URL,
        "SERIALIZER": "rq.serializers.JSONSerializer",
        # RQ's alarm raises in the middle of a commit; budgets and leases are ours.
        "DEFAULT_TIMEOUT": -1,
        "DEFAULT_RESULT_TTL": 0,
    }
    for name in QUEUES
}
# The job class resolves one function by name and imports nothing that Redis names.
RQ = {"COMMIT_MODE": "on_db_commit", "JOB_CLASS": "agents.queue.HoldpointJob"}

# Runs

LEASE_SECONDS = env.number("LEASE_SECONDS", default=15, least=1)
# Of one run. One of the demo's takes a thousand.
MAX_STEPS = env.number("MAX_STEPS", default=1_500 if HOLDPOINT_DEMO else 100, least=1)
# A call of a tool that declares no time of its own is waited for so long.
TOOL_TIMEOUT_SECONDS = env.number("TOOL_TIMEOUT_SECONDS", default=300, least=1)

# Where no policy says another: seconds in which an approval can be taken back, and nothing
# runs yet.
APPROVAL_GRACE_SECONDS = env.number("APPROVAL_GRACE_SECONDS", default=5, most=60)

# Of one API token: so many at once, and as many in each minute after that.
API_REQUESTS_PER_MINUTE = env.number("API_REQUESTS_PER_MINUTE", default=600, least=1)

# The model's server: any that speaks OpenAI's chat completions.
OPENAI_BASE_URL = env.optional("OPENAI_BASE_URL")
OPENAI_API_KEY = env.optional("OPENAI_API_KEY")
# Memory is searched by meaning where a model gives vectors; without one, by words. It is
# on the server above, or on one of its own, which the key above is not for.
EMBEDDING_MODEL = env.optional("EMBEDDING_MODEL")
EMBEDDING_BASE_URL = env.optional("EMBEDDING_BASE_URL")
EMBEDDING_API_KEY = env.optional("EMBEDDING_API_KEY")
# One step tries again where that may help: so often, and for so long in all.
MODEL_ATTEMPTS = env.number("MODEL_ATTEMPTS", default=4, least=1)
MODEL_DEADLINE_SECONDS = env.number("MODEL_DEADLINE_SECONDS", default=120, least=1)
# While one call takes longer, so often a step says so.
PROGRESS_SECONDS = env.number("PROGRESS_SECONDS", default=60, least=1)
# For so long a process keeps what it opened of a long thread for a page, for the next page.
OPENED_SECONDS = env.number("OPENED_SECONDS", default=60, most=300)
# What the demo's agent asks for. `./dev up` sets both when the scripted model plays.
HOLDPOINT_MODEL = env.text("HOLDPOINT_MODEL", "gpt-4o-mini")
HOLDPOINT_DEMO_LEDGER = env.optional("HOLDPOINT_DEMO_LEDGER")

# Messages about requests

# Where people reach the pages: what links in messages begin with.
PUBLIC_URL = env.address("PUBLIC_URL") or (
    f"{'https' if HTTPS else 'http'}://{ALLOWED_HOSTS[0]}" if ALLOWED_HOSTS else ""
)
# The mail server; without one, e-mail stays undelivered and says why.
_mail = env.mail_server("EMAIL_URL")
EMAIL_BACKEND = _mail.pop("BACKEND", "")
EMAIL_HOST, EMAIL_PORT = _mail.get("HOST", "localhost"), _mail.get("PORT", 25)
EMAIL_HOST_USER = _mail.get("USER", "")
EMAIL_HOST_PASSWORD = _mail.get("PASSWORD", "")
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.get("TLS", False), _mail.get("SSL", False)
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "holdpoint@localhost")
# Whether webhooks may go into the network that this server stands in.
WEBHOOK_PRIVATE_ADDRESSES = env.flag("WEBHOOK_PRIVATE_ADDRESSES", default=LOCAL)

# People

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{validator}"}
    for validator in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# Pages

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# A local installation serves the files where they lie and needs no `collectstatic`.
WHITENOISE_USE_FINDERS = LOCAL
WHITENOISE_ALLOW_ALL_ORIGINS = False
STATIC_ROOT = (
    None if LOCAL else env.text("STATIC_ROOT", default=str(BASE_DIR / "staticfiles"))
)
# Looked at anew for each request: a file that changed under a running server would
# else be cut to its old length.
WHITENOISE_AUTOREFRESH = LOCAL
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if LOCAL
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# Security

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
DEFAULT_EXCEPTION_REPORTER_FILTER = "project.reports.ReporterFilter"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_AGE = 12 * 60 * 60  # seconds: a working day
CSRF_COOKIE_HTTPONLY = True
# A probe speaks plain HTTP to the process itself.
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SILENCED_SYSTEM_CHECKS = [
    # Preloading is a promise about a whole domain; only its owner can give it.
    "security.W021",
]

# Pages that are open hear of changes by a stream of events; off: they ask every few
# seconds. A stream is a connection of the web server's, and none of the database's.
STREAMS = env.flag("STREAMS", default=True)

# What Prometheus sends as its bearer token; without one, /metrics is not there.
METRICS_TOKEN = env.optional("METRICS_TOKEN")

# Logs: to standard error, one line an event, ids only

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "project.logs.LineFormatter"},
        "json": {"()": "project.logs.JsonFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": env.choice("LOG_FORMAT", ("line", "json")),
        }
    },
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {
        # Both arrive with handlers of their own, which would print what exceptions say.
        name: {"handlers": [], "propagate": True}
        for name in ("django", "django.server", "uvicorn", "uvicorn.error", "rq.worker")
    }
    # A line for every request: of pages, and to the model's server.
    | {
        name: {"handlers": [], "level": "WARNING"}
        for name in ("uvicorn.access", "httpx2")
    },
}

# Where the admin's "view on site" leads: the page of a row.
ABSOLUTE_URL_OVERRIDES = {
    "checkpoints.thread": lambda thread: f"/threads/{thread.pk}/",
    "checkpoints.branch": lambda branch: (
        f"/threads/{branch.thread_id}/?branch={branch.pk}"
    ),
    "checkpoints.checkpoint": lambda checkpoint: (
        f"/threads/{checkpoint.thread_id}/at/{checkpoint.pk}/"
    ),
    "agents.run": lambda run: f"/threads/{run.thread_id}/?branch={run.branch_id}",
    "agents.approval": lambda approval: f"/inbox/{approval.pk}/",
    "agents.decision": lambda decision: f"/inbox/{decision.approval_id}/",
}
