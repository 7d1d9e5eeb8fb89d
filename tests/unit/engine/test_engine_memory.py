"""Memory that a server keeps when it was freed, so that the system need not clear it again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from headrace.engine.memory import keep_freed

def work():
    for _ in range(50):
        held = [bytes(256 << 10) for _ in range(4)]
        large = bytes(1 << 20)
        del held, large

if "keep" in sys.argv:
    keep_freed()
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*words: str) -> int:
    """Page faults of a program that allocates and frees the same again and again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer brings an allocator of its own")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps what it likes")
def test_what_is_freed_and_taken_again_is_not_faulted_in_again() -> None:
    assert faults("keep") < 500
    assert faults() > 2_000
