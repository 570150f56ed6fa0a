"""The contract of providers, kept by the keyring, and by one that asks a service."""

from __future__ import annotations

import base64
import hashlib
import shutil
from pathlib import Path

import pytest

from checkpoints.access import Reason
from checkpoints.errors import KeysUnavailable, UnknownKey
from checkpoints.keys import checks, hierarchy, report
from checkpoints.keys.keyring import Keyring
from checkpoints.models import WorkspaceKey
from project import env
from tests.checkpoints.provider_contract import ProviderContract
from tests.checkpoints.vault import TOKEN, Transit, Vault, serving
from tests.conftest import make_workspace


def named(name: str) -> str:
    secret = base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()
    return f"{name}:{secret}"


class KeyringRig:
    """Keys from the environment, or from a file that it names."""

    binds_context = True
    is_remote = False

    def __init__(self, settings, monkeypatch, file: Path | None) -> None:
        self.settings, self.monkeypatch, self.file = settings, monkeypatch, file
        self.names = ["first"]
        self._restart()

    def _restart(self) -> None:
        text = ",".join(map(named, self.names))
        if self.file is None:
            self.monkeypatch.setenv("KEY_ENCRYPTION_KEYS", text)
        else:
            self.file.write_text(f"{text}\n")
            self.monkeypatch.delenv("KEY_ENCRYPTION_KEYS", raising=False)
            self.monkeypatch.setenv("KEY_ENCRYPTION_KEYS_FILE", str(self.file))
        self.settings.KEY_ENCRYPTION_KEYS = env.keys("KEY_ENCRYPTION_KEYS")

    def provider(self) -> Keyring:
        return Keyring()

    def install(self) -> None:
        self.settings.KEY_PROVIDERS = ["checkpoints.keys.keyring.Keyring"]
        self._restart()

    def rotate(self) -> None:
        self.names.insert(0, f"key-{len(self.names)}")
        self._restart()

    def forget_old(self) -> None:
        del self.names[1:]
        self._restart()

    def go_away(self) -> None:
        raise NotImplementedError


class VaultRig:
    is_remote = True

    def __init__(self, settings, transit: Transit) -> None:
        self.settings, self.transit = settings, transit
        self.binds_context = transit.binds
        settings.VAULT_ADDR, settings.VAULT_TOKEN = transit.address, TOKEN

    def provider(self) -> Vault:
        return Vault()

    def install(self) -> None:
        self.settings.KEY_PROVIDERS = ["tests.checkpoints.vault.Vault"]

    def rotate(self) -> None:
        self.transit.rotate()

    def forget_old(self) -> None:
        self.transit.trim(max(self.transit.versions))

    def go_away(self) -> None:
        self.settings.VAULT_ADDR = "http://127.0.0.1:1"


class TestKeyringFromTheEnvironment(ProviderContract):
    @pytest.fixture
    def rig(self, settings, monkeypatch):
        return KeyringRig(settings, monkeypatch, None)


class TestKeyringFromAFile(ProviderContract):
    @pytest.fixture
    def rig(self, settings, monkeypatch, tmp_path):
        yield KeyringRig(settings, monkeypatch, tmp_path / "keys")
        shutil.rmtree(tmp_path)


class TestAServiceThatBindsContext(ProviderContract):
    @pytest.fixture
    def rig(self, settings):
        with serving(Transit()) as transit:
            yield VaultRig(settings, transit)


class TestAServiceThatBindsNone(ProviderContract):
    @pytest.fixture
    def rig(self, settings):
        with serving(Transit(binds=False)) as transit:
            yield VaultRig(settings, transit)


# What only a service elsewhere brings with it


@pytest.fixture
def vault(settings):
    with serving(Transit()) as transit:
        rig = VaultRig(settings, transit)
        rig.install()
        hierarchy.forget()
        yield rig
    hierarchy.forget()


@pytest.mark.django_db
def test_a_workspaces_key_is_asked_for_once(vault, make_thread):
    made = make_workspace("remote")
    branches = [make_thread(workspace=made) for _ in range(3)]
    hierarchy.forget()
    vault.transit.requests.clear()
    for branch in branches:
        hierarchy.thread_keys(branch.thread_id)
    assert vault.transit.requests == ["decrypt"]


@pytest.mark.django_db
def test_an_outage_is_said_on_the_page_of_keys_and_stops_a_start(vault):
    make_workspace("acme")
    vault.go_away()
    with pytest.raises(KeysUnavailable, match="does not answer"):
        checks.require_keks()
    [kek] = report.keks()
    assert not kek.is_current
    assert "does not answer" in kek.problem


@pytest.mark.django_db
def test_a_token_that_is_refused_is_an_outage_not_a_wrong_key(vault, settings):
    settings.VAULT_TOKEN = "other"
    with pytest.raises(KeysUnavailable, match="HTTP 403"):
        make_workspace("acme")


@pytest.mark.django_db
def test_an_id_of_a_provider_that_is_not_named_is_refused_with_the_way_out(vault):
    made = make_workspace("acme")
    WorkspaceKey.objects.unscoped(Reason.TEST).update(kek="kek:aws-kms:main:1")
    hierarchy.forget()
    with pytest.raises(UnknownKey, match=r"provider 'aws-kms'.*KEY_PROVIDERS: vault"):
        hierarchy.workspace_mac(made.pk, "index")
