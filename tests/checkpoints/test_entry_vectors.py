"""Entries are found by their meaning, and their vectors are as sealed as they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from agents.demo.model.embeddings import vector
from agents.llm import Embeddings, Server
from checkpoints import entries, entries_care, entry_vectors
from checkpoints.access import Reason
from checkpoints.clock import now
from checkpoints.entries import Scope
from checkpoints.models import Entry, EntryVector
from checkpoints.pure.envelope import key_id
from checkpoints.pure.names import name
from checkpoints.pure.vectors import packed, unit
from tests.checkpoints.test_entries import running
from tests.checkpoints.test_rank import PLANTED as IN_WORDS
from tests.conftest import as_owner

pytestmark = pytest.mark.django_db(transaction=True)

USER, WORKSPACE = Scope.USER, Scope.WORKSPACE

# A fact, and how somebody asks for it later without its words.
PARAPHRASED = [
    ("Helen is allergic to peanuts", "nut intolerance"),
    ("Marsh wants the aisle on every flight", "aircraft chairs: which does Marsh like?"),
    ("Okafor's passport expires in March", "when do his papers lapse"),
    ("Invoices go to accounts at Northwind", "where are bills mailed"),
    ("The password for wifi is on the key card", "wireless passphrase"),
    ("Insurance is with Alpina", "are we covered, by which policy"),
    ("No layovers in Frankfurt", "stopovers and connections"),
    ("Dinner budget is 80 euros", "how much money for supper"),
    ("Maria's phone is 555-0142", "ring her: telephone"),
    ("The rental car must be electric", "vehicle with a battery"),
    ("Two suitcases and one cello", "baggage"),
    ("Discount code HOLD20", "any rebate or voucher"),
    ("The conference begins Monday", "opening of the congress"),
    ("Call a taxi from Gul", "cab company"),
    ("The refund was refused twice", "reimbursement"),
    ("Museum tickets cannot be returned", "admission, giving it back"),
    ("The emergency contact is Lindqvist", "whom to reach after an accident"),
    ("Petrov is vegetarian", "meatless"),
    ("Lee takes the quiet coach of trains", "silent rail wagon"),
    ("Her birthday is in June", "when was she born"),
]  # fmt: skip


@pytest.fixture
def embedder(llm) -> Embeddings:
    server = Server(llm.base_url, llm.api_key)
    return Embeddings(server, "scripted-embedding-1")


@pytest.fixture
def run(alice, make_thread):
    """A run that acts for alice."""
    return running(alice, make_thread(owner=alice))


def remember(by, *texts: str, scope: str = USER) -> None:
    for n, text in enumerate(texts):
        entries.put(by, scope, name(["notes"], f"n{n:03}"), text)


def found(by, query: str, embedder, *, scope: str = USER, most: int = 5) -> list[Any]:
    listed = entries.search(by, scope, query, most=most, embedder=embedder)
    return [one.value for one in listed.found]


def vectors():
    return EntryVector.objects.unscoped(Reason.TEST)


# What is found


def test_of_paraphrased_facts_nine_of_ten_are_among_five(run, alice, embedder):
    topics = ("report", "print", "desk", "garden", "river", "paint", "violin", "lamp")
    chatter = [f"note {n}: the {topics[n % 8]} was looked at" for n in range(150)]
    remember(alice, *chatter, *(fact for fact, _ in PARAPHRASED))
    hits = [fact in found(run, query, embedder) for fact, query in PARAPHRASED]
    missed = [one for one, hit in zip(PARAPHRASED, hits, strict=True) if not hit]
    assert sum(hits) / len(hits) >= 0.9, missed
    # By words alone it is another matter, or nothing above was proved.
    by_words = [fact in found(run, query, None) for fact, query in PARAPHRASED]
    assert sum(by_words) / len(by_words) < 0.5


def test_what_words_find_is_still_found(run, alice, embedder):
    remember(alice, *(fact for fact, _ in IN_WORDS))
    hits = [fact in found(run, query, embedder) for fact, query in IN_WORDS]
    assert sum(hits) / len(hits) >= 0.9


def test_without_a_model_nothing_is_made_and_nobody_is_asked(run, alice, llm):
    remember(alice, "Call a taxi from Gul")
    assert found(run, "cab", None) == []
    assert found(run, "taxi", None) == ["Call a taxi from Gul"]
    assert (llm.embedded, vectors().count()) == ([], 0)


# What is made, and when


def test_writing_asks_no_model_and_a_runs_search_makes_each_vector_once(
    run, alice, embedder, llm
):
    remember(alice, "Call a taxi from Gul", "Two suitcases")
    assert llm.embedded == []
    assert found(run, "cab", embedder)[0] == "Call a taxi from Gul"
    first, *texts = llm.embedded
    assert first == "cab"
    assert sorted(texts) == [
        "notes n000 Call a taxi from Gul",
        "notes n001 Two suitcases",
    ]
    found(run, "baggage", embedder)
    assert llm.embedded[3:] == ["baggage"]


def test_a_person_who_searches_keeps_nothing_and_uses_what_runs_have_kept(
    run, alice, embedder, llm
):
    remember(alice, "Call a taxi from Gul")
    assert found(alice, "cab", embedder) == ["Call a taxi from Gul"]
    assert vectors().count() == 0
    found(run, "cab", embedder)
    asked = len(llm.embedded)
    assert found(alice, "cab", embedder) == ["Call a taxi from Gul"]
    assert llm.embedded[asked:] == ["cab"]


def test_a_new_version_is_found_by_what_it_says_and_not_by_what_it_said(
    run, alice, embedder
):
    at = name([], "way")
    entries.put(alice, USER, at, "Call a taxi from Gul")
    entries.put(alice, USER, name([], "other"), "Two suitcases")
    assert found(run, "cab", embedder)[0] == "Call a taxi from Gul"
    entries.put(alice, USER, at, "Lee takes the quiet coach of trains", expected=1)
    assert found(run, "rail", embedder)[0] == "Lee takes the quiet coach of trains"
    assert vectors().count() == 2


@pytest.mark.parametrize("model", ["scripted-embedding-2", "scripted-embedding-small"])
def test_another_model_makes_its_own(run, alice, embedder, llm, model):
    remember(alice, "Call a taxi from Gul", "Two suitcases")
    found(run, "cab", embedder)
    other = Embeddings(embedder.server, model)
    asked = len(llm.embedded)
    assert found(run, "cab", other)[0] == "Call a taxi from Gul"
    assert len(llm.embedded) == asked + 3
    assert vectors().count() == 2


def test_no_more_are_made_at_once_than_the_most_and_the_rest_goes_by_words(
    run, alice, embedder, monkeypatch
):
    monkeypatch.setattr(entry_vectors, "BATCH", 2)
    monkeypatch.setattr(entry_vectors, "MOST_MADE", 2)
    remember(alice, *(f"lamp {n}" for n in range(6)))
    listed = entries.search(run, USER, "lamp", most=9, embedder=embedder)
    assert listed.meaning is not None
    assert listed.meaning.left == 2
    assert "2 entries were searched by words alone" in listed.meaning.note
    assert len(listed.found) == 6
    again = entries.search(run, USER, "lamp", most=9, embedder=embedder)
    assert again.meaning is not None
    assert again.meaning.note == ""


# A model that is away


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("500", "answered with 500"),
        ("401", "answered with 401"),
        ("drop", "cannot be reached"),
        ("garbage", "a str stands among"),
        ("cut", "there are not 1"),
    ],
)
def test_where_the_model_fails_words_are_searched_and_that_is_said(
    run, alice, embedder, llm, kind, said
):
    remember(alice, "Call a taxi from Gul")
    llm.embedding_fault(kind)
    listed = entries.search(run, USER, "taxi", most=5, embedder=embedder)
    assert [one.value for one in listed.found] == ["Call a taxi from Gul"]
    assert listed.meaning is not None
    assert said in listed.meaning.note
    assert "searched by words alone" in listed.meaning.note
    assert "taxi" not in listed.meaning.note
    assert found(run, "cab", embedder) == ["Call a taxi from Gul"]


def test_a_model_that_hangs_is_not_waited_for(run, alice, embedder, llm, monkeypatch):
    monkeypatch.setattr(entry_vectors, "SECONDS", 0.3)
    remember(alice, "Call a taxi from Gul")
    llm.embedding_fault("hang", seconds=5)
    began = now()
    listed = entries.search(run, USER, "taxi", most=5, embedder=embedder)
    assert now() - began < timedelta(seconds=4)
    assert listed.meaning is not None
    assert "did not answer in time" in listed.meaning.note
    assert len(listed.found) == 1


def test_a_model_that_stops_half_way_leaves_the_rest_to_words(
    run, alice, embedder, llm
):
    remember(alice, "Call a taxi from Gul", "Two suitcases")
    llm.embedding_fault("503", match="notes")
    listed = entries.search(run, USER, "taxi", most=5, embedder=embedder)
    assert listed.meaning is not None
    assert listed.meaning.left == 2
    assert "answered with 503 " not in listed.meaning.note
    assert [one.value for one in listed.found] == ["Call a taxi from Gul"]


def test_a_server_that_is_not_there_is_said(run, alice):
    gone = Embeddings(Server("http://127.0.0.1:9/v1", "test"), "m")
    remember(alice, "Call a taxi from Gul")
    listed = entries.search(run, USER, "taxi", most=5, embedder=gone)
    assert listed.meaning is not None
    assert "cannot be reached" in listed.meaning.note


# Whose they are


def test_another_persons_and_another_workspaces_are_never_found_nor_sent(
    run, alice, bob, other, embedder, llm
):
    remember(bob, "Bob calls a taxi from Gul")
    remember(other, "Oscar calls a taxi", scope=WORKSPACE)
    remember(alice, "Two suitcases")
    for scope in (USER, WORKSPACE):
        assert set(found(run, "cab", embedder, scope=scope)) <= {"Two suitcases"}
    assert not [text for text in llm.embedded if "taxi" in text]


def test_who_may_not_see_an_entry_does_not_see_its_vector(
    run, alice, bob, other, embedder
):
    remember(alice, "Call a taxi from Gul")
    found(run, "cab", embedder)
    assert EntryVector.objects.for_user(alice).count() == 1
    assert EntryVector.objects.for_user(bob).count() == 0
    assert EntryVector.objects.for_user(other).count() == 0


# How they are kept


def test_neither_text_nor_vector_is_anywhere_in_clear(run, alice, embedder, llm):
    remember(alice, "zqtaxi")
    found(run, "zqwanted", embedder)
    kept = unit(vector(embedder.model, "notes n000 zqtaxi"))
    clear = [
        *("zq", b"zq".hex(), embedder.model),
        *(packed(kept)[:24], kept.tobytes()[:24].hex()),
    ]
    with as_owner(), connection.cursor() as cursor:
        for table in ("entry", "entryversion", "entryvector", "auditevent"):
            cursor.execute(f"SELECT t::text FROM checkpoints_{table} t")  # noqa: S608  # our own names
            for (row,) in cursor.fetchall():
                assert not [text for text in clear if text in row]


def test_a_vector_of_which_a_bit_was_flipped_is_refused_and_made_anew(
    run, alice, embedder, llm
):
    remember(alice, "Call a taxi from Gul")
    found(run, "cab", embedder)
    row = vectors().get()
    sealed = bytes(row.vector)
    for at in range(0, len(sealed), 97):
        damaged = bytearray(sealed)
        damaged[at] ^= 1
        vectors().update(vector=bytes(damaged))
        asked = len(llm.embedded)
        assert found(run, "cab", embedder) == ["Call a taxi from Gul"]
        assert len(llm.embedded) == asked + 2  # the query, and the entry's text
        assert bytes(vectors().get().vector) != bytes(damaged)


def test_a_vector_that_was_moved_to_another_entry_is_refused_there(
    run, alice, embedder, llm
):
    remember(alice, "Call a taxi from Gul", "Two suitcases")
    found(run, "cab", embedder)
    one, other = vectors().order_by("pk")
    vectors().filter(pk=one.pk).update(vector=other.vector)
    vectors().filter(pk=other.pk).update(vector=one.vector)
    asked = len(llm.embedded)
    assert found(run, "cab", embedder)[0] == "Call a taxi from Gul"
    assert len(llm.embedded) == asked + 3


@pytest.mark.owner  # verify_checkpoints is an owner's command
def test_a_damaged_vector_is_named_by_the_check_of_everything(run, alice, embedder):
    remember(alice, "Call a taxi from Gul")
    found(run, "cab", embedder)
    call_command("verify_checkpoints")
    vectors().update(vector=b"none")
    with pytest.raises(CommandError):
        call_command("verify_checkpoints")


def test_a_vector_goes_with_its_entry(run, alice, embedder):
    remember(alice, "Call a taxi from Gul")
    found(run, "cab", embedder)
    entries.delete(alice, USER, name(["notes"], "n000"))
    assert found(run, "cab", embedder) == []
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_entry DISABLE TRIGGER stands")
        cursor.execute(
            "UPDATE checkpoints_entry SET updated_at = now() - interval '31 days'"
        )
        cursor.execute("ALTER TABLE checkpoints_entry ENABLE TRIGGER stands")
    assert entries_care.sweep() == 1
    assert vectors().count() == 0
    assert not Entry.objects.unscoped(Reason.TEST).exists()


@pytest.mark.owner  # `keys rotate-workspace` is an owner's command
def test_a_rotated_key_seals_what_is_made_then_and_opens_what_was_made_before(
    run, alice, workspace, embedder, llm
):
    remember(alice, "Call a taxi from Gul")
    found(run, "cab", embedder)
    before = bytes(vectors().get().vector)
    call_command("keys", "rotate-workspace", workspace.slug, "--older-than", "0")
    asked = len(llm.embedded)
    assert found(run, "cab", embedder) == ["Call a taxi from Gul"]
    assert llm.embedded[asked:] == ["cab"]
    other = Embeddings(embedder.server, "scripted-embedding-2")
    found(run, "cab", other)
    assert key_id(bytes(vectors().get().vector)) != key_id(before)
