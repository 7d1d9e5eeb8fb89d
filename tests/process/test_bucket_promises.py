"""The bookkeeping of the rounds over a bucket finds each promise that is broken."""

from __future__ import annotations

import asyncio

import pytest

from harness.linearizable import ANY, NEVER, Read, Write
from process.bucket_rounds.promises import PromiseBroken, Promises


@pytest.fixture
def promises() -> Promises:
    """Two messages were acknowledged, and one of them delivered and its acknowledgement confirmed."""
    made = Promises()
    made.acknowledge("p0-0", 1, 0.0, is_duplicate=False)
    made.acknowledge("p0-1", 2, 0.0, is_duplicate=True)
    made.deliver(1, "p0-0", asked=0.0)
    made.confirm(1)
    return made


def test_whole_stream_keeps_all_promises(promises: Promises) -> None:
    promises.acknowledge("p0-0", 1, 0.0, is_duplicate=True)
    promises.deliver(2, "p0-1", asked=1.0)
    promises.check_stream({1: "p0-0", 2: "p0-1", 3: "nobody was told"}, "here")


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        ({1: "p0-0"}, "here: p0-1 was acknowledged as message 2"),
        ({1: "p0-0", 2: "p0-2"}, "here: p0-1 was acknowledged as message 2"),
        ({1: "p0-0", 2: "p0-1", 3: "p0-1"}, "here: p0-1 is message 2 and message 3"),
        ({2: "p0-0", 3: "p0-1"}, "here: p0-0 was acknowledged as message 1"),
    ],
    ids=["lost", "another one", "twice", "elsewhere"],
)
def test_stream_that_breaks_a_promise_is_found(
    promises: Promises, held: dict[int, str], problem: str
) -> None:
    with pytest.raises(PromiseBroken, match=problem):
        promises.check_stream(held, "here")


def test_delivered_message_that_is_gone_is_found(promises: Promises) -> None:
    promises.deliver(3, "p0-2", asked=0.0)
    with pytest.raises(PromiseBroken, match="3 was delivered as p0-2, it is None"):
        promises.check_stream({1: "p0-0", 2: "p0-1"}, "here")


def test_message_that_was_acknowledged_twice_as_different_ones_is_found(promises: Promises) -> None:
    with pytest.raises(PromiseBroken, match="p0-0 was acknowledged as message 1 and as message 5"):
        promises.acknowledge("p0-0", 5, 0.0, is_duplicate=False)
    with pytest.raises(PromiseBroken, match="message 2 was p0-1 and is p0-7"):
        promises.acknowledge("p0-7", 2, 0.0, is_duplicate=False)


def test_message_that_comes_again_after_its_confirmation_is_found(promises: Promises) -> None:
    promises.deliver(2, "p0-1", asked=0.0)
    promises.deliver(2, "p0-1", asked=0.0)  # nobody has confirmed it
    with pytest.raises(PromiseBroken, match=r"message 1 .* was delivered again"):
        promises.deliver(1, "p0-0", asked=1.0)


def test_histories_are_checked_with_the_reads_that_may_be_late(promises: Promises) -> None:
    promises.did("k", 0.0, 1.0, Write("a", None, True))
    promises.did("k", 1.0, 2.0, Write("b", "a", True))
    promises.did("k", 3.0, 3.1, Read("a"))
    promises.did("k", 3.0, 3.1, Write("c", "a", False))
    promises.did("k", 4.0, NEVER, Write("d", "b", None))
    promises.check_histories()
    promises.did("k", 4.0, 4.1, Read("a"))
    with pytest.raises(PromiseBroken, match="key k: not linearizable"):
        promises.check_histories()


def test_value_at_last_is_not_late(promises: Promises) -> None:
    promises.did("k", 0.0, 1.0, Write("a", ANY, True))
    promises.did("k", 1.0, 2.0, Write("b", "a", True))
    promises.read_at_last("k", "a")
    with pytest.raises(PromiseBroken, match="not linearizable"):
        promises.check_histories()


def test_revisions_are_compared_as_far_back_as_the_bucket_keeps_them(promises: Promises) -> None:
    promises.revision("k", 1, "a")
    promises.revision("k", 4, "b")
    promises.check_revisions({3: ("k", "x"), 4: ("k", "b")})
    with pytest.raises(PromiseBroken, match="revision 4"):
        promises.check_revisions({3: ("k", "x"), 4: ("k", "c")})
    with pytest.raises(PromiseBroken, match="revision 1"):
        promises.check_revisions({})
    with pytest.raises(PromiseBroken, match="revision 4"):
        promises.revision("k", 4, "c")


def test_acknowledgement_is_waited_for_of_what_was_sent_later(promises: Promises) -> None:
    async def wait() -> None:
        waiting = asyncio.create_task(promises.acknowledged_since(10.0))
        await asyncio.sleep(0)
        promises.acknowledge("p1-0", 3, 9.0, is_duplicate=False)
        await asyncio.sleep(0)
        assert not waiting.done()
        promises.acknowledge("p1-1", 4, 10.0, is_duplicate=False)
        await waiting

    asyncio.run(wait())
