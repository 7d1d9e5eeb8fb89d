"""paho-mqtt's client as tests use it: what it was told lies in queues, and each call waits for its answer."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Self

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from types import TracebackType

    from paho.mqtt.properties import Properties


class Paho:
    """A connected client with a thread of its own; a context manager that ends it.

    `clean`: it wants no session that is there; `five`: it speaks MQTT 5.0.
    """

    def __init__(
        self,
        port: int,
        client_id: str = "",
        *,
        clean: bool = True,
        five: bool = False,
        websocket: bool = False,
        will: tuple[str, bytes, int, bool] | None = None,
        user: tuple[str, str] | None = None,
        tls: dict[str, Any] | None = None,
        host: str = "127.0.0.1",
        keep_alive: int = 60,
        properties: Properties | None = None,
    ) -> None:
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if five else clean,
            protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
            transport="websockets" if websocket else "tcp",
        )
        if websocket:
            self.client.ws_set_options(path="/mqtt")
        if will is not None:
            self.client.will_set(*will)
        if user is not None:
            self.client.username_pw_set(*user)
        if tls is not None:
            self.client.tls_set(**tls)
        self.client.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
        self._messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self._answers: dict[int, list[Any]] = {}
        self._news = threading.Condition()
        self.connections: queue.Queue[tuple[Any, Any, Any]] = queue.Queue()
        self.ends: queue.Queue[Any] = queue.Queue()
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect
        self.client.on_message = lambda _client, _data, message: self._messages.put(message)
        self.client.on_subscribe = self._on_answer
        self.client.on_unsubscribe = self._on_answer
        start: dict[str, Any] = {"clean_start": clean, "properties": properties} if five else {}
        self.client.connect(host, port, keepalive=keep_alive, **start)
        self.client.loop_start()
        flags, code, self.told = self.connections.get(timeout=PATIENCE)
        self.code = code
        self.is_resumed = bool(flags.session_present)

    def _on_connect(self, _client: Any, _data: Any, flags: Any, code: Any, properties: Any) -> None:
        self.connections.put((flags, code, properties))

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        self.ends.put(code)

    def _on_answer(
        self, _client: Any, _data: Any, identifier: int, codes: list[Any], _properties: Any
    ) -> None:
        with self._news:
            self._answers[identifier] = codes
            self._news.notify_all()

    def _answer(self, identifier: int | None) -> list[int]:
        assert identifier is not None
        with self._news:
            assert self._news.wait_for(lambda: identifier in self._answers, PATIENCE), "no answer"
            return [code.value for code in self._answers.pop(identifier)]

    def subscribe(self, filter_: str, qos: int = 0, **options: Any) -> list[int]:
        """The codes of the SUBACK."""
        return self._answer(self.client.subscribe(filter_, qos, **options)[1])

    def unsubscribe(self, filter_: str) -> None:
        self._answer(self.client.unsubscribe(filter_)[1])

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False, properties: Any = None
    ) -> None:
        """Return when the message is sent, or acknowledged."""
        self.client.publish(topic, payload, qos, retain, properties).wait_for_publish(PATIENCE)

    def take(self, seconds: float = PATIENCE) -> paho.MQTTMessage:
        """The next message. Raises: queue.Empty when none comes."""
        return self._messages.get(timeout=seconds)

    def payloads(self, count: int) -> list[bytes]:
        return [self.take().payload for _ in range(count)]

    def nothing_left(self) -> bool:
        """True if nothing more has come."""
        return self._messages.empty()

    def cut(self) -> None:
        """End the connection without a DISCONNECT, for good."""
        self.client.on_disconnect = None
        sock = self.client.socket()
        self.client.loop_stop()
        if sock is not None:
            sock.close()
        self._close_pair()

    def end(self) -> None:
        """DISCONNECT."""
        self.client.disconnect()
        self.client.loop_stop()
        self._close_pair()

    def _close_pair(self) -> None:
        """Close the sockets by which a client wakes its thread: paho leaves them to the garbage collector."""
        for sock in (self.client._sockpairR, self.client._sockpairW):
            if sock is not None:
                sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
