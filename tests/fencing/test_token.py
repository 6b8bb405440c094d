"""The token: one spelling passes, everything else is refused by name, and the vectors say so as data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worklease.errors import MalformedToken, MissingToken
from worklease.fencing import MAX_EPOCH, Token
from worklease.fencing.token import check_epoch, parse_epoch

VECTORS = json.loads((Path(__file__).parents[2] / "docs/fencing/vectors.json").read_text())
LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
LEASES = st.one_of(st.tuples(LABELS, NAMES), st.tuples(NAMES, LABELS, NAMES)).map("/".join)
CLAIMS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), min_size=1, max_size=64)
TOKENS = st.builds(Token, LEASES, st.integers(1, MAX_EPOCH), st.none() | CLAIMS)


def outcome(parse: Any, given: Any) -> dict[str, Any]:
    """What a vector's `expect` says, as this implementation answers it."""
    try:
        token = parse(given)
    except MissingToken:
        return {"error": "missing"}
    except MalformedToken as error:
        return {"error": "malformed" if len(str(error)) < 300 else "a refusal that echoes what it refuses"}
    return {"token": {"lease": token.lease, "epoch": token.epoch, "claim": token.claim}}


@pytest.mark.parametrize("vector", VECTORS["compact"], ids=lambda vector: vector["name"])
def test_compact_vectors(vector: dict[str, Any]) -> None:
    """A compact token is read exactly as the vectors say."""
    assert outcome(Token.parse, vector["text"]) == vector["expect"]


@pytest.mark.parametrize("vector", VECTORS["headers"], ids=lambda vector: vector["name"])
def test_header_vectors(vector: dict[str, Any]) -> None:
    """Headers are read exactly as the vectors say, as text and as bytes."""
    assert outcome(Token.from_headers, vector["headers"]) == vector["expect"]
    as_bytes = [(name.encode(), value.encode()) for name, value in vector["headers"]]
    assert outcome(Token.from_headers, as_bytes) == vector["expect"]


@pytest.mark.parametrize("vector", VECTORS["environment"], ids=lambda vector: vector["name"])
def test_environment_vectors(vector: dict[str, Any]) -> None:
    """The environment is read exactly as the vectors say."""
    assert outcome(Token.from_environ, vector["environment"]) == vector["expect"]


@given(TOKENS)
def test_every_form_gives_the_token_back(token: Token) -> None:
    """Compact, headers and environment each carry the whole token."""
    assert Token.parse(str(token)) == token
    assert Token.from_headers(token.to_headers().items()) == token
    assert Token.from_environ(token.to_environ()) == token


@given(st.text() | st.from_regex(r"[-+ 0]*[0-9]+\s*", fullmatch=True))
def test_an_epoch_has_one_spelling(text: str) -> None:
    """Whatever parses as an epoch is its own canonical form, within the bounds."""
    try:
        epoch = parse_epoch(text)
    except MalformedToken:
        return
    assert str(epoch) == text
    assert 1 <= epoch <= MAX_EPOCH


@given(st.text())
def test_any_text_is_a_token_or_a_refusal(text: str) -> None:
    """No text makes the parser fail in another way, and what it accepts it writes back unchanged."""
    try:
        token = Token.parse(text)
    except MalformedToken:
        return
    assert str(token) == text


@given(st.lists(st.tuples(st.sampled_from([b"worklease-lease", b"Worklease-Epoch", b"x", b"\xff"]), st.binary())))
def test_any_headers_are_a_token_or_a_refusal(headers: list[tuple[bytes, bytes]]) -> None:
    """No bytes in a header make the parser fail in another way."""
    outcome(Token.from_headers, headers)


@pytest.mark.parametrize("epoch", [0, -1, MAX_EPOCH + 1, True, 7.0, "7", None])
def test_an_epoch_is_an_integer_in_bounds(epoch: Any) -> None:
    """Python values that merely look like an epoch are refused too."""
    with pytest.raises(MalformedToken):
        check_epoch(epoch)


@pytest.mark.parametrize("lease", [None, 7, b"payments/invoice-42", ["payments", "x"]])
def test_a_lease_is_text(lease: Any) -> None:
    """A lease of another type is refused, not compared."""
    with pytest.raises(MalformedToken):
        Token(lease, 7)


def test_a_field_manager_restates_the_epoch() -> None:
    """The writer of a fenced Kubernetes object names its epoch at the end of its field manager."""
    assert Token("payments/invoice-42", 1482).field_manager("payer") == "payer@1482"
    with pytest.raises(ValueError, match="128"):
        Token("payments/invoice-42", 1482).field_manager("p" * 124)


def test_importing_it_needs_the_standard_library_only() -> None:
    """A recipient can install this without kubernetes, kopf, aiohttp, pydantic or any database driver."""
    program = (
        "import sys, worklease.fencing, worklease.fencing.token\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(name for name in foreign if not name.startswith(('__', '_'))))"
    )
    packages = str(Path(__file__).parents[2] / "operator")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {packages!r})\n{program}"],
        check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.strip() == "['worklease']"
