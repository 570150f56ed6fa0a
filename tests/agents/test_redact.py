"""Secrets in values are found by their form or their exact text, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import SecretUnusable
from agents.pure.redact import redact
from agents.tools import secrets

TAIL = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api-key", f"sk-proj-{TAIL}"),
        ("payment-key", f"sk_live_{TAIL}"),
        ("aws-access-key", "AKIA" + "ABCDEFGH12345678"),
        ("github-token", f"ghp_{TAIL}"),
        ("github-token", f"github_pat_{TAIL}"),
        ("gitlab-token", f"glpat-{TAIL}"),
        ("google-key", f"AIza{TAIL[:35]}"),
        ("slack-token", f"xoxb-{TAIL}"),
        ("npm-token", f"npm_{TAIL}"),
        ("pypi-token", f"pypi-{TAIL}{TAIL}"),
        ("jwt", f"eyJ{TAIL}.eyJ{TAIL}.{TAIL}"),
    ],
)
def test_a_token_is_found_by_its_form_wherever_it_stands(name, secret):
    value = {"said": [f"Use {secret}, please.", 1, None], secret: True}
    kept, found = redact(value, {})
    assert secret not in json.dumps(kept)
    assert kept["said"] == [f"Use [secret {name}], please.", 1, None]
    assert found == [name]


def test_a_private_key_goes_whole_even_where_it_was_cut():
    begins = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc"
    whole = f"{begins}\n-----END RSA PRIVATE KEY-----"
    assert redact(f"a {whole} b", {})[0] == "a [secret private-key] b"
    assert redact(f"a {begins}", {})[0] == "a [secret private-key]"


@pytest.mark.parametrize(
    "text",
    [
        f"task-{TAIL}",  # a word that ends in a prefix
        "sk-learn",
        "the risk-free rate of 2026",
        "3f0c2f3e-6f0e-4d0c-9f9b-0a4f1f4a2b77",
        "see ghp_ and AKIA",
        "AKIA" + "ABCDEFGH1234567890AB",  # longer than a key
    ],
)
def test_what_merely_looks_a_little_like_it_stays(text):
    assert redact(text, {}) == (text, [])


def test_a_known_secret_is_found_by_its_text_also_within_json():
    secret = 'pass"word\\with"quotes'
    value = [secret, json.dumps({"password": secret})]
    kept, found = redact(value, {secret: "DB"})
    assert kept == ["[secret DB]", '{"password": "[secret DB]"}']
    assert found == ["DB"]


def test_of_two_where_one_contains_the_other_the_longer_goes():
    known = {"correct horse": "SHORT", "correct horse battery": "LONG"}
    assert redact("correct horse battery", known)[0] == "[secret LONG]"


def test_two_keys_that_become_one_both_stay():
    first, second = f"ghp_{TAIL}", f"gho_{TAIL}"
    kept, _ = redact({first: 1, second: 2}, {})
    assert sorted(kept.values()) == [1, 2]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_a_value_without_secrets_is_the_same_object(value):
    kept, found = redact(value, {"correct horse": "HORSE"})
    if not found:
        assert kept is value


@given(json_values, st.text(min_size=8))
def test_nothing_of_a_known_secret_is_left(value, secret):
    kept, found = redact([value, f"x{secret}x"], {secret: "N"})
    assert found == ["N"]
    if secret not in "[secret N]":
        assert secret not in kept[1]


def test_a_secret_comes_from_the_environment_or_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDPOINT_SECRET_DESK_A", "correct horse")
    assert secrets.resolve("DESK_A") == "correct horse"
    path = tmp_path / "b"
    path.write_text("battery staple\n")
    monkeypatch.setenv("HOLDPOINT_SECRET_DESK_B_FILE", str(path))
    assert secrets.resolve("DESK_B") == "battery staple"
    path.write_text("rotated staple")
    assert secrets.resolve("DESK_B") == "rotated staple"
    # What was given out before is still caught.
    kept, found = secrets.capture("battery staple, rotated staple, correct horse")
    assert kept == "[secret DESK_B], [secret DESK_B], [secret DESK_A]"
    assert sorted(found) == ["DESK_A", "DESK_B"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DESK_C", None, "belongs into HOLDPOINT_SECRET_DESK_C"),
        ("desk", None, "no name of a secret"),
        ("DESK_FILE", None, "no name of a secret"),
        ("DESK_D", "short", "has 5 characters"),
    ],
)
def test_a_secret_that_cannot_be_used_says_why(monkeypatch, name, value, said):
    if value:
        monkeypatch.setenv(f"HOLDPOINT_SECRET_{name}", value)
    with pytest.raises(SecretUnusable, match=said):
        secrets.resolve(name)


def test_a_file_that_is_away_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDPOINT_SECRET_DESK_E_FILE", str(tmp_path / "none"))
    with pytest.raises(SecretUnusable, match="is not there"):
        secrets.resolve("DESK_E")
