"""The audit log as a file, and the program that verifies it without us."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import audit, audit_chain, audit_export
from checkpoints.access import Reason
from checkpoints.ids import uuid7
from checkpoints.models import AuditEvent
from checkpoints.pure import audit_file, audit_proof
from checkpoints.pure.audit_proof import Head, Row
from tests.tampering import tamper

EVENTS = AuditEvent.objects.unscoped(Reason.TEST)
FORMATS = ["jsonl", "csv"]


@pytest.fixture
def log(alice, branch):
    """Twelve events: some with an object, some with none, one that a sheet would run."""
    for n in range(11):
        audit.record(alice, "open", obj=branch.thread if n % 2 else None, step=n)
    audit.record(alice, "=cmd|' /C calc'!A0", purpose="+1+1", via="@sum", note="-1é")
    audit_chain.link_pending()
    return alice.workspace_id


@pytest.fixture
def branch(make_thread, alice):
    return make_thread(owner=alice)


@pytest.fixture
def verifier(tmp_path) -> Path:
    """The program, where nothing of Holdpoint is."""
    program = tmp_path / "elsewhere" / "audit_proof.py"
    program.parent.mkdir()
    text = io.StringIO()
    call_command("export_audit", verifier=True, stdout=text)
    program.write_text(text.getvalue(), encoding="utf-8")
    return program


@pytest.fixture
def export(log, tmp_path):
    def export(kind: str, **more) -> Path:
        file = tmp_path / f"audit.{kind}"
        call_command(
            "export_audit",
            workspace="acme",
            format=kind,
            output=file,
            stderr=io.StringIO(),
            **more,
        )
        return file

    return export


def run(program: Path, *arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, *map(str, arguments)],
        cwd=program.parent,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.django_db
@pytest.mark.parametrize("kind", FORMATS)
class TestAnExport:
    def test_is_verified_from_the_file_alone(self, export, verifier, kind, log):
        head = audit_chain.head_of(log)
        file = export(kind)
        code, said = run(verifier, file)
        assert code == 0, said
        assert f"rows 1 to {head.number}" in said
        assert str(head) in said
        assert run(verifier, file, "--anchor", head)[0] == 0

    def test_of_a_part_says_what_it_follows(self, export, verifier, kind, log):
        before = audit_chain.head_at(log, 5)
        file = export(kind, after=5)
        code, said = run(verifier, file, "--anchor", before)
        assert code == 0, said
        assert f"follows on {before}" in said
        assert run(verifier, file, "--anchor", f"5:{'0' * 64}")[0] == 1

    def test_shows_what_was_done_to_each_line(self, export, kind):
        lines = export(kind).read_text().splitlines(keepends=True)
        first = 1 if kind == "csv" else 0
        for n in range(first, len(lines)):
            changed = lines[n].replace("web", "w3b").replace("@sum", "@min")
            assert changed != lines[n]
            assert broken(kind, [*lines[:n], changed, *lines[n + 1 :]])
            assert broken(kind, [*lines[:n], lines[n], *lines[n:]])
            if first < n < len(lines) - 1:
                assert broken(kind, [*lines[:n], *lines[n + 1 :]])
                assert broken(kind, [*lines[:n], lines[n + 1], lines[n]])

    def test_with_a_line_less_is_named_by_the_program(self, export, verifier, kind):
        file = export(kind)
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*lines[:5], *lines[6:]]))
        code, said = run(verifier, file)
        assert code == 1
        assert f"row {5 if kind == 'csv' else 6} (missing)" in said

    def test_that_was_cut_off_is_found_by_an_anchor(self, export, verifier, kind, log):
        head = audit_chain.head_of(log)
        file = export(kind)
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:-2]))
        assert run(verifier, file)[0] == 0
        code, said = run(verifier, file, "--anchor", head)
        assert (code, "cut off" in said) == (1, True)

    @pytest.mark.parametrize("junk", ["", "{}\n", "number,x\n", "\x00", '{"number": 1'])
    def test_that_is_none_is_said_to_be_none(self, export, verifier, kind, junk):
        file = export(kind)
        file.write_text(junk)
        code, said = run(verifier, file)
        assert "Traceback" not in said
        if junk or kind == "csv":
            assert (code, "FAILED" in said) == (1, True)
        else:
            assert (code, "no rows" in said) == (0, True)

    def test_is_an_event_itself(self, export, kind, log):
        last = audit_chain.head_of(log)
        export(kind, after=2)
        event = EVENTS.get(action="export")
        assert (event.purpose, event.via) == ("audit", "command")
        assert event.detail == {"format": kind, "first": 3, "last": last.number}
        audit_chain.link_pending()
        assert audit_chain.verify_audit(log).fault is None


def broken(kind: str, lines: list[str]) -> bool:
    reads = audit_file.read_csv if kind == "csv" else audit_file.read_jsonl
    return audit_proof.verify(reads(lines)).fault is not None


@pytest.mark.django_db
def test_no_cell_is_run_by_a_spreadsheet(export):
    text = export("csv").read_text()
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    assert "'=cmd|' /C calc'!A0" in cells
    assert "'+1+1" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t"))]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        # Others that read the file would see the first, the hash is of the second.
        ('"event":{', '"event":{"action":"approve"},"event":{'),
        ('"via":', '"via":"web","via":'),
        ('"number":', '"approved":"by all","number":'),
        ('"detail":{', '"detail":{"step":7,'),
    ],
)
def test_a_line_that_says_something_twice_is_refused(export, was, becomes):
    lines = export("jsonl").read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"step"' in line and was in line)
    lines[at] = lines[at].replace(was, becomes, 1)
    with pytest.raises(audit_file.Unreadable, match=f"line {at + 1} is not a row"):
        list(audit_file.read_jsonl(lines))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("'=cmd|", "=cmd|"),  # it would be run
        ("'@sum", "@sum"),
        ("web,", "'web,"),
        ("\r\n1,", "\r\n\u0660\u0661,"),
        ("\r\n1,", "\r\n 1,"),
    ],
)
def test_a_cell_that_is_not_as_it_was_written_is_refused(export, was, becomes):
    text = export("csv").read_bytes().decode()
    assert was in text
    lines = io.StringIO(text.replace(was, becomes, 1), newline="")
    with pytest.raises(audit_file.Unreadable, match="is not a row"):
        list(audit_file.read_csv(lines))


def test_an_export_that_is_very_deep_is_refused(verifier, tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_text("[" * 100_000 + "]" * 100_000)
    code, said = run(verifier, file)
    assert (code, "Traceback" in said) == (1, False)


@pytest.mark.django_db
def test_a_file_that_is_there_is_not_written_over(export):
    export("jsonl")
    with pytest.raises(CommandError, match="there already"):
        export("jsonl")


@pytest.mark.django_db
def test_what_cannot_be_written_leaves_nothing(log, tmp_path):
    with pytest.raises(CommandError, match="cannot be written"):
        call_command(
            "export_audit", workspace="acme", output=tmp_path / "none" / "audit.jsonl"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workspace": "acme", "after": 400}, "last row is 12"),
        ({"workspace": "nobody"}, "there are: acme"),
    ],
)
def test_a_wrong_export_says_what_there_is(log, options, said):
    with pytest.raises(CommandError, match=said):
        call_command("export_audit", **options)


@pytest.mark.django_db
def test_what_belongs_to_no_workspace_is_exported_too(verifier):
    audit.record(None, "login", outcome="refused")
    audit_chain.link_pending()
    out = io.StringIO()
    call_command("export_audit", workspace="-", stdout=out, stderr=io.StringIO())
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["event"]["workspace"] is None


# verify_audit


@pytest.mark.django_db
def test_verify_audit_names_the_head_of_each_log(log, other):
    out = io.StringIO()
    call_command("verify_audit", stdout=out)
    assert f"acme: 12 rows, head {audit_chain.head_of(log)}" in out.getvalue()
    assert "rival: no rows" in out.getvalue()
    assert "-: no rows" in out.getvalue()


@pytest.mark.django_db
def test_verify_audit_ends_with_an_error_when_an_anchor_is_gone(log):
    head = audit_chain.head_of(log)
    call_command(
        "verify_audit", workspace="acme", anchor=[str(head)], stdout=io.StringIO()
    )
    out = io.StringIO()
    with pytest.raises(CommandError, match="1 of the logs"):
        call_command(
            "verify_audit", workspace="acme", anchor=[f"40:{'0' * 64}"], stdout=out
        )
    assert "acme: row 40 (missing): it was anchored" in out.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("anchor", ["", "12", "0:" + "00" * 32, "12:zz", "12:00"])
def test_an_anchor_that_is_none_is_refused(log, anchor):
    with pytest.raises(CommandError, match="is not an anchor"):
        call_command("verify_audit", workspace="acme", anchor=[anchor])
    with pytest.raises(CommandError, match="--workspace"):
        call_command("verify_audit", anchor=[anchor])


# A file of anchors: what a daily job does


class Daily:
    """The job, and where it keeps the heads."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self) -> str:
        """Runs it: what it said."""
        out = io.StringIO()
        try:
            call_command("verify_audit", anchors=self.file, stdout=out, stderr=out)
        except CommandError as error:
            raise CommandError(f"{out.getvalue()}{error}") from None
        audit_chain.link_pending()  # the job's own event
        return out.getvalue()


@pytest.fixture
def daily(log, tmp_path) -> Daily:
    return Daily(tmp_path / "anchors")


@pytest.mark.django_db
def test_a_daily_job_keeps_each_head_and_holds_the_logs_against_them(daily, log, other):
    first = audit_chain.head_of(log)
    assert "is not there: it begins" in daily()
    assert daily.file.read_text() == f"{log} {first}\n"  # the others have no rows
    second = audit_chain.head_of(log)
    said = daily()
    assert f"acme: 13 rows, head {second}" in said
    assert "begins" not in said
    kept = daily.file.read_text().splitlines()
    assert kept[:2] == [f"{log} {first}", f"{log} {second}"]
    assert {line.partition(" ")[0] for line in kept[2:]} == {
        str(other.workspace_id),
        "-",
    }
    done = len(kept)
    call_command("verify_audit", workspace="acme", anchors=daily.file)
    assert len(daily.file.read_text().splitlines()) == done + 1


@pytest.mark.django_db
def test_a_log_that_was_set_back_fails_the_job_and_is_not_anchored(daily, log):
    daily()
    at = audit_chain.head_of(log)
    daily()
    before = daily.file.read_text()
    tamper("DELETE FROM checkpoints_auditlink WHERE number >= %s", [at.number])
    tamper(
        "DELETE FROM checkpoints_auditevent event WHERE workspace_id = %s AND NOT EXISTS"
        " (SELECT FROM checkpoints_auditlink WHERE event_id = event.id)",
        [log],
    )
    with pytest.raises(
        CommandError, match=r"(?s)acme: row 13 \(missing\).*1 of the logs"
    ):
        daily()
    assert [
        line for line in daily.file.read_text().splitlines() if str(log) in line
    ] == [line for line in before.splitlines() if str(log) in line]


@pytest.mark.django_db
def test_a_workspace_that_is_gone_with_its_log_is_missed(daily):
    daily()
    with daily.file.open("a") as file:
        file.write(f"{uuid7()} 3:{'ab' * 32}\n")
    with pytest.raises(CommandError, match="was anchored, and there is no such log"):
        daily()


@pytest.mark.django_db
def test_a_file_of_anchors_that_is_none_is_refused_and_left_alone(daily):
    daily.file.write_text("acme 12\n")
    with pytest.raises(CommandError, match=r"anchors, line 1: '12' is not an anchor"):
        daily()
    assert daily.file.read_text() == "acme 12\n"
    daily.file.write_bytes(b"\xff")
    with pytest.raises(CommandError, match="cannot be read"):
        daily()
    daily.file = daily.file / "below"
    with pytest.raises(CommandError, match="cannot be written"):
        daily()


def test_two_anchors_of_one_row_must_agree():
    event = dict.fromkeys(audit_proof.FIELDS, "")
    row = Row(1, audit_proof.START, audit_proof.link(audit_proof.START, event), event)
    right, wrong = Head(1, row.hash), Head(1, b"x" * 32)
    assert audit_proof.verify([row], anchors=[right, right]).fault is None
    for anchors in ([right, wrong], [wrong, right]):
        fault = audit_proof.verify([row], anchors=anchors).fault
        assert fault
        assert fault.what == "rewritten"


# The formats

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit-log.md"


def test_the_published_vectors_hold():
    """By hand, from what the page says; not with what it tests."""
    previous = "00" * 32
    for row in json.loads(
        PAGE.read_text().partition("```json\n")[2].partition("```")[0]
    ):
        event = json.dumps(row["event"], sort_keys=True, separators=(",", ":"))
        covered = b"holdpoint audit event 1\n" + event.encode("ascii")
        digest = sha256(bytes.fromhex(previous) + covered).hexdigest()
        assert (row["previous"], row["hash"]) == (previous, digest)
        assert audit_proof.link(bytes.fromhex(previous), row["event"]).hex() == digest
        previous = digest


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
events = st.fixed_dictionaries(
    dict.fromkeys(audit_proof.FIELDS, text)
    | {
        "position": st.integers(0, 2**63 - 1),
        "actor": st.none() | st.integers(1, 2**31),
        "workspace": st.just("01900000-0000-7000-8000-000000000001"),
        "address": st.none() | st.just("::1"),
        "object_id": st.none() | st.just(str(uuid7())),
        "detail": st.dictionaries(
            text, st.booleans() | st.integers() | text | st.lists(text), max_size=3
        ),
    }
)


@given(st.lists(events, max_size=4))
def test_what_is_written_is_read_back_and_holds(found):
    rows, previous = [], audit_proof.START
    for number, event in enumerate(found, 1):
        digest = audit_proof.link(previous, event)
        rows.append(Row(number, previous, digest, event))
        previous = digest
    as_jsonl = "".join(audit_export.jsonl(rows))
    as_csv = "".join(audit_export.csv_(rows))
    assert list(audit_file.read_jsonl(io.StringIO(as_jsonl))) == rows
    assert list(audit_file.read_csv(io.StringIO(as_csv, newline=""))) == rows
    assert audit_proof.verify(rows).fault is None
