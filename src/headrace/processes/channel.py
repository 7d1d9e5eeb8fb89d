"""The channel between parent and child: tuples over a pair of sockets, each with its length before it.

Both ends are the same program of the same start, so that the tuples are pickled. Never lives here: what the
words mean (`supervisor`, `worker`).

| a child says | |
|---|---|
| `log level line` | a line of its log, formatted |
| `opened server_id` | its ports are bound, its routes begin; it waits for `peers` |
| `joined` | it knows all of `peers` and what their clients want |
| `ready ports` | clients are accepted |
| `reloaded error` | `reload` is done, or why not ("" is done) |
| `left` | a lame duck without clients |
| `fatal` | a service cannot go on: the whole server ends |
| `ask to number question` | the first process asks another one; bytes |
| `part number answer`, `answered number error` | some of the answer to a question, its end; bytes |

| the parent says | |
|---|---|
| `peers ids missing` | who is there now, and the number of a process that is not |
| `accept` | clients may come |
| `reload options`, `lame_duck`, `stop` | |
| `ask number question` | to a process that is asked |
| `part number answer`, `answered number error` | to the one that asked |
"""

from __future__ import annotations

import copyreg
import pickle
import socket
import struct
from collections import deque
from types import MappingProxyType
from typing import Any, Final

_LENGTH: Final = struct.Struct(">I")
_READ: Final = 1 << 16

Message = tuple[Any, ...]


def _view(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _reduced_view(view: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _view, (dict(view),)


copyreg.pickle(MappingProxyType, _reduced_view)  # options have some


class ChannelEnd:
    """One end. `is_over`: the other end is gone, and all it said was taken. `is_unheard`: it was gone when
    something was said."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock: Final = sock
        self.is_over = self.is_unheard = False
        self._received = bytearray()
        self._waiting: deque[memoryview] = deque()

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def take(self) -> list[Message]:
        """Return the messages that have arrived, without waiting for more."""
        try:
            data = self.sock.recv(_READ, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_over = True
            return []
        received = self._received
        received += data
        messages, at = [], 0
        while len(received) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(received, at)[0]
            if end > len(received):
                break
            messages.append(pickle.loads(memoryview(received)[at + _LENGTH.size : end]))
            at = end
        if at:
            self._received = received[at:]
        return messages

    def say(self, *message: object) -> None:
        """Wait until the system has taken it. To an end that is gone nothing is said: `take` will tell."""
        try:
            self.sock.sendall(_packed(message))
        except (BrokenPipeError, ConnectionResetError):
            self.is_unheard = True

    # -- without waiting: the parent, so that no two ever wait for each other -------------------------

    def queue(self, *message: object) -> None:
        """Queue a line, which goes out with `flush`."""
        self._waiting.append(memoryview(_packed(message)))

    @property
    def has_more(self) -> bool:
        """True while bytes wait to be sent."""
        return bool(self._waiting)

    def flush(self) -> None:
        """Write as much of the queue as the system takes now."""
        while self._waiting:
            head = self._waiting[0]
            try:
                sent = self.sock.send(head, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            except (BrokenPipeError, ConnectionResetError):
                self._waiting.clear()
                return
            if sent == len(head):
                self._waiting.popleft()
            else:
                self._waiting[0] = head[sent:]


def _packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def pair() -> tuple[ChannelEnd, ChannelEnd]:
    """Make the two ends of one channel."""
    here, there = socket.socketpair()
    return ChannelEnd(here), ChannelEnd(there)
