from __future__ import annotations

import base64
import re

import pytest
from django.core.exceptions import ImproperlyConfigured

from project import env

KEY = base64.b64encode(bytes(range(32))).decode()


def test_a_value_may_come_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.setenv("THING_FILE", str(tmp_path / "secret"))
    assert env.text("THING") == "from the file"


def test_a_value_and_a_file_at_once_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("THING", "one")
    monkeypatch.setenv("THING_FILE", str(tmp_path / "secret"))
    with pytest.raises(ImproperlyConfigured, match="THING and THING_FILE are both set"):
        env.text("THING")


def test_a_file_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("THING_FILE", "/nonexistent/thing")
    with pytest.raises(ImproperlyConfigured, match="THING_FILE='/nonexistent/thing'"):
        env.optional("THING")


def test_what_must_be_given_is_named_when_it_is_missing(monkeypatch):
    monkeypatch.setenv("THING", "")
    with pytest.raises(ImproperlyConfigured, match=r"THING is not set\. Ask Ada\."):
        env.text("THING", hint="Ask Ada.")


def test_defaults_stand_where_nothing_is_given():
    assert env.optional("THING") is None
    assert env.text("THING", "x") == "x"
    assert env.flag("THING", default=True) is True
    assert env.number("THING", 15) == 15
    assert env.names("THING") == []
    assert env.names("THING", ["a"]) == ["a"]


def test_values_are_read_as_what_they_are(monkeypatch):
    monkeypatch.setenv("THING", "True")
    assert env.flag("THING", default=False) is True
    monkeypatch.setenv("THING", "30")
    assert env.number("THING", 15, least=1) == 30
    monkeypatch.setenv("THING", " a, b ,,c")
    assert env.names("THING") == ["a", "b", "c"]


def test_apps_are_packages_or_their_configurations(monkeypatch):
    monkeypatch.setenv("THING", "agents, agents.apps.AgentsConfig")
    assert env.apps("THING") == ["agents", "agents.apps.AgentsConfig"]


@pytest.mark.parametrize(
    "path",
    ["nowhere", "agents.nowhere", "nowhere.at.all", "agents.nowhere.Config"],
)
def test_an_app_that_is_not_there_is_named(monkeypatch, path):
    monkeypatch.setenv("THING", f"agents,{path}")
    with pytest.raises(
        ImproperlyConfigured, match=re.escape(f"THING names {path!r}, but")
    ):
        env.apps("THING")


def test_a_package_that_lacks_something_says_what(monkeypatch, tmp_path):
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / "__init__.py").write_text("import what_it_lacks")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("THING", "lacking.agents")
    with pytest.raises(ModuleNotFoundError, match="what_it_lacks"):
        env.apps("THING")


@pytest.mark.parametrize("value", ["yes", "true", "1"])
def test_a_flag_is_true_or_false(monkeypatch, value):
    monkeypatch.setenv("THING", value)
    with pytest.raises(
        ImproperlyConfigured, match=f"THING='{value}' must be 'True' or"
    ):
        env.flag("THING", default=False)


@pytest.mark.parametrize("value", ["0", "-1", "ten", "1.5", "1e3"])
def test_a_number_is_whole_and_not_too_small(monkeypatch, value):
    monkeypatch.setenv("THING", value)
    with pytest.raises(
        ImproperlyConfigured, match=r"THING=.* a whole number, 1 or more"
    ):
        env.number("THING", 15, least=1)


def test_keys_keep_their_order_and_ids_may_have_colons(monkeypatch):
    monkeypatch.setenv("THING", f"kek:2026-02:{KEY}, kek:2026-01:{KEY}")
    assert list(env.keys("THING")) == ["kek:2026-02", "kek:2026-01"]
    assert env.keys("THING")["kek:2026-01"] == bytes(range(32))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (KEY, "a part without an id"),
        (f":{KEY}", "a part without an id"),
        ("a:tulip!", "key 'a' is not base64"),
        ("a:dHVsaXA=", "key 'a' has 5 bytes"),
        (f"a:{KEY},a:{KEY}", "names key 'a' twice"),
    ],
)
def test_a_wrong_key_is_named_and_not_shown(monkeypatch, value, message):
    monkeypatch.setenv("THING", value)
    with pytest.raises(ImproperlyConfigured, match=message) as refused:
        env.keys("THING")
    assert KEY not in str(refused.value)
    assert "tulip" not in str(refused.value)


def test_redis_has_an_address(monkeypatch):
    monkeypatch.setenv("THING", "unix:///run/valkey?db=1")
    assert env.redis_url("THING") == "unix:///run/valkey?db=1"
    monkeypatch.setenv("THING", "localhost:6379")
    with pytest.raises(ImproperlyConfigured, match="THING must begin with redis://"):
        env.redis_url("THING")


def test_a_database_is_taken_apart(monkeypatch):
    monkeypatch.setenv(
        "THING", "postgresql://ann:p%40ss%2F@db.example:6432/shop?sslmode=require"
    )
    assert env.database("THING") == {
        "ENGINE": "checkpoints.db",
        "NAME": "shop",
        "USER": "ann",
        "PASSWORD": "p@ss/",
        "HOST": "db.example",
        "PORT": "6432",
        "OPTIONS": {"sslmode": "require"},
    }


def test_a_database_may_be_behind_a_socket(monkeypatch):
    monkeypatch.setenv("THING", "postgresql://ann@/shop?host=/run/pg&port=5433")
    found = env.database("THING")
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("/run/pg", "5433", "shop")
    assert found["OPTIONS"] == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("sqlite:///db", "begins with 'sqlite'"),
        ("postgresql://ann:tulip@host", "names no database"),
        ("postgresql://ann:tulip/9@host/shop", "cannot be read|names no database"),
        ("postgresql://ann:tulip@host:port/shop", "cannot be read"),
    ],
)
def test_a_wrong_database_is_named_and_its_password_not_shown(
    monkeypatch, value, message
):
    monkeypatch.setenv("THING", value)
    with pytest.raises(ImproperlyConfigured, match=message) as refused:
        env.database("THING")
    assert "tulip" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("s3://bucket", ("bucket", "")),
        ("s3://bucket/", ("bucket", "")),
        ("s3://bucket/a/b/", ("bucket", "a/b/")),
        ("", None),
    ],
)
def test_a_bucket_may_have_a_prefix(monkeypatch, value, found):
    monkeypatch.setenv("THING", value)
    assert env.bucket("THING") == found


@pytest.mark.parametrize("value", ["/var/blobs", "s3:bucket", "https://host/bucket"])
def test_what_is_no_bucket_is_refused_by_name(monkeypatch, value):
    monkeypatch.setenv("THING", value)
    with pytest.raises(ImproperlyConfigured, match=r"THING=.* must be s3://bucket"):
        env.bucket("THING")
