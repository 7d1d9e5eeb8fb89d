"""The signs of life of servers that take turns in having the channels: what each tells the others, over NATS.

They go on `_STAN.ft.<cluster ID>.<group>`, as those of fault-tolerance groups do. Never lives here: what they
hold, and the decision which server has the channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import ProtocolError
from headrace.protocol.stan import CtrlMsg, CtrlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.conf.streaming_options import StreamingOptions
    from headrace.core.service import Delivery, Host
    from headrace.streaming.context import Notes

_GROUP: Final = "bucket"
"""The group of servers that name none."""


def beat_subject(options: StreamingOptions) -> bytes:
    """Return the subject of the signs of life of a group of servers."""
    return f"_STAN.ft.{options.cluster_id}.{options.ft_group or _GROUP}".encode()


class StreamingBeats:
    """The signs of life of one server and of the others.

    `heard`: called with the data and the server ID of another one's.
    """

    def __init__(
        self, options: StreamingOptions, server_id: str, heard: Callable[[bytes, str], object]
    ) -> None:
        self.subject: Final = beat_subject(options)
        self._discovery = f"{options.discover_prefix}.{options.cluster_id}".encode()
        self._server_id = server_id.encode()
        self._heard = heard
        self._others: Final[dict[bytes, Callable[[bytes], object]]] = {}
        self.host: Host | None = None
        """The host while signs of life are sent."""

    def listen(self, subject: bytes, take: Callable[[bytes], object]) -> None:
        """Have the service subscribe to another subject, too, when it starts; `take` gets its payloads."""
        self._others[subject] = take

    def begin(self, host: Host, note: Notes) -> None:
        """Send signs of life by this host from now on; the caller subscribes to what `routes` gives."""
        self.host = host
        self._note = note

    def routes(self) -> Iterator[tuple[bytes, Callable[[Delivery], None]]]:
        """Yield the subjects to subscribe to, each with what takes its messages."""
        yield self.subject, self._receive
        for subject, take in self._others.items():
            yield subject, _with_payload(take)

    def end(self) -> None:
        """Send none any more."""
        self.host = None

    def tell(self, data: bytes) -> None:
        """Tell the other servers; nothing happens while there is no host."""
        if self.host is not None:
            message = CtrlMsg(CtrlType.FT_HEARTBEAT, self._server_id, data)
            self.host.publish(self.subject, message.encode())

    def hears_server(self) -> bool:
        """True if a server answers clients, as far as the host knows: one elsewhere knows nothing of it."""
        return self.host is not None and self.host.listens(self._discovery)

    def _receive(self, delivery: Delivery) -> None:
        """Take what a server tells."""
        try:
            message = CtrlMsg.decode(delivery.payload)
        except ProtocolError as error:
            self._note.error("fault-tolerance message not understood: %s", error)
            return
        if message.msg_type == CtrlType.FT_HEARTBEAT and message.server_id != self._server_id:
            self._heard(message.data, message.server_id.decode("utf-8", "backslashreplace"))


def _with_payload(take: Callable[[bytes], object]) -> Callable[[Delivery], None]:
    def receive(delivery: Delivery) -> None:
        take(delivery.payload)

    return receive
