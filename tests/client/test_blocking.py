"""The client without asyncio: the same promises, in the caller's own thread."""

from __future__ import annotations

import contextlib
import inspect
import threading
from typing import Any

import pytest

import worklease
from support.cluster import Cluster, Identity
from support.speaking import Work
from support.waiting import wait_for
from worklease import Standing, blocking
from worklease.client.handoffs import Offer

pytestmark = pytest.mark.usefixtures("operator")


def test_a_block_holds_and_speaks_without_asyncio(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Claim, effect, checkpoint, completion; the blocking call of the work does not stop the renewals (case 19)."""
    source = worklease.Source(str(agent.kubeconfig))
    with worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source, lease_seconds=10) as lease:
        began = lease.deadline
        with lease.effect("mail", "send") as effect:
            assert effect.headers["Worklease-Epoch"] == str(lease.epoch)
        with pytest.raises(worklease.EffectFailed), lease.effect("mail", "print"):
            raise worklease.EffectFailed("no paper")
        lease.checkpoint("s3://work/1", "sha256:1")
        wait_for(lambda: lease.deadline > began, "a renewal while this thread blocks", 60.0)
        assert lease.unreconciled() == ()
        assert not lease.lost.is_set()
        lease.complete("sent")
        assert lease.standing is Standing.ENDED
    work = Work(cluster, namespace, "w")
    assert work.reaches("Completed")["epoch"] == lease.epoch
    assert [effect["state"] for effect in work.read()["spec"]["effects"]] == ["Succeeded", "Failed"]
    assert not [thread for thread in threading.enumerate() if thread.name == "worklease"]


def test_a_lost_lease_is_raised_by_the_next_call_and_at_the_end(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """A thread cannot be cancelled: it is told, and whatever it asks for is refused (case 1)."""
    source = worklease.Source(str(agent.kubeconfig))
    work = Work(cluster, namespace, "w")
    reached_end = False
    with (  # noqa: PT012 - the end of the block is what raises
        pytest.raises(worklease.LeaseLost, match="INC-7"),
        worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source, lease_seconds=10) as lease,
    ):
        work.revoke(lease.epoch, "INC-7").must()
        assert lease.lost.wait(60.0)
        with pytest.raises(worklease.LeaseLost):
            lease.require_held()
        with pytest.raises(worklease.LeaseLost), lease.effect("mail", "send"):
            raise AssertionError("sent")
        reached_end = True
    assert reached_end


def test_an_error_of_the_block_passes_and_a_refusal_comes_before_it(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """The reason of the release is the error's kind (case 8); refusals are those of the client."""
    source = worklease.Source(str(agent.kubeconfig))
    with pytest.raises(KeyError), worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source):
        raise KeyError("a secret")
    (tenure,) = Work(cluster, namespace, "w").reaches("Released")["history"]
    assert tenure["endMessage"] == "the work failed: KeyError"
    Work.create(cluster, namespace, "suspended", suspend=True)
    with (
        pytest.raises(worklease.WorkIsSuspended),
        worklease.blocking.hold("suspended", purpose="p", namespace=namespace, source=source),
    ):
        raise AssertionError("held")


def test_an_interrupted_block_gives_the_work_back(cluster: Cluster, namespace: str, agent: Identity) -> None:
    """Ctrl-C does not leave the lease held (case 9)."""
    source = worklease.Source(str(agent.kubeconfig))
    with (
        pytest.raises(KeyboardInterrupt),
        worklease.blocking.hold("w", purpose="p", namespace=namespace, source=source) as lease,
        lease.effect("mail", "send"),
    ):
        raise KeyboardInterrupt
    work = Work(cluster, namespace, "w")
    (tenure,) = work.reaches("Released")["history"]
    assert tenure["endMessage"] == "the work was cancelled"
    assert [effect["state"] for effect in work.read()["spec"]["effects"]] == ["Unknown"]


def test_a_handoff_is_accepted_without_asyncio(namespace: str, agent: Identity, other: Identity) -> None:
    """Both sides of a handoff in blocking calls."""
    sender, target = (worklease.Source(str(identity.kubeconfig)) for identity in (agent, other))
    with worklease.blocking.hold("w", purpose="p", namespace=namespace, source=sender) as lease:
        sent = lease.hand_over(other.username, subject="the rest")
        with worklease.blocking.inbox(namespace, source=target) as offers:
            (received,) = offers
            assert received.offer.subject == "the rest"
            settled: list[str] = []
            waiting = threading.Thread(target=lambda: settled.append(sent.settled()))
            waiting.start()
            with received.accept() as taken:
                assert taken.epoch > lease.epoch
                waiting.join(60.0)
            assert settled == ["Completed"]
        assert lease.standing is Standing.ENDED


def public(kind: type[Any]) -> dict[str, Any]:
    """What a class has for its users."""
    return {name: found for name, found in vars(kind).items() if not name.startswith("_")}


def called_with(method: Any) -> list[tuple[str, Any, Any]] | None:
    """The parameters of a method; None for a property."""
    if not callable(method):
        return None
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]


def test_the_blocking_lease_has_all_that_the_other_has() -> None:
    """Every method and property, by the same name and with the same parameters; hand_over hands its own on."""
    with_asyncio, without = public(worklease.Lease), public(blocking.Lease)
    assert set(with_asyncio) == set(without)
    different = [name for name in without if called_with(without[name]) != called_with(with_asyncio[name])]
    assert different == ["hand_over"]


def test_the_blocking_handoff_is_answered_as_the_other_is() -> None:
    """Whatever asks the API server about an offer; its data are in `offer`. Nothing holds a grant without a block."""
    asking = {
        name
        for name, found in public(Offer).items()
        if inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(inspect.unwrap(found))
    }
    assert set(public(blocking.Received)) == asking - {"claimed"}


def test_a_blocking_holder_renews_at_once_and_may_say_nothing_at_the_end(
    cluster: Cluster, namespace: str, agent: Identity
) -> None:
    """After renew() the lease is certain for longer; after let_lapse() nothing is released."""
    source = worklease.Source(str(agent.kubeconfig))
    with contextlib.suppress(worklease.LeaseLost), blocking.hold(
        "w", purpose="p", namespace=namespace, source=source, lease_seconds=10, jeopardy_seconds=0
    ) as lease:  # fmt: skip
        before = lease.deadline
        lease.renew()
        assert lease.deadline > before
        assert before < lease.deadline <= lease.expiry
        assert (lease.trouble, lease.is_handed_over, lease.identity.username) == (None, False, agent.username)
        lease.let_lapse()
        assert lease.standing_changed(Standing.HELD) is Standing.ENDED
    assert Work(cluster, namespace, "w").reaches("Expired")["history"][-1]["claimID"] == lease.claim_id
