"""What every provider of key-encryption keys keeps. For one of your own:

    class TestMine(ProviderContract):
        @pytest.fixture
        def rig(self, settings): return MyRig(settings)

and run it with pytest. `rig` says how the thing behind the provider is turned on, gets a
new key, loses the old one and goes away; the tests do the rest.
"""

from __future__ import annotations

import re
from typing import Protocol
from uuid import uuid4

import pytest
from django.core.management import call_command

from checkpoints.access import Reason
from checkpoints.errors import DecryptionError, KeysUnavailable, UnknownKey
from checkpoints.keys import checks, hierarchy, rewrap
from checkpoints.keys.providers import KEK_LENGTH, Plain, Provider, provider
from checkpoints.models import WorkspaceKey
from checkpoints.pure import envelope
from checkpoints.pure.envelope import NIL, Context
from tests.conftest import make_workspace


class Rig(Protocol):
    """A provider under test, and what happens to the keys behind it."""

    binds_context: bool
    is_remote: bool

    def provider(self) -> Provider:
        """The provider, as KEY_PROVIDERS would make it."""

    def install(self) -> None:
        """Make it what KEY_PROVIDERS names, alone."""

    def rotate(self) -> None:
        """A new key wraps; the old one still unwraps."""

    def forget_old(self) -> None:
        """The keys before the current one are gone."""

    def go_away(self) -> None:
        """The service does not answer any more. Called where `is_remote`."""


def plain(number: int = 1) -> Plain:
    key = uuid4()
    context = Context("key.workspace", uuid4(), NIL, key, number, 1)
    return Plain(envelope.checked(bytes([number % 256]) * 32, key), context)


class ProviderContract:
    @pytest.fixture(autouse=True)
    def cold(self):
        hierarchy.forget()
        yield
        hierarchy.forget()

    # The interface

    def test_what_was_wrapped_is_unwrapped_in_order(self, rig: Rig):
        items = [plain(number) for number in range(250)]
        wrapped = rig.provider().wrap(items)
        assert [item.context for item in wrapped] == [item.context for item in items]
        backwards = rig.provider().unwrap(wrapped[::-1])
        assert backwards == [item.key for item in items[::-1]]

    def test_nothing_is_nothing(self, rig: Rig):
        assert rig.provider().wrap([]) == []
        assert rig.provider().unwrap([]) == []

    def test_its_ids_name_provider_key_and_version(self, rig: Rig):
        found = rig.provider()
        [wrapped] = found.wrap([plain()])
        assert wrapped.kek == found.current()
        assert re.fullmatch(rf"kek:{re.escape(found.name)}:.+:[^:]+", wrapped.kek)
        assert len(wrapped.kek) <= KEK_LENGTH
        assert found.batch >= 1

    def test_the_same_key_is_never_wrapped_to_the_same_bytes(self, rig: Rig):
        item = plain()
        one, two = rig.provider().wrap([item, item])
        assert one.key != two.key
        assert item.key not in one.key

    def test_a_new_key_wraps_and_the_old_one_still_unwraps(self, rig: Rig):
        item = plain()
        [before] = rig.provider().wrap([item])
        rig.rotate()
        [after] = rig.provider().wrap([item])
        assert before.kek != after.kek == rig.provider().current()
        assert rig.provider().unwrap([after, before]) == [item.key, item.key]

    def test_a_key_that_is_gone_is_named(self, rig: Rig):
        [old] = rig.provider().wrap([plain()])
        rig.rotate()
        rig.forget_old()
        with pytest.raises(UnknownKey, match=re.escape(repr(old.kek))):
            rig.provider().unwrap([old])

    def test_bytes_that_were_altered_do_not_open(self, rig: Rig):
        [wrapped] = rig.provider().wrap([plain()])
        for place in range(0, len(wrapped.key), 7):
            altered = bytearray(wrapped.key)
            altered[place] ^= 1
            with pytest.raises(DecryptionError):
                rig.provider().unwrap([wrapped._replace(key=bytes(altered))])
        with pytest.raises(DecryptionError):
            rig.provider().unwrap([wrapped._replace(key=wrapped.key[:-1])])

    def test_in_another_place_it_does_not_open(self, rig: Rig):
        item = plain()
        [wrapped] = rig.provider().wrap([item])
        moved = wrapped._replace(context=plain().context)
        if not rig.binds_context:  # then the check value inside has to find it
            assert rig.provider().unwrap([moved]) == [item.key]
            with pytest.raises(DecryptionError):
                envelope.unchecked(item.key, moved.context.object)
            return
        with pytest.raises(DecryptionError):
            rig.provider().unwrap([moved])

    def test_one_that_does_not_open_makes_the_call_fail(self, rig: Rig):
        one, two = rig.provider().wrap([plain(1), plain(2)])
        with pytest.raises(DecryptionError):
            rig.provider().unwrap([one, two._replace(key=two.key[:-1])])

    def test_it_shows_no_key(self, rig: Rig):
        item = plain()
        for shown in (repr(rig.provider()), repr(item)):
            assert item.key.hex() not in shown
            assert "\\x" not in shown

    def test_an_outage_can_be_told_from_a_wrong_key(self, rig: Rig):
        if not rig.is_remote:
            return  # it is in this process
        [wrapped] = rig.provider().wrap([plain()])
        rig.go_away()
        for asked in (
            lambda: rig.provider().wrap([plain()]),
            lambda: rig.provider().unwrap([wrapped]),
            lambda: rig.provider().current(),
        ):
            with pytest.raises(KeysUnavailable) as unavailable:
                asked()
            assert unavailable.value.retry

    # Under the hierarchy

    @pytest.mark.django_db
    def test_a_thread_opens_again_in_another_process(self, rig: Rig, make_thread):
        rig.install()
        branch = make_thread(workspace=make_workspace("remote"))
        before = hierarchy.thread_keys(branch.thread_id)
        hierarchy.forget()
        assert hierarchy.thread_keys(branch.thread_id) == before

    @pytest.mark.django_db
    def test_swapped_rows_do_not_open_whether_context_is_bound_or_not(self, rig: Rig):
        rig.install()
        rows = [key_of(make_workspace(slug)) for slug in ("one", "two")]
        for row, other in zip(rows, rows[::-1], strict=True):
            WorkspaceKey.objects.unscoped(Reason.TEST).filter(pk=row.pk).update(
                wrapped=other.wrapped
            )
        hierarchy.forget()
        for row in rows:
            with pytest.raises(DecryptionError):
                hierarchy.workspace_mac(row.workspace_id, "index")

    @pytest.mark.django_db
    def test_the_rotation_command_leaves_nothing_under_the_old_key(self, rig: Rig):
        rig.install()
        made = make_workspace("acme")
        digest = hierarchy.workspace_mac(made.pk, "index")
        rig.rotate()
        call_command("keys", "rotate-kek", verbosity=0)
        assert key_of(made).kek == provider().current()
        rig.forget_old()
        hierarchy.forget()
        checks.require_keks()
        assert hierarchy.workspace_mac(made.pk, "index") == digest

    @pytest.mark.django_db
    def test_keys_can_move_here_from_the_keyring(self, rig: Rig, settings):
        settings.KEY_ENCRYPTION_KEYS = {"before": bytes(range(32))}
        made = make_workspace("acme")
        digest = hierarchy.workspace_mac(made.pk, "index")
        rig.install()
        if "keyring" not in repr(provider()):
            settings.KEY_PROVIDERS = [
                *settings.KEY_PROVIDERS,
                "checkpoints.keys.keyring.Keyring",
            ]
        else:
            settings.KEY_ENCRYPTION_KEYS |= {"before": bytes(range(32))}
        hierarchy.forget()
        assert rewrap.rewrap().done == 1
        hierarchy.forget()
        assert key_of(made).kek == provider().current()
        assert hierarchy.workspace_mac(made.pk, "index") == digest


def key_of(workspace) -> WorkspaceKey:
    return WorkspaceKey.objects.unscoped(Reason.TEST).get(workspace=workspace)
