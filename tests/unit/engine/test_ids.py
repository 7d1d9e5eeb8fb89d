"""Ids of messages that were stored lately (`headrace.engine.ids`), against a table and a queue of Python."""

from __future__ import annotations

import random
from collections import deque

import pytest

from headrace.engine import ids
from headrace.engine.ids import IdWindow


class _Model:
    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self.known: dict[bytes, tuple[int, int]] = {}
        self.order: deque[tuple[int, int, bytes]] = deque()

    def note(self, msg_id: bytes, sequence: int, time_ns: int) -> None:
        if self.window_ns > 0:
            self.known[msg_id] = sequence, time_ns
            self.order.append((time_ns, sequence, msg_id))

    def forget(self, now_ns: int) -> None:
        while self.order and now_ns - self.order[0][0] >= self.window_ns:
            _, sequence, msg_id = self.order.popleft()
            if self.known[msg_id][0] == sequence:
                del self.known[msg_id]


@pytest.mark.parametrize("seed", range(20))
def test_window_knows_what_a_table_and_a_queue_know(seed: int) -> None:
    dice = random.Random(seed)
    window = IdWindow()
    window.window_ns = dice.choice((0, 5, 100, 4000))
    model = _Model(window.window_ns)
    names = [dice.randbytes(dice.choice((1, 7, 8, 40, 300))) for _ in range(dice.choice((3, 200)))]
    now = 0
    for sequence in range(1, 3000):
        now += dice.choice((0, 0, 1, 3))
        msg_id = dice.choice(names)
        if dice.random() < 0.6:
            window.note(msg_id, sequence, now)
            model.note(msg_id, sequence, now)
        elif dice.random() < 0.5:
            window.forget(now)
            model.forget(now)
        if dice.random() < 0.002:
            window.window_ns = model.window_ns = dice.choice((1, 50, 3000))
        assert len(window) == len(model.known)
        assert window.sequence_of(msg_id) == model.known.get(msg_id, (0, 0))[0]
    assert [window.sequence_of(name) for name in names] == [
        model.known.get(name, (0, 0))[0] for name in names
    ]
    window.window_ns = 1
    window.forget(now + 1)
    assert len(window) == 0
    assert not any(map(window.sequence_of, names))


def test_no_more_than_so_many_are_remembered() -> None:
    window = IdWindow()
    window.window_ns = 1 << 60
    for n in range(ids.MOST_IDS + 3):
        window.note(b"%d" % n, n + 1, n)
    assert len(window) == ids.MOST_IDS
    assert [window.sequence_of(b"%d" % n) for n in (0, 2, 3, ids.MOST_IDS + 2)] == [0, 0, 4, ids.MOST_IDS + 3]
