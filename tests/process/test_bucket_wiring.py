"""Wires that are cut and clocks that are wrong, as the rounds over a bucket have them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE
from process.bucket_rounds.clocks import Clocks
from process.bucket_rounds.route_links import route_links

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR_S = 3600


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends everything back; gives its port."""

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)
            except ConnectionError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def ask(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return answer(connection, len(data))


def answer(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where the connection ends."""
    found = b""
    while len(found) < size and (data := connection.recv(size - len(found))):
        found += data
    return found


def has_ended(connection: socket.socket) -> bool:
    """True if the other side has ended the connection."""
    try:
        return not connection.recv(1)
    except ConnectionError:
        return True


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def test_wires_pass_everything_until_they_are_cut() -> None:
    large = os.urandom(1 << 20)
    with echo() as first, echo() as second, route_links([first, second]) as links:
        (there,), (back,) = links.ports_for(0), links.ports_for(1)
        with dial(there) as one, dial(back) as other:
            threading.Thread(target=one.sendall, args=(large,), daemon=True).start()
            assert answer(one, len(large)) == large
            assert ask(other, b"x") == b"x"
            links.cut(0, silently=False)
            assert has_ended(one)
            assert has_ended(other)
        with dial(there) as again:
            assert has_ended(again)
        links.mend()
        with dial(there) as again:
            assert ask(again, b"z") == b"z"


def test_silent_cut_holds_what_is_sent_until_it_is_mended() -> None:
    with echo() as first, echo() as second, echo() as third, route_links([first, second, third]) as links:
        cut, whole = links.ports_for(1)
        with dial(cut) as one, dial(whole) as other:
            assert ask(one, b"a") == b"a"
            links.cut(0, silently=True)
            one.sendall(b"b")
            assert ask(other, b"c") == b"c", "only one server is cut off"
            with dial(cut) as new:
                new.sendall(b"d")
                one.setblocking(False)
                with pytest.raises(BlockingIOError):
                    one.recv(1)
                one.settimeout(PATIENCE)
                links.mend()
                assert answer(one, 1) == b"b"
                assert answer(new, 1) == b"d"


@pytest.mark.parametrize("offset_s", [HOUR_S, -HOUR_S])
def test_process_with_another_clock(tmp_path: Path, offset_s: int) -> None:
    told = "import os, time; print(time.time(), time.monotonic(), os.environ['CLOCK_OFFSET_S'])"
    environment = {**os.environ, **Clocks(tmp_path).environment(offset_s)}
    wall, steady = time.time(), time.monotonic()
    command = [sys.executable, "-c", told]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    its_wall, its_steady = map(float, found.split()[:2])
    assert wall <= its_wall - offset_s <= time.time()
    assert steady <= its_steady <= time.monotonic()
