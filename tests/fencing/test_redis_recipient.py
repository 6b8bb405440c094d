"""The Redis script: check, mark and effect are one step, refusals write nothing, and bad input never passes."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ResponseError

from worklease.errors import MalformedToken, MarkUnavailable, StaleEpoch
from worklease.fencing import MAX_EPOCH, Token
from worklease.fencing.redis import SCRIPT, Fence
from worklease.fencing.token import parse_epoch

LEASE = "payments/invoice-42"


def test_the_commands_run_in_the_step_that_checks(redis_client: redis.Redis) -> None:
    """Replies come back in order, bytes arrive unchanged, and a stale effect changes nothing."""
    fence = Fence(redis_client)
    raw = bytes(range(256))
    replies = fence.run(Token(LEASE, 7), [("INCRBY", "balance", 5), ("SET", "raw", raw), ("GET", "raw")])
    assert (replies[0], replies[2]) == (5, raw)
    fence.run(Token(LEASE, MAX_EPOCH), [("INCRBY", "balance", 1)], keys=["balance"])
    with pytest.raises(StaleEpoch) as caught:
        fence.run(Token(LEASE, MAX_EPOCH - 1), [("INCRBY", "balance", 100)])
    assert caught.value.highest == MAX_EPOCH
    assert redis_client.get("balance") == b"6"


@pytest.mark.parametrize(
    "epoch", ["", "0", "07", "+7", "-7", "7.0", "1e3", "0x7", " 7", "7\0", str(MAX_EPOCH + 1), "9" * 10240]
)
def test_the_script_refuses_what_is_no_epoch(redis_client: redis.Redis, epoch: str) -> None:
    """Called from another language with something else, the script writes nothing."""
    with pytest.raises(ResponseError, match="BADEPOCH"):
        redis_client.eval(SCRIPT, 1, "mark", epoch, 2, "INCR", "balance")
    assert redis_client.keys() == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8")) | st.from_regex(r"[-+ 0]*[0-9]{1,18}\s*", fullmatch=True))
def test_the_script_and_the_library_agree_on_what_an_epoch_is(redis_client: redis.Redis, text: str) -> None:
    """Whatever the library refuses the script refuses too, and the other way round."""
    redis_client.delete("mark")
    try:
        parse_epoch(text)
    except MalformedToken:
        with pytest.raises(ResponseError, match="BADEPOCH"):
            redis_client.eval(SCRIPT, 1, "mark", text)
    else:
        redis_client.eval(SCRIPT, 1, "mark", text)
        assert redis_client.get("mark") == text.encode()


@pytest.mark.parametrize("spoilt", ["set", "list"])
def test_a_key_that_holds_no_mark_refuses_the_effect(redis_client: redis.Redis, spoilt: str) -> None:
    """A mark that something else has overwritten is an error, never a pass."""
    fence = Fence(redis_client)
    key = fence.mark_key(LEASE)
    redis_client.set(key, "seven") if spoilt == "set" else redis_client.rpush(key, "7")
    with pytest.raises(MarkUnavailable, match=r"worklease:mark:\{payments/invoice-42\} does not hold a mark"):
        fence.run(Token(LEASE, 7), [("INCR", "balance")])
    assert redis_client.get("balance") is None


def test_a_failing_command_is_the_callers_error(redis_client: redis.Redis) -> None:
    """What Redis says of the effect's own commands is passed on as it is."""
    with pytest.raises(ResponseError, match=r"(?i)unknown.*command"):
        Fence(redis_client).run(Token(LEASE, 7), [("NOSUCHCOMMAND", "x")])


def test_a_failing_command_is_never_taken_for_a_spoilt_mark(redis_client: redis.Redis) -> None:
    """A command on a key of another type fails after the ones before it have happened: that is no refusal."""
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        Fence(redis_client).run(Token(LEASE, 7), [("SADD", "k", "x"), ("INCRBY", "k", 1)])
    assert redis_client.smembers("k") == {b"x"}


@pytest.mark.parametrize("commands", [[], [("INCR", "balance")]])
def test_a_replica_refuses(redis_client: redis.Redis, commands: list[Any]) -> None:
    """A replica may lag behind a later epoch's mark: nothing passes there, nor a check without an effect."""
    fence = Fence(redis_client)
    fence.run(Token(LEASE, 7), [])
    redis_client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(MarkUnavailable, match="is a replica"):
            fence.run(Token(LEASE, 7), commands)
    finally:
        redis_client.replicaof("NO", "ONE")
    assert redis_client.get("balance") is None


def test_a_pipeline_is_an_error(redis_client: redis.Redis) -> None:
    """It only queues the script, so a check would pass that nobody has made."""
    Fence(redis_client).run(Token(LEASE, 9), [])
    with redis_client.pipeline() as pipeline, pytest.raises(TypeError, match="queues commands"):
        Fence(pipeline).run(Token(LEASE, 7), [])


def test_an_asynchronous_client_is_an_error() -> None:
    """Its script gives something to await, which `run` does not."""
    with pytest.raises(TypeError, match="this client is asynchronous"):
        Fence(redis.asyncio.Redis())  # type: ignore[arg-type]


@pytest.mark.parametrize("commands", [[()], [("INCR", "x")] * 65, [["SADD", "x", *["y"] * 1023]]])
def test_an_effect_is_bounded(redis_client: redis.Redis, commands: list[Any]) -> None:
    """Too many commands or words are refused before anything is sent."""
    with pytest.raises(ValueError, match="at most 64 commands"):
        Fence(redis_client).run(Token(LEASE, 7), commands)
    assert redis_client.keys() == []
