"""kill -9 of a server with MQTT clients at random moments: sessions are there again, QoS 2 is exactly once.

Devices keep what MQTT says that a client keeps between its connections, and nothing else: the identifiers of
messages on their way. A message of QoS 2 is counted when it comes with an identifier that is not held. In the
end each number that was published with QoS 2 has been counted once, and each that was acknowledged with QoS 1
at least once.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from harness import depth
from harness.mqtt_wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Gone, MqttWire, Packet
from harness.ports import free_port
from harness.processes import HEADRACES, ServerProcess
from harness.tallies import note
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS: Final = depth.seeds(100)
"""Each kill is drawn from one."""
LONGEST: Final = 0.4
"""Seconds that a server lives with its clients at work."""
WINDOW: Final = 20
"""Messages of a publisher on their way."""
ROOM: Final = 5_000
"""Numbers of one publisher that are not received yet before it waits."""


class Device:
    """One client; `work` runs until the server is gone."""

    name: str

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0
        self.wire: MqttWire | None = None

    def connect(self) -> None:
        """Raises: AssertionError if the session is not there again."""
        self.wire = MqttWire(self.port, self.name, clean=False)
        assert self.wire.is_resumed == (self.connections > 0), f"session of {self.name}"
        self.connections += 1
        self.begin(self.wire)

    def begin(self, wire: MqttWire) -> None:
        raise NotImplementedError

    def take(self, wire: MqttWire, packet: Packet) -> None:
        raise NotImplementedError

    def proceed(self, wire: MqttWire) -> bool:
        """Send what may be sent; True if something is to come."""
        return True

    def work(self) -> None:
        """Raises: Gone at the end of the server."""
        wire = self.wire
        assert wire is not None
        while True:
            if self.proceed(wire):
                self.take(wire, wire.take())
            else:
                time.sleep(0.005)

    def end(self) -> None:
        if self.wire is not None:
            self.wire.close()


class Publisher(Device):
    """Numbers from 1 on. `pending`: identifiers on their way, the oldest first, with their number; of QoS 2 0
    when the server has the message and only has to release it.
    """

    def __init__(self, port: int, qos: int, received: Callable[[], int]) -> None:
        super().__init__(port)
        self.name = f"publisher{qos}"
        self.qos = qos
        self.sent = 0
        self.done = 0
        self.pending: dict[int, int] = {}
        self._received = received
        self._last_identifier = 0

    def begin(self, wire: MqttWire) -> None:
        for identifier, number in self.pending.items():
            if number:
                self._publish(wire, identifier, number, again=True)
            else:
                wire.acknowledge(PUBREL, identifier)

    def proceed(self, wire: MqttWire) -> bool:
        while len(self.pending) < WINDOW and self.done - self._received() < ROOM:
            self._last_identifier = self._last_identifier % 65535 + 1
            self.sent += 1
            self.pending[self._last_identifier] = self.sent
            self._publish(wire, self._last_identifier, self.sent)
        return bool(self.pending)

    def _publish(self, wire: MqttWire, identifier: int, number: int, *, again: bool = False) -> None:
        wire.publish(f"crash/{self.qos}", b"%d" % number, self.qos, identifier, again=again)

    def take(self, wire: MqttWire, packet: Packet) -> None:
        identifier = packet.identifier
        if packet.kind == PUBREC and self.qos == 2:
            if identifier in self.pending:
                self.pending[identifier] = 0
            wire.acknowledge(PUBREL, identifier)
        else:
            assert packet.kind == (PUBCOMP if self.qos == 2 else PUBACK), packet
            self.pending.pop(identifier)
            self.done += 1


class Subscriber(Device):
    """Counts the numbers that come."""

    def __init__(self, port: int, qos: int) -> None:
        super().__init__(port)
        self.name = f"subscriber{qos}"
        self.qos = qos
        self.numbers: Counter[int] = Counter()
        self.held: set[int] = set()
        """Identifiers of messages that the server has not released yet."""
        self.history: list[tuple[int, str, int, int]] = []
        """What came: the number of the connection, the packet, its identifier, the number in it."""

    def begin(self, wire: MqttWire) -> None:
        if self.connections == 1:
            assert wire.subscribe(f"crash/{self.qos}", self.qos) == self.qos

    def take(self, wire: MqttWire, packet: Packet) -> None:
        identifier = packet.identifier
        if packet.kind == PUBREL:
            self.history.append((self.connections, "PUBREL", identifier, 0))
            self.held.discard(identifier)
            wire.acknowledge(PUBCOMP, identifier)
            return
        assert (packet.kind, packet.qos) == (PUBLISH, self.qos), packet
        number = int(packet.payload)
        self.history.append((self.connections, f"PUBLISH {packet.flags:x}", identifier, number))
        if identifier not in self.held:
            self.numbers[number] += 1
        if self.qos == 2:
            self.held.add(identifier)
        wire.acknowledge(PUBREC if self.qos == 2 else PUBACK, identifier)

    def wants(self, sent: int) -> str:
        """Return what has not come, and what was not released."""
        missing = [number for number in range(1, sent + 1) if not self.numbers[number]]
        held = sorted(self.held)
        return f"QoS {self.qos}: missing {missing[:20]} of {sent}, held {held}, at last {self.history[-20:]}"

    def told_of(self, numbers: list[int]) -> list[tuple[int, str, int, int]]:
        """Return the packets that had the identifiers of these numbers."""
        concerned = {identifier for _, _, identifier, number in self.history if number in numbers}
        return [each for each in self.history if each[2] in concerned]


def start(folder: Path, port: int) -> ServerProcess:
    config = (
        f'server_name: crash\njetstream {{ store_dir: "{folder}/js" }}\n'
        f'mqtt {{ host: "127.0.0.1", port: {port}, ack_wait: "1s" }}\n'
    )
    return ServerProcess(HEADRACES[0], folder, config=config)


def run(devices: list[Device], server: ServerProcess, seconds: float) -> None:
    """Let all devices work, until the server is killed some seconds after each has got something done.

    Raises: what went wrong before that.
    """
    failures: list[BaseException] = []
    killed = threading.Event()

    def work(device: Device) -> None:
        try:
            device.work()
        except Gone as error:
            if not killed.is_set():
                failures.append(AssertionError(f"{device.name} was cut off: {error}\n{server.log}"))
        except Exception as error:  # noqa: BLE001  # raised below
            failures.append(error)

    before = [progress(device) for device in devices]
    for device in devices:
        device.connect()
    threads = [threading.Thread(target=work, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    wait_until(
        lambda: bool(failures) or all(map(int.__lt__, before, map(progress, devices))),
        "everybody is at work",
        PATIENCE,
    )
    time.sleep(seconds)
    killed.set()
    server.kill()
    for thread in threads:
        thread.join(2 * PATIENCE)
        assert not thread.is_alive(), f"a device has not ended\n{server.log}"
    for device in devices:
        device.end()
    for failure in failures:
        raise failure


def progress(device: Device) -> int:
    """What a device has got done."""
    return device.done if isinstance(device, Publisher) else len(device.numbers)  # type: ignore[attr-defined]


def test_exactly_once_over_kills(tmp_path: Path) -> None:
    port = free_port()
    subscribers = [Subscriber(port, qos) for qos in (1, 2)]
    publishers = [Publisher(port, each.qos, lambda each=each: len(each.numbers)) for each in subscribers]
    devices: list[Device] = [*subscribers, *publishers]  # in the order in which they connect first
    for seed in SEEDS:
        with start(tmp_path, port) as server:
            run(devices, server, random.Random(seed).uniform(0.0, LONGEST))

    with start(tmp_path, port) as server:
        finish(devices, server)

    for publisher, subscriber in zip(publishers, subscribers, strict=True):
        missing = [n for n in range(1, publisher.sent + 1) if not subscriber.numbers[n]]
        assert not missing, f"QoS {publisher.qos}: lost {missing[:20]} of {publisher.sent}"
    twice = [number for number, count in subscribers[1].numbers.items() if count > 1]
    assert not twice, (
        f"QoS 2: came again: {twice[:20]} of {publishers[1].sent}: {subscribers[1].told_of(twice)}"
    )
    note("MQTT: kill -9", len(SEEDS))
    note("MQTT: messages of QoS 1 over kills", publishers[0].sent)
    note("MQTT: messages of QoS 2 over kills", publishers[1].sent)


def finish(devices: list[Device], server: ServerProcess) -> None:
    """Let everything arrive that is on its way; then each device is on its own, and says nothing more."""
    for device in devices:
        device.connect()

    def work(device: Device, is_over: Callable[[], bool]) -> None:
        while not is_over():
            assert device.wire is not None
            device.take(device.wire, device.wire.take())

    for device in devices:
        if isinstance(device, Publisher):
            work(device, lambda device=device: not device.pending)
    for publisher, subscriber in zip(devices[2:], devices[:2], strict=True):
        assert isinstance(publisher, Publisher)
        assert isinstance(subscriber, Subscriber)
        try:
            work(subscriber, lambda: len(subscriber.numbers) == publisher.sent and not subscriber.held)  # noqa: B023
        except AssertionError as error:
            error.add_note(subscriber.wants(publisher.sent))
            raise
        # What comes again comes after ack_wait, which is one second: what is said before is said behind it.
        quiet(subscriber)
    for device in devices:
        device.end()


def quiet(subscriber: Subscriber) -> None:
    """Take what still comes in twice the time after which a server would deliver something again."""
    assert subscriber.wire is not None
    deadline = time.monotonic() + 2.0
    while (left := deadline - time.monotonic()) > 0:
        try:
            subscriber.take(subscriber.wire, subscriber.wire.take(left))
        except AssertionError as error:
            if "no packet" not in str(error):
                raise
