"""What counts as flat memory."""

import pytest
from bench.errors import BenchError
from bench.soak import MEMORY_TOLERANCE_KB, is_flat, memory_fifths


def test_memory_fifths_compares_the_second_with_the_last():
    early, late = memory_fifths([1, 1, 5, 7, 0, 0, 0, 0, 9, 11])
    assert (early, late) == (6, 10)


def test_memory_fifths_too_few_samples_raises():
    with pytest.raises(BenchError, match="at least ten"):
        memory_fifths([1] * 9)


@pytest.mark.parametrize(
    ("early", "late", "flat"),
    [
        (50_000, 50_000 + MEMORY_TOLERANCE_KB, True),
        (50_000, 50_001 + MEMORY_TOLERANCE_KB, False),
        (1_000_000, 1_030_000, True),
        (1_000_000, 1_030_001, False),
        (50_000, 10_000, True),
    ],
)
def test_is_flat_up_to_the_larger_tolerance(early, late, flat):
    assert is_flat(early, late) is flat
