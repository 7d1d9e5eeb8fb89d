"""The thread that syncs files: what comes out of it, when, and that it needs nothing of the interpreter."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from headrace.engine.syncer import Syncer, SyncJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S: Final = 20
"""Seconds for what happens at once on another thread; a test that gets there fails."""


@pytest.fixture
def syncer() -> Iterator[Syncer]:
    made = Syncer()
    yield made
    made.stop()


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield made
    os.close(made)


@pytest.fixture
def unsyncable() -> Iterator[int]:
    """A pipe: the system says of every sync that it is no file."""
    ends = os.pipe()
    yield ends[0]
    for end in ends:
        os.close(end)


def is_readable(syncer: Syncer, seconds: float = 0) -> bool:
    return bool(select.select([syncer.fileno()], [], [], seconds)[0])


def test_a_job_is_done_and_comes_out_once(syncer: Syncer, descriptor: int) -> None:
    os.write(descriptor, b"x" * 10_000)
    job = syncer.submit(descriptor)
    job.wait()
    assert job.is_done
    assert (job.error, job.seconds > 0) == (0, True)
    assert is_readable(syncer, WAIT_S)
    assert syncer.take() == [job]
    assert syncer.take() == []
    assert not is_readable(syncer)


def test_what_fails_says_why(syncer: Syncer, unsyncable: int, descriptor: int) -> None:
    jobs = [syncer.submit(each) for each in (unsyncable, descriptor, unsyncable)]
    jobs[-1].wait()
    assert [job.error for job in jobs] == [errno.EINVAL, 0, errno.EINVAL]


def test_a_descriptor_that_is_none(syncer: Syncer) -> None:
    job = syncer.submit(-1)
    job.wait()
    assert job.error == errno.EBADF


def test_jobs_come_out_in_their_order(syncer: Syncer, descriptor: int) -> None:
    asked: list[SyncJob] = []
    taken: list[SyncJob] = []
    for _ in range(500):
        asked.append(syncer.submit(descriptor))
        taken += syncer.take()
    while len(taken) < len(asked):
        assert is_readable(syncer, WAIT_S)
        taken += syncer.take()
    assert taken == asked
    assert not is_readable(syncer)


def test_several_can_wait_for_one(syncer: Syncer, descriptor: int) -> None:
    job = syncer.submit(descriptor)
    threads = [threading.Thread(target=job.wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_it_does_not_wait_for_the_interpreter(syncer: Syncer, descriptor: int) -> None:
    """This thread keeps Python's lock all the while: another thread of Python would not get on."""
    syncer.submit(descriptor).wait()  # its thread is there
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        job = syncer.submit(descriptor)
        deadline = time.monotonic() + WAIT_S
        while not job.is_done:
            assert time.monotonic() < deadline
    finally:
        sys.setswitchinterval(before)


def test_stop_ends_what_was_asked_for(descriptor: int, unsyncable: int) -> None:
    syncer = Syncer()
    jobs = [syncer.submit(each) for each in (descriptor, unsyncable) * 20]
    assert syncer.stop() == jobs
    assert all(job.is_done for job in jobs)
    assert [job.error for job in jobs] == [0, errno.EINVAL] * 20
    assert syncer.stop() == []
    with pytest.raises(RuntimeError, match="stopped"):
        syncer.submit(descriptor)


def test_it_gives_its_descriptors_back(descriptor: int) -> None:
    before, threads = len(os.listdir("/dev/fd")), threading.active_count()
    for used in (True, False):
        syncer = Syncer()
        if used:
            syncer.submit(descriptor)
        syncer.stop()
        assert syncer.fileno() == -1
    assert len(os.listdir("/dev/fd")) == before
    assert threading.active_count() == threads
