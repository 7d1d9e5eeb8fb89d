"""Hosts of a network of their own on this machine, with links that delay, lose and cut.

Each host is a network namespace with a loopback and one TUN device; what it sends is carried to the others by
a thread here, which does to it what the link between the two says. So no queueing discipline of the kernel is
needed, which many kernels do not have. Linux, root, iproute2 and /dev/net/tun are.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import selectors
import shutil
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeVar

from harness.processes import Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

T = TypeVar("T")

_TUN: Final = "/dev/net/tun"
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
_CLONE_NEWNET: Final = 0x40000000
_PACKET_MAX: Final = 65536
_numbers = itertools.count()


def why_not() -> str:
    """Why this machine cannot have such networks; empty when it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "iproute2 (the ip command) is not installed"
    try:
        os.close(os.open(_TUN, os.O_RDWR))
        with Network(1):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces with TUN devices here: {error}"
    return ""


@dataclass
class Link:
    """One direction between two hosts. `loss` is a share of packets, `delay` and `jitter` are seconds."""

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    is_cut: bool = False


class Host:
    """One machine of the network; `address` is where the others reach it."""

    def __init__(self, number: int) -> None:
        self.address = f"10.77.0.{number + 1}"
        self.name = f"hr{os.getpid()}-{next(_numbers)}"
        self.device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self.device, _TUNSETIFF, struct.pack("16sH", self.name.encode(), _IFF_TUN_NO_PI))
            _ip("netns", "add", self.name)
        except BaseException:
            os.close(self.device)
            raise
        try:
            _ip("link", "set", self.name, "netns", self.name)
            _ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", self.name)
            _ip("-n", self.name, "link", "set", self.name, "up")
            _ip("-n", self.name, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def program(self, program: Program) -> Program:
        """The same program, started on this host."""
        words = ("ip", "netns", "exec", self.name, *program.command)
        return Program(program.name, words, program.environment)

    def inside(self, call: Callable[[], T]) -> T:
        """Calls something on this host: sockets that it makes belong here, wherever they are used."""

        def enter() -> T:
            with open(f"/run/netns/{self.name}") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            return call()

        with ThreadPoolExecutor(1) as thread:  # whose namespace ends with it
            return thread.submit(enter).result()

    def close(self) -> None:
        os.close(self.device)
        _ip("netns", "delete", self.name)


class Network:
    """Hosts and the links between all of them; a context manager that takes them away again."""

    def __init__(self, count: int, seed: int = 1) -> None:
        self.hosts: list[Host] = []
        self._random = random.Random(seed)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._sent = itertools.count()
        self.links = {(one, other): Link() for one in range(count) for other in range(count) if one != other}
        self.lost = 0
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        try:
            for number in range(count):
                self.hosts.append(Host(number))
        except BaseException:
            self._take_away()
            raise
        self._thread.start()

    # -- links

    def between(self, one: int, other: int) -> tuple[Link, Link]:
        return self.links[one, other], self.links[other, one]

    def cut(self, one: int, other: int) -> None:
        for link in self.between(one, other):
            link.is_cut = True

    def heal(self) -> None:
        """All links are as good as new."""
        for key in self.links:
            self.links[key] = Link()

    # -- carrying

    def _carry(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_read, selectors.EVENT_READ, -1)
            for number, host in enumerate(self.hosts):
                selector.register(host.device, selectors.EVENT_READ, number)
            while True:
                pause = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
                for key, _ in selector.select(pause):
                    if key.data < 0:
                        return
                    self._take(key.data)
                self._deliver()

    def _take(self, sender: int) -> None:
        while True:
            try:
                packet = os.read(self.hosts[sender].device, _PACKET_MAX)
            except BlockingIOError:
                return
            target = packet[19] - 1 if packet[0] >> 4 == 4 else -1
            link = self.links.get((sender, target))
            if link is None:
                continue
            if link.is_cut or (link.loss and self._random.random() < link.loss):
                self.lost += 1
                continue
            due = time.monotonic() + link.delay + link.jitter * self._random.random()
            heapq.heappush(self._waiting, (due, next(self._sent), target, packet))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(self._waiting)
            try:
                os.write(self.hosts[target].device, packet)
            except BlockingIOError:  # its queue is full, as those of real hosts are at times
                self.lost += 1

    # -- its end

    def _take_away(self) -> None:
        for host in self.hosts:
            host.close()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._stop_write, b"x")
        self._thread.join()
        self._take_away()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
