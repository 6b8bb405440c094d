"""The tools as an agent finds them: bounded schemas, honest hints, and errors that it can act on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from support.agents import over_stdio
from support.cluster import Cluster, Identity
from worklease import errors
from worklease.mcp.command import parser
from worklease.mcp.refusals import ADVICE, refusal_of
from worklease.mcp.results import CUT, clean
from worklease.mcp.tools import TOOLS, Tool, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mcp.md"
WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("claim", {"purpose": "p"}, "work"),
    ("claim", {"work": "w"}, "purpose"),
    ("claim", {"work": "w", "purpose": ""}, "purpose"),
    ("claim", {"work": "w", "purpose": "two\nlines"}, "purpose"),
    ("claim", {"work": "w", "purpose": "x" * 1025}, "purpose"),
    ("claim", {"work": "../secrets", "purpose": "p"}, "work"),
    ("claim", {"work": "a/b/c", "purpose": "p"}, "work"),
    ("claim", {"work": "W?watch=true", "purpose": "p"}, "work"),
    ("claim", {"work": 7, "purpose": "p"}, "work"),
    ("claim", {"work": "w", "purpose": "p", "wait_seconds": 301}, "wait_seconds"),
    ("claim", {"work": "w", "purpose": "p", "wait_seconds": "soon"}, "wait_seconds"),
    ("claim", {"work": "w", "purpose": "p", "lease_seconds": 5}, "lease_seconds"),
    ("claim", {"work": "w", "purpose": "p", "holder": "me"}, "holder"),
    ("release", {"work": "w"}, "reason"),
    ("checkpoint", {"work": "w", "uri": "s3://a b", "digest": "1"}, "uri"),
    ("begin_effect", {"work": "w", "recipient": "r"}, "action"),
    ("begin_effect", {"work": "w", "recipient": "r", "action": "a", "id": "a,b"}, "id"),
    ("finish_effect", {"work": "w", "id": "1", "state": "Attempted"}, "state"),
    ("reconcile", {"work": "w", "id": "1", "state": "Attempted"}, "state"),
    ("complete", {"work": "w", "message": "m", "outcome": "Perhaps"}, "outcome"),
    ("offer_handoff", {"work": "w"}, "to"),
    ("offer_handoff", {"work": "w", "to": "b", "accept_within_seconds": 0}, "accept_within_seconds"),
    ("inbox", {"namespace": "../all"}, "namespace"),
    ("accept_handoff", {}, "handoff"),
    ("reject_handoff", {"handoff": "h"}, "reason"),
)
REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("claim", {"work": "none", "purpose": "p"}, "NoSuchWork"),
    ("status", {"work": "none"}, "NoSuchWork"),
    ("renew", {"work": "none"}, "NotHeldHere"),
    ("release", {"work": "none", "reason": "r"}, "NotHeldHere"),
    ("complete", {"work": "none", "message": "m"}, "NotHeldHere"),
    ("accept_handoff", {"handoff": "none"}, "HandoffOver"),
    ("withdraw_handoff", {"handoff": "none", "reason": "r"}, "HandoffOver"),
    ("inbox", {"namespace": "kube-system"}, "Refused"),
    ("revoke", {"work": "w", "reason": "r"}, "UnknownTool"),
)


def test_wrong_calls_get_errors_that_an_agent_can_act_on(namespace: str, agent: Identity) -> None:
    """Wrong arguments are named; every refusal has a reason, advice, and no traceback (case 25)."""

    async def main() -> None:
        async with over_stdio(agent) as one:
            for tool, arguments, wrong in WRONG:
                refusal = await one.refused(tool, **arguments)
                assert refusal["reason"] == "WrongArguments", (tool, arguments)
                assert wrong in [problem["argument"] for problem in refusal["problems"]], (tool, arguments, refusal)
                assert tool in refusal["advice"]
            for tool, arguments, reason in REFUSED:
                if "work" in arguments:
                    arguments = {**arguments, "work": f"{namespace}/{arguments['work']}"}
                if "handoff" in arguments:
                    arguments = {**arguments, "handoff": f"{namespace}/{arguments['handoff']}"}
                refusal = await one.refused(tool, **arguments)
                assert refusal["reason"] == reason, (tool, refusal)
                assert refusal["advice"]
                assert "Traceback" not in str(refusal)
            for uri in ("file:///etc/passwd", "worklease://w", "worklease://a/b/c"):
                with pytest.raises(MCPError, match="a resource is worklease://"):
                    await one.client.read_resource(uri)

    asyncio.run(main())


def test_the_agent_profile_has_no_operator_s_tools(agent: Identity) -> None:
    """What the server lists is the table, without what operators do."""

    async def main() -> None:
        async with over_stdio(agent) as one, over_stdio(agent, "--profile", "operator") as two:
            listed = {tool.name for tool in (await one.client.list_tools()).tools}
            assert listed == {tool.name for tool in TOOLS if not tool.operator}
            assert not listed & {"revoke", "takeover", "suspend", "resume", "history"}
            assert [tool.name for tool in (await two.client.list_tools()).tools] == [tool.name for tool in TOOLS]

    asyncio.run(main())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_teaches_in_one_sentence_and_bounds_what_it_takes(tool: Tool) -> None:
    """Every string of the input has a length and every number a range; hints do not contradict each other."""
    described = tool.described()
    assert tool.teaches.count(". ") == 0
    assert tool.teaches.endswith(".")
    for where, node in strings_and_numbers(described.input_schema, tool.name):
        bounded = "maxLength" in node or "enum" in node or "const" in node or "maximum" in node
        assert bounded, f"{where} is not bounded"
    for name, node in described.input_schema["properties"].items():
        assert node.get("description"), f"{tool.name}.{name} says nothing"
    assert not (tool.reads and tool.destroys)
    assert described.output_schema
    assert described.output_schema["type"] == "object"


def strings_and_numbers(node: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The leaves of a schema."""
    if isinstance(node, dict):
        if node.get("type") in ("string", "integer", "number"):
            yield where, node
        for name, inner in node.items():
            if name not in ("description", "title", "default", "enum"):
                yield from strings_and_numbers(inner, f"{where}.{name}")
    elif isinstance(node, list):
        for inner in node:
            yield from strings_and_numbers(inner, where)


def test_words_of_others_are_bounded_and_without_marks() -> None:
    """Control characters, and marks that reorder or hide what a line says, are gone; lines stay."""
    assert clean("two\nlines") == "two\nlines"
    assert clean("a\x1b[2Jb\x00\x85\u202ec\u200bd\U000e0041") == "a[2Jbcd"
    long = clean("x" * 5000)
    assert long is not None
    assert (len(long), long[-1]) == (1024, CUT)
    assert clean(None) is None


def test_every_error_of_the_client_has_its_advice() -> None:
    """Whatever the client raises is told with what to do next."""
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.LeaseError | errors.ApiError):
            assert any(parent in ADVICE for parent in kind.__mro__[:-3]), name
    lost = refusal_of(errors.LeaseLost("a/b", "Revoked", "an administrator revoked it: \u202ewhy"))
    assert (lost.reason, lost.work, lost.detail) == ("LeaseLost", "a/b", "an administrator revoked it: why")


def test_the_documented_table_is_the_servers() -> None:
    """The table in docs/mcp.md is made from the code."""
    assert table() in PAGE.read_text()


def test_the_documented_configurations_are_json_with_known_flags() -> None:
    """What clients are configured with can be read, and the command takes its flags."""
    blocks = re.findall(r"<!-- check: json -->\n```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        (servers,) = json.loads(block).values()
        server = servers["worklease"]
        if "command" in server:
            assert server["command"] == "worklease-mcp"
            parser().parse_args(server["args"])
        else:
            assert server["headers"]["Authorization"].startswith("Bearer ")


def test_the_documented_flags_are_those_of_the_command() -> None:
    """Every flag of the table is there, with the default that the table says."""
    text, defaults = PAGE.read_text(), parser().parse_args([])
    for flag in ("profile", "at_end", "max_silence_seconds", "max_leases", "max_sessions", "idle_seconds"):
        value = getattr(defaults, flag)
        row = next(line for line in text.splitlines() if line.startswith(f"| `--{flag.replace('_', '-')}"))
        assert f"{value:g}" in row if isinstance(value, float) else str(value) in row


def test_the_example_of_a_sidecar_is_what_the_api_server_takes(cluster: Cluster, namespace: str) -> None:
    """It is applied with names for its images."""
    text = (PAGE.parents[1] / "examples" / "mcp" / "sidecar.yaml").read_text()
    given = text.replace("IMAGE\n", "worklease\n").replace("AGENT #", "agent #")
    answer = cluster.kubectl("apply", "-n", namespace, "--validate=strict", "-f", "-", given=given)
    assert "pod/agent created" in answer.stdout, answer.stderr
