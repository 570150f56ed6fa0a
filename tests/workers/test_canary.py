"""Nothing that people or agents said lies anywhere in clear, after all that can happen.

Each place where text can come from gets a word of its own; after the whole life of a run
none of them may be found in the database, in Redis, in a log, a session or a cookie.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.auth.models import User
from django.core.management import call_command

from agents import queue
from agents.demo import seed
from agents.demo.stories import (
    FAILED,
    FINISHED,
    FORKED,
    HANDBOOK,
    INVOICES,
    WAITING,
)
from agents.models import Approval, Run, ToolCall
from agents.pure.bundles import file
from checkpoints import gate
from checkpoints.access import Role, UserPrincipal
from checkpoints.blobs import Contents
from checkpoints.log.hydrate import read
from checkpoints.models import (
    Branch,
    Checkpoint,
    EntryLock,
    EntryVersion,
    Membership,
    Remark,
    SearchField,
    Thread,
)
from tests.conftest import as_owner
from tests.workers import leaks
from tests.workers.conftest import wait_until
from tests.workers.web import Visitor, web

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.owner,  # looks through everything, as a dump does; the others are processes
]


class Canaries:
    """Words that nobody else says: `birds["title"]` is one of its own."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def __getitem__(self, place: str) -> str:
        word = f"zq{secrets.token_hex(8)}{place.replace(' ', '')}"
        return self.words.setdefault(place, word)

    def text(self, place: str) -> str:
        """A text that begins and ends with the word."""
        return f"{self[place]}, wherever this goes: {self[place]}"


@pytest.fixture
def birds() -> Canaries:
    return Canaries()


@pytest.fixture
def redis_log() -> Iterator[leaks.RedisLog]:
    with queue.connect(timeout=5) as redis, leaks.RedisLog(redis) as log:
        yield log


@pytest.fixture
def visitor(workers, alice, tmp_path) -> Iterator[Visitor]:
    """Alice, at a web process that says as much as it can be made to say."""
    # As the web process, which is not a test, hashes it.
    password = make_password("alice", hasher=PBKDF2PasswordHasher())
    with as_owner():
        User.objects.filter(pk=alice.user_id).update(password=password)
    workers.env["LOG_LEVEL"] = workers.web_env["LOG_LEVEL"] = "DEBUG"
    with web(workers.web_env, tmp_path / "web.log") as address:
        person = Visitor(address)
        person.sign_in("alice", "alice")
        yield person


def test_the_search_finds_what_is_in_clear_in_any_form(make_thread, birds):
    """Or else the tests below prove nothing."""
    import base64
    import zlib

    word = birds["anywhere"]
    for hidden in (
        word.encode(),
        b"x" + word.encode().hex().encode(),
        *(base64.b64encode(b"ab"[:n] + word.encode() + b" and more") for n in range(3)),
        leaks.unpacked(b"abc" + zlib.compress(b"so " + word.encode())),
        leaks.cookies(
            [base64.urlsafe_b64encode(zlib.compress(word.encode())).decode()]
        )["cookies"],
    ):
        assert leaks.found([word], {"place": hidden}), hidden
    user = User.objects.create_user("nobody", first_name=word)
    assert leaks.found([word], leaks.database())
    user.delete()
    assert not leaks.found([word], leaks.database())
    branch = make_thread()
    Branch.objects.filter(pk=branch.pk).update(head_mac=b"\0\1" + word.encode())
    assert leaks.found([word], leaks.database())


def test_nothing_that_was_said_is_found_in_clear(
    visitor, workers, server, redis_log, birds, tmp_path, caplog, capsys, blob_dir
):
    workers.start(pool=2)
    live_through_everything(visitor, server, birds, tmp_path)
    call_command("import_chat", str(chat_log(birds, tmp_path)))

    assert_all_are_stored(birds)
    stored = leaks.files(blob_dir)
    assert len(stored) == 2  # the mark, and a long text
    places = {
        **leaks.database(),
        **dumped(),
        **redis_log.places(),
        **leaks.cookies(visitor.kept),
        **stored,
        "worker log": workers.log.read_bytes(),
        "web log": (tmp_path / "web.log").read_bytes(),
        "our log": caplog.text.encode(),
        "our output": "".join(capsys.readouterr()).encode(),
    }
    assert len(places["worker log"]) > 0
    assert len(places["web log"]) > 0
    assert any(name.startswith("redis key") for name in places)
    assert leaks.found(birds.words.values(), places) == []


def live_through_everything(
    alice: Visitor, server: Any, birds: Canaries, tmp_path: Any
) -> None:
    # Start. The agent asks for something that a person has to allow.
    server.will_call("c1", "book", item=birds.text("argument"), price="1200")
    server.will_call(
        "c2", "book", item=birds.text("proposed"), price="1300", reason=birds["why"]
    )
    server.will_call("c3", "book", item=birds.text("refused"), price="1400")
    server.charge({birds.text("guarded"): {"any": {"price": "gone"}}})
    server.will_call("c3b", "reserve", item=birds.text("guarded"), price="1400")
    server.will_call("c4", "question", question=birds.text("question"))
    server.will_call_all(
        ("c5", "look", {"what": birds.text("looked up")}),
        ("c6", birds["unknown tool"], {"x": birds["its argument"]}),
        ("c7", "book", {"item": birds["misfit"], "price": birds["no price"]}),
        ("c8", "book", f'{{"item": "{birds["not JSON"]}'),
        ("c9", "complain", {"what": birds.text("exception")}),
        text=birds.text("said beside calls"),
    )
    server.will_say(birds.text("answer"))
    alice.open("/runs/new")
    alice.send(
        "^$|/runs/new",
        agent="nobody",
        message=birds["mistake"],
        title=birds["mistaken"],
    )
    assert alice.status == 422
    alice.send(
        "^$|/runs/new",
        agent="test-desk",
        message=birds.text("message"),
        title=birds["title"],
        visibility="workspace",
    )
    run = Run.objects.get()
    decide(alice, run, "", decision="approve")
    edit = {"arg/item": birds.text("edited"), "arg/price": "1350"}
    decide(alice, run, "edit", decision="edit", **edit)
    decide(alice, run, "reject", decision="reject", reason=birds.text("reason"))
    decide(alice, run, "reject", decision="reject", reason=birds.text("sold out"))
    decide(alice, run, "", decision="respond", response=birds.text("response"))
    over(run, "succeeded")

    # Say more; the model declines, then a tool stops the run; retry.
    server.will_refuse(birds.text("refusal"))
    say(alice, run, birds.text("more"))
    over(newest(run), "failed")
    server.will_call_all(("g1", "give_up", {}), text=birds.text("last words"))
    server.will_say(birds.text("second answer"))
    say(alice, run, birds.text("once more"))
    over(newest(run), "failed")
    alice.open(f"/threads/{run.thread_id}/")
    alice.send("/retry$")
    over(newest(run), "succeeded")

    # Fork, with everything changed.
    server.will_call("f1", "book", item=birds.text("in the fork"), price="1")
    step = Checkpoint.objects.get(branch=run.branch_id, step=3)
    alice.open(f"/threads/{run.thread_id}/fork/{step.pk}/")
    changes = {
        "name": birds["branch"],
        "system": birds.text("prompt"),
        "message": birds.text("other message"),
    }
    alice.send("/fork/", **changes, temperature="x")
    assert alice.status == 422
    alice.send("/fork/", **changes, temperature="0.5", do="run")
    branch = Branch.objects.exclude(parent=None).get()
    forked = Run.objects.get(branch=branch)
    wait_until(lambda: Approval.objects.pending().filter(run=forked).exists())
    alice.open(f"/inbox/{Approval.objects.pending().get(run=forked).pk}/")
    alice.open(f"/threads/{run.thread_id}/?branch={branch.pk}")
    alice.send("/cancel$")
    over(forked, "cancelled")

    # Asked again: other words, of which nothing is done.
    for n in range(2):
        server.will_say(birds.text(f"answer again {n}"))
    reply = Checkpoint.objects.filter(branch=branch, kind="model").earliest("step")
    alice.open(f"/threads/{run.thread_id}/at/{reply.pk}/ask-again")
    alice.send("/ask-again$", times="2", seeds="new")
    for each in Run.objects.filter(asks=reply):
        over(each, "succeeded")
    alice.open(f"/threads/{run.thread_id}/at/{reply.pk}/ask-again")
    assert "0 of 2" in alice.page, alice.page

    # Found again by what its agent declares of it.
    server.will_say("So it is.")
    alice.open("/runs/new")
    alice.send(
        "^$|/runs/new",
        agent="test-filed",
        message=birds["declared"],
        title="",
        visibility="workspace",
    )
    over(Run.objects.get(agent_version__agent__name="test-filed"), "succeeded")
    assert SearchField.objects.exists()
    alice.open(f"/threads/?field=asked={birds['declared']}")
    assert "1 match" in alice.page, alice.page

    # Files, by a name and with a text of its own; looked at, and taken home.
    name = f"{birds['folder']}/{birds['file name']}.md"
    server.will_call("w1", "write_file", path=name, content=birds.text("file"))
    server.will_call("w2", "edit_file", path=name, old="goes", new=birds["file edit"])
    server.will_say("Filed.")
    alice.open("/runs/new")
    alice.send(
        "^$|/runs/new",
        agent="test-files",
        message=birds["files wanted"],
        title="",
        visibility="workspace",
    )
    filed = Run.objects.get(agent_version__agent__name="test-files")
    over(filed, "succeeded")
    path = f"path=/files/{birds['folder']}~1{birds['file name']}.md"
    for query in ("tab=files", f"tab=files&{path}"):
        alice.open(f"/threads/{filed.thread_id}/?{query}")
        assert birds["file name"] in alice.page
    assert birds["file edit"] in alice.page
    filed.branch.refresh_from_db()
    at = f"/threads/{filed.thread_id}/at/{filed.branch.head_id}"
    alice.open(f"{at}/file?path={name}")
    assert alice.page.startswith(birds["file"])

    # Say something beside it, and take some of it back.
    remark(alice, run, "note", birds.text("note"), about="step")
    remark(alice, run, "note", birds.text("hasty note"))
    row = Remark.objects.filter(kind="note").latest("created_at")
    remark(alice, run, "remove", remark=str(row.pk))
    remark(alice, run, "label", birds["label"])
    remark(alice, run, "bad", birds.text("reason of a verdict"), about="branch")
    remark(alice, run, "label", birds.text("long label"))
    assert alice.status == 422
    alice.open(f"/threads/{run.thread_id}/remarks")

    # Share something on a board, under a lock, and keep a doubt for oneself.
    there = {"namespace": [birds["board part"]], "key": birds["board key"]}
    server.will_call("b1", "board_lock", **there)
    server.will_call("b2", "board_write", **there, value=birds.text("shared"), fence=1)
    server.will_call("b3", "board_write", **there, value=birds["doubted"], private=True)
    server.will_call("b4", "board_list", namespace=[], words=birds["board words"])
    server.will_say("Shared.")
    alice.open("/runs/new")
    alice.send(
        "^$|/runs/new",
        agent="test-boarder",
        message=birds["board wanted"],
        title="",
        visibility="workspace",
    )
    sharing = Run.objects.get(agent_version__agent__name="test-boarder")
    over(sharing, "succeeded")
    assert EntryLock.objects.exists()
    alice.open(f"/threads/{sharing.thread_id}/board/")
    assert birds["shared"] in alice.page
    alice.send("/board/", lock=str(EntryLock.objects.get().pk), fence="1")

    carry_elsewhere(alice, run, birds)
    keep_in_memory(alice, birds)

    # Look at everything.
    for tab in ("diff", "state", "messages", "context", "effects", "raw", "files"):
        alice.open(f"/threads/{run.thread_id}/?tab={tab}")
    for page in (
        f"/threads/?q={birds['searched']}",
        f"/nowhere/?q={birds['searched']}",
        "/inbox/?show=decided",
        "/runs/",
    ):
        alice.open(page)


def decide(alice: Visitor, run: Run, sheet: str, **values: str) -> None:
    """The next request of the run, decided on its page."""
    [approval] = wait_until(lambda: list(Approval.objects.pending().filter(run=run)))
    alice.open(f"/inbox/{approval.pk}/{sheet}")
    alice.send("/decide$", **values)
    approval.refresh_from_db()
    assert not approval.is_pending, alice.page


def say(alice: Visitor, run: Run, message: str) -> None:
    alice.open(f"/threads/{run.thread_id}/")
    alice.send("/message$", message=message)


def remark(
    alice: Visitor,
    run: Run,
    do: str,
    text: str = "",
    about: str = "thread",
    **more: str,
) -> None:
    alice.open(f"/threads/{run.thread_id}/")
    alice.send("/remarks", do=do, text=text, about=about, **more)


def keep_in_memory(alice: Visitor, birds: Canaries) -> None:
    """Put an entry, find it, edit it, be refused, and delete it."""
    path = f"{birds['namespace']}/{birds['memory key']}"
    alice.open("/memory/?new=1")
    alice.send("new=1$", path=path, value=birds.text("remembered"))
    assert "Kept, as a new entry" in alice.page, alice.page
    alice.send("^/memory/.+", do="save", value=birds.text("remembered since"))
    alice.open("/memory/?new=1")
    alice.send("new=1$", path=path, value=birds.text("came too late"))
    assert alice.status == 409, alice.page
    alice.open(f"/memory/?in={birds['namespace']}&q={birds['remembered']}")
    assert "No entry has these words" in alice.page, alice.page


def carry_elsewhere(alice: Visitor, run: Run, birds: Canaries) -> None:
    """Hand the thread on; take in a bundle with words of its own, at first a damaged one."""
    page = f"/threads/{run.thread_id}/export?step=1"
    alice.open(page)
    alice.send("^$", what="test")
    assert json.loads(alice.page)["format"] == file.TEST_CASE
    alice.open(page)
    alice.send("^$", what="thread", masked=f"/vars/{birds['masked path']}")
    content = json.loads(alice.page)["content"]
    elsewhere = bundle(content["branches"][0], birds)
    damaged = elsewhere.replace(b'"version"', f'"{birds["damage"]}"'.encode())
    for data, status in ((damaged, 422), (elsewhere, 200)):
        alice.open("/threads/import")
        alice.upload("/import$", data, visibility="workspace")
        assert alice.status == status, alice.page
        assert ("Nothing of it was imported." in alice.page) is (status == 422)
    assert birds["bundle title"] in alice.page
    for tab in ("state", "context", "effects", "raw"):
        alice.open(f"{alice.url.partition('?')[0]}?tab={tab}")
    alice.open(f"{alice.url.partition('?')[0]}export?what=thread")
    alice.send("^$")
    assert birds["call elsewhere"] in alice.page


def bundle(branch: dict[str, Any], birds: Canaries) -> bytes:
    """Of this branch, with words in every text that a bundle has."""
    first, *more = branch["steps"]
    state = {**first["ops"][0][1], "facts": {birds["bundle key"]: birds["bundle fact"]}}
    call = {
        **dict.fromkeys(("started_at", "finished_at", "approval")),
        "ordinal": 0,
        "effect": "none",
        "status": "done",
        "attempts": 1,
        "tool": birds["tool elsewhere"],
        "title": birds["call elsewhere"],
        "error_class": "",
    }
    step = {
        **first,
        "ops": [["reset", state]],
        "label": birds["bundle label"],
        "name": birds["node elsewhere"],
        "by": birds["person elsewhere"],
        "agent": birds["agent elsewhere"],
        "context": {"note": birds["bundle context"]},
        "calls": [call],
    }
    named = {**branch, "name": birds["bundle branch"], "steps": [step, *more]}
    content = {"title": birds["bundle title"], "branches": [named]}
    manifest = {"made_by": birds["manifest"]}
    return file.write(file.BUNDLE, manifest, content, lines=False).encode()


def newest(run: Run) -> Run:
    return Run.objects.filter(thread=run.thread_id).order_by("-created_at")[0]


def over(run: Run, status: str) -> None:
    def ended() -> bool:
        run.refresh_from_db()
        return not run.is_live

    wait_until(ended)
    assert run.status == status, (run.status, run.error_class)


def chat_log(birds: Canaries, tmp_path: Any) -> Any:
    function = {"name": birds["imported tool"], "arguments": birds["imported call"]}
    long = f"{birds['imported result']} {'long ' * 20_000} {birds['its far end']}"
    log = {
        "messages": [
            {"role": "system", "content": birds["imported prompt"]},
            {"role": "user", "content": birds["imported message"]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c", "content": long},
        ],
        "note": birds["imported note"],
    }
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(log))
    return path


# What was typed but never taken, or was taken back.
NOT_STORED = {
    *("mistake", "mistaken", "searched", "hasty note", "long label"),
    *("masked path", "damage", "manifest"),
    "came too late",
}


def assert_all_are_stored(birds: Canaries) -> None:
    """Every word is in what the gate opens: the life above did say all of it."""
    opened = "\n".join(everything_opened())
    missing = [
        place
        for place, word in birds.words.items()
        if word not in opened and place not in NOT_STORED
    ]
    assert not missing


def dumped() -> leaks.Places:
    out = io.StringIO()
    apps = ("auth", "sessions", "admin", "checkpoints", "agents")
    call_command("dumpdata", "--all", *apps, stdout=out)
    return {"dumpdata": out.getvalue().encode()}


def everything_opened() -> Iterator[str]:
    """All state and every sealed column of every thread, as a member reads it."""
    for membership in Membership.objects.exclude(role=Role.AUDITOR):
        reader = UserPrincipal(
            user_id=membership.user_id,
            workspace_id=membership.workspace_id,
            role=Role(membership.role),
            can_approve=False,
            name="",
        )
        memory = gate.admit(reader, purpose="test")
        for version in EntryVersion.objects.for_user(reader):
            yield json.dumps(memory.open(version, "content"), ensure_ascii=False)
        for lock in EntryLock.objects.for_user(reader):
            yield json.dumps(memory.open(lock, "name"), ensure_ascii=False)
        for thread in Thread.objects.for_user(reader):
            opened = gate.admit(reader, purpose="test", threads=[thread])
            yield opened.open(thread, "title")
            for branch in thread.branches.all():
                yield opened.open(branch, "name")
                for record in read(opened, branch).records:
                    ops = Contents(opened, thread.pk).restore(record.ops)
                    said = [record.label, ops, record.context]
                    yield json.dumps(said, ensure_ascii=False)
            sealed = [*ToolCall.objects.filter(thread=thread), *thread.runs.all()]
            for row in [*sealed, *thread.inputs.all()]:
                for name in ("title", "arguments", "effective", "reason", "result"):
                    if hasattr(row, name):
                        yield json.dumps(opened.open(row, name), ensure_ascii=False)
            for row in thread.remarks.all():
                yield json.dumps(opened.open(row, "text"), ensure_ascii=False)
            for approval in thread.approvals.all():
                for decision in approval.decisions.all():
                    yield json.dumps(opened.open(decision, "content"))


def test_nothing_of_the_demo_is_found_in_clear(
    transactional_db, redis_log, caplog, capsys
):
    call_command("seed_demo")
    said = set(words_of_the_demo())
    travellers = ["Tomás Vega", "Helen Marsh", "Daniel Osei", "Ingrid Solberg"]
    assert all(any(name in text for text in said) for name in travellers)
    said |= set(travellers)
    addresses = {text for text in said if "@" in text}
    assert addresses
    assert len(said) > 100
    places = {
        **leaks.database(),
        **redis_log.places(),
        "our log": caplog.text.encode(),
        "our output": "".join(capsys.readouterr()).encode(),
    }
    assert leaks.found(said, places) == []
    assert seed.SLUG.encode() in places["table public.checkpoints_workspace"]


def words_of_the_demo() -> Iterator[str]:
    """Titles and messages of the stories, and all that the runs made of them."""
    for story in (FINISHED, WAITING, FAILED, FORKED, HANDBOOK, INVOICES):
        yield from (story.title, story.ask)
    for text in everything_opened():
        try:
            yield from strings(json.loads(text))
        except ValueError:
            yield text if len(text) > 20 else "Tomás Vega"


def strings(value: Any) -> Iterator[str]:
    """Texts of several words, and addresses. Single words may well be in clear."""
    match value:
        case str():
            inner = _parsed(value)
            if isinstance(inner, dict | list):
                yield from strings(inner)
            elif "@" in value or (len(value) > 12 and value.count(" ") > 1):
                yield value[:60]
        case list():
            for item in value:
                yield from strings(item)
        case dict():
            for item in value.values():
                yield from strings(item)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
