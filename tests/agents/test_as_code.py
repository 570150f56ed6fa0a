"""A model call to paste: whatever its messages say, a shell and Python take it as data."""

from __future__ import annotations

import ast
import json
import subprocess
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.pure.as_code import as_curl, as_python, body, offered
from agents.pure.context import compose

HOSTILE = [
    "it's $(touch /tmp/x) `id` $HOME ${IFS} \\ \" '",
    "'; echo run; '",
    "a\nb\r\nc\td\0e",
    "\u202eevil\u2028\u2029\u200b\ufeff 😀 é",
    "\\u0027 \\' \\\\",
    "!! !$ #{x} *~ <(x) && || ; & | > /dev/null",
    "HOLDPOINT\nEOF\n",
    '"""\n)\nimport os; os.abort()\n"""',
    "@/etc/passwd",
    "{x!r} {} %s",
    "-d x --next",
    "\x7f" * 40 + "rm",  # pasted: forty characters back
]
texts = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=8,
)
messages = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": texts, "more": values}),
    min_size=1,
    max_size=3,
)
# What a shell makes of the command: its arguments, each ended by a NUL.
STUB = r"""curl() { for each in "$@"; do printf '%s\0' "$each"; done; }"""


def in_shell(command: str, shell: str = "sh") -> list[str]:
    env = {"OPENAI_BASE_URL": "http://server/v1", "OPENAI_API_KEY": "a key", "PATH": ""}
    done = subprocess.run(
        [f"/bin/{shell}", "-c", f"{STUB}\n{command}"],
        env=env,
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@settings(max_examples=20)
@given(messages, st.sampled_from(["sh", "bash"]))
@example([{"role": "user", "content": "\n".join(HOSTILE).replace("\0", "")}], "sh")
def test_a_shell_hands_curl_the_request_and_runs_nothing_else(sent, shell):
    made = {"model": "m'$(x)", "messages": sent}
    command = as_curl(made)
    assert command.isascii()
    assert command.replace("\n", "").isprintable()
    url, *options, data = in_shell(command, shell)
    assert url == "http://server/v1/chat/completions"
    assert options == [
        "-H",
        "Authorization: Bearer a key",
        "-H",
        "Content-Type: application/json",
        "--data-raw",
    ]
    assert json.loads(data) == made


@settings(max_examples=100)
@given(messages)
def test_python_calls_the_client_with_the_request_and_nothing_else(sent):
    made = {"model": "m'", "messages": sent, "temperature": 0.5, "seed": -7}
    program = as_python(made)
    assert program.isascii()
    called = []

    class Client:
        def __init__(self, **given: Any) -> None:
            assert given == {"base_url": "http://server/v1", "api_key": "a key"}
            self.chat = self.completions = self

        def create(self, **given: Any) -> Any:
            called.append(given)
            return self

        choices = (type("Choice", (), {"message": None}),)

    tree = ast.parse(program)
    kept = [
        node
        for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Expr))
    ]
    assert len(tree.body) == len(kept) + 3  # two imports, and print
    tree.body = kept
    environ = {"OPENAI_BASE_URL": "http://server/v1", "OPENAI_API_KEY": "a key"}
    names = {"os": type("os", (), {"environ": environ}), "OpenAI": Client}
    exec(compile(tree, "pasted", "exec"), names)  # noqa: S102  # what is tested
    assert called == [made]


def test_neither_holds_a_key(settings):
    settings.OPENAI_API_KEY = "sk-of-the-server"
    made = {"model": "m", "messages": []}
    assert "sk-of-the-server" not in as_curl(made) + as_python(made)
    assert "$OPENAI_API_KEY" in as_curl(made)
    assert 'os.environ["OPENAI_API_KEY"]' in as_python(made)


def test_the_body_is_what_the_model_got():
    state = {
        "messages": [{"id": "1", "role": "user", "content": "Hello"}],
        "params": {"system": "Be kind.", "model": "m", "temperature": 0, "seed": 7},
    }
    schema = {"type": "function", "function": {"name": "look", "parameters": {}}}
    tools, missing = offered(["look", "gone"], [schema])
    assert missing == ["gone"]
    assert body(compose(state, tools), left_out={"seed"}) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello"},
        ],
        "tools": [schema],
        "temperature": 0,
    }


@pytest.mark.parametrize("value", [[], {}, {"a": []}, None, True, 1.5, "x"])
def test_any_json_is_a_literal(value):
    made = {"model": "m", "extra": value}
    call = ast.parse(as_python(made)).body[3]
    assert isinstance(call, ast.Assign)
    assert isinstance(call.value, ast.Call)
    given = {word.arg: ast.literal_eval(word.value) for word in call.value.keywords}
    assert given == made
