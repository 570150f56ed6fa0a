"""`./dev test` and `./dev lint`."""

from __future__ import annotations

import base64
import os
import secrets
import shutil

from project.up import services, venv
from project.up.paths import ROOT, VENV, Problem

# A test run depends on what it sets itself, not on how this shell is set up.
CLEARED = (
    "ALLOWED_HOSTS",
    "APPROVAL_GRACE_SECONDS",
    "BLOB_BYTES",
    "BLOB_DIR",
    "BLOB_S3_ENDPOINT",
    "BLOB_S3_REGION",
    "BLOB_STORE",
    "CSRF_TRUSTED_ORIGINS",
    "DATABASE_POOL",
    "DATABASE_ROLE",
    "DATABASE_WAIT_SECONDS",
    "DATABASE_WEB_URL",
    "DATABASE_WORKER_URL",
    "DEBUG",
    "EMAIL_FROM",
    "EMAIL_URL",
    "HOLDPOINT_APPS",
    "HTTPS",
    "KEY_ENCRYPTION_KEYS",
    "KEY_PROVIDERS",
    "LEASE_SECONDS",
    "LOG_LEVEL",
    "MODEL_ATTEMPTS",
    "MODEL_DEADLINE_SECONDS",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENED_SECONDS",
    "PREPARED_STATEMENTS",
    "PYTHONDONTWRITEBYTECODE",  # dozens of processes would compile it all again
    "PROGRESS_SECONDS",
    "PUBLIC_URL",
    "QUEUES",
    "RETENTION_DAYS",
    "RETENTION_GRACE_HOURS",
    "SECRET_KEY",
    "STATIC_ROOT",
    "STREAMS",
    "TOOL_TIMEOUT_SECONDS",
    "WEBHOOK_PRIVATE_ADDRESSES",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def test(arguments: list[str]) -> int:
    """The whole suite in parallel and with coverage; a part of it plainly."""
    services.ensure_venv(venv.DEV)
    env = _clean_environment()
    _find_browser(env)
    pytest = ["-m", "pytest", *arguments]
    if not arguments:
        processors = min(os.cpu_count() or 1, 4)
        # One more than there are processors: many tests wait for what others do.
        parallel = ["-n", str(processors + 1), "--dist", "worksteal"]
        pytest = [
            "-m",
            "coverage",
            "run",
            *pytest,
            *(parallel if processors > 1 else []),
        ]
        _coverage(env, "erase")
    with services.throwaway(env, durable=False) as servers:
        code = services.foreground([venv.PYTHON, *pytest], servers.env)
    if arguments or code:
        return code
    _coverage(env, "combine", "--quiet")
    return _coverage(env, "report", "--skip-covered", "--skip-empty")


def lint(arguments: list[str]) -> int:
    """Every check runs, also after one has failed; the exit code says whether all passed."""
    venv.ensure(venv.RUNTIME, venv.DEV)
    env = {
        **_clean_environment(),
        "DATABASE_URL": "postgresql:///holdpoint?host=/nonexistent",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }
    production = {
        **env,
        "HOLDPOINT_DEMO": "False",
        "SECRET_KEY": secrets.token_urlsafe(50),
        "KEY_ENCRYPTION_KEYS": f"lint:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        "ALLOWED_HOSTS": "holdpoint.example",
        "DATABASE_WEB_URL": "postgresql://holdpoint_web@/holdpoint?host=/nonexistent",
        "DATABASE_WORKER_URL": "postgresql://holdpoint_worker@/holdpoint?host=/nonexistent",
    }
    templates = sorted(str(path) for path in (ROOT / "templates").rglob("*.html"))
    python, ruff = venv.PYTHON, [venv.PYTHON, "-m", "ruff"]
    django = [python, "-W", "ignore::RuntimeWarning", "manage.py"]  # no database here
    checks = {
        "ruff check": [*ruff, "check", ".", "dev"],
        "ruff format": [*ruff, "format", "--check", ".", "dev"],
        "mypy": [python, "-m", "mypy", "."],
        "import-linter": [_script("lint-imports"), "--no-logo"],
        "djade": [_script("djade"), "--target-version", "5.2", "--check", *templates],
        "migrations": [*django, "makemigrations", "--check", "--dry-run"],
        "deployment": [*django, "check", "--deploy", "--fail-level", "WARNING"],
    }
    if not templates:
        del checks["djade"]
    failed = []
    for name, command in checks.items():
        print(f"{name} …", flush=True)
        environment = production if name == "deployment" else env
        cached = name == "mypy" and (ROOT / ".mypy_cache").exists()
        done = services.run_quietly(command, environment)
        if done.returncode and cached:
            # What the Django plugin keeps of models goes stale: managers get lost.
            shutil.rmtree(ROOT / ".mypy_cache", ignore_errors=True)
            done = services.run_quietly(command, environment)
        if done.returncode:
            failed.append(name)
            print(done.stdout, flush=True)
    print(f"Failed: {', '.join(failed)}" if failed else f"{len(checks)} checks passed.")
    return 1 if failed else 0


def _script(name: str) -> str:
    return str(VENV / "bin" / name)


def _clean_environment() -> dict[str, str]:
    env = {**services.base_environment(), "HOLDPOINT_DEMO": "True"}
    for name in CLEARED:
        env.pop(name, None)
        env.pop(f"{name}_FILE", None)
    # What is decided runs at once; tests of taking it back say otherwise.
    env["APPROVAL_GRACE_SECONDS"] = "0"
    return env


def _find_browser(env: dict[str, str]) -> None:
    """CHROMIUM names it. Without one the browser tests skip themselves, but not in CI."""
    found = env.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found:
        env["CHROMIUM"] = found
    elif env.get("CI"):
        raise Problem(
            "CI is set, so the browser tests must run, and there is no Chromium."
            " Install it (Debian: apt install chromium) or name it with CHROMIUM."
        )


def _coverage(env: dict[str, str], *arguments: str) -> int:
    return services.foreground([venv.PYTHON, "-m", "coverage", *arguments], env)
