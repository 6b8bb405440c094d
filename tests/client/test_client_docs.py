"""The Python of docs/client.md does what the page says: each block runs word for word, in a process of its own."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from support import documents
from support.cluster import Cluster, Identity
from support.markdown import blocks, written
from support.shell import Shell
from support.speaking import Work
from worklease.fencing.token import EPOCH_HEADER

pytestmark = pytest.mark.usefixtures("operator")
PAGE = "docs/client.md"
RUN_HERE = {"hold", "many", "accept", "blocking"}
PAYMENTS = """
class payments:
    @staticmethod
    async def post(path, headers):
        print("posted", headers)
"""
REQUESTS = """
import worklease

url = "https://payments.example/charges"

class requests:
    @staticmethod
    def post(url, headers):
        print("posted", headers)
"""


def ran(text: str, cluster: Cluster, identity: Identity, namespace: str, directory: Path) -> str:
    """What the program prints; it ends well."""
    answer = documents.run(text, cluster, identity, namespace, directory, by=(sys.executable, "-c"))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def inside(block: str) -> str:
    """The block as the body of a program of asyncio."""
    return (
        f"import asyncio\nimport worklease\n\nasync def main():\n{textwrap.indent(block, '    ')}\nasyncio.run(main())"
    )


def test_every_block_of_python_is_marked_and_run_here() -> None:
    """None is forgotten."""
    assert set(blocks(PAGE)) == RUN_HERE
    assert written(PAGE).count("```python") == len(RUN_HERE)


@pytest.mark.parametrize(("name", "before"), [("hold", PAYMENTS), ("blocking", REQUESTS)])
def test_work_is_held_an_effect_sent_under_its_token_and_the_work_completed(
    cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path, name: str, before: str
) -> None:
    """With asyncio and without; the item is created, since there is none."""
    text = before + blocks(PAGE)[name]
    if name == "hold":
        text += "\nimport asyncio\nasyncio.run(charge())"
    out = ran(text, cluster, agent, namespace, tmp_path)
    work = Work(cluster, namespace, "invoice-42")
    (tenure,) = work.reaches("Completed")["history"]
    assert tenure["effects"]["succeeded"] == 1
    assert f"'{EPOCH_HEADER}': '{tenure['epoch']}'" in out


def test_one_client_holds_for_a_process(cluster: Cluster, namespace: str, agent: Identity, tmp_path: Path) -> None:
    """And gives the work back at the end of the block."""
    ran(inside(blocks(PAGE)["many"]), cluster, agent, namespace, tmp_path)
    (tenure,) = Work(cluster, namespace, "invoice-42").reaches("Released")["history"]
    assert tenure["endMessage"] == "the work's block has ended"


def test_what_is_in_the_inbox_is_accepted_and_held(
    cluster: Cluster, namespace: str, agent: Identity, other: Identity, tmp_path: Path
) -> None:
    """The offers that wait are taken one after the other, each under its own lease (case 22)."""
    sender = Shell(agent, namespace)
    for name in ("v", "w"):
        assert sender.call("claim", name, "--create")[0] == 0
        assert sender.call("handoff", "create", name, "--to", other.username, "--subject", "the rest")[0] == 0
    ran(inside(blocks(PAGE)["accept"]), cluster, other, namespace, tmp_path)
    for name in ("v", "w"):
        tenure = Work(cluster, namespace, name).reaches("Released")["history"][-1]
        assert (tenure["holderIdentity"], tenure["grantReason"]) == (other.username, "Handoff")
