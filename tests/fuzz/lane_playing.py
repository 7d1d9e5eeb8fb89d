"""What targets of lanes share: a service and a client of it, played with compiled lanes and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.service import Delivery
from headrace.engine.interest import Interest
from headrace.engine.lanes import use_lanes
from headrace.engine.link import Router
from headrace.engine.memory import live_objects
from headrace.engine.service import ServiceLink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def check_lanes(data: bytes, play: Callable[[bytes], object]) -> None:
    """Asserts that an input has the same outcome with lanes as without, and leaves nothing."""
    before, were_used = live_objects(), use_lanes(True)
    try:
        with_lanes = play(data)
        use_lanes(False)
        without = play(data)
    finally:
        use_lanes(were_used)
    assert with_lanes == without
    assert live_objects() == before


class Session:
    """What every session of a link answers alike."""

    def failed(self, error: Exception) -> None:
        raise error

    def wake(self) -> None: ...

    def unpublishable(self, subject: bytes) -> None:
        """A subject with a blank: nothing is sent."""


class Client(Session):
    """Keeps what it is answered."""

    def __init__(self) -> None:
        self.answers: list[Delivery] = []

    def deliver(self, batch: Sequence[Delivery]) -> None:
        self.answers += batch


class Service(Session):
    """The base of services, which answer on their link."""

    link: Any = None


class Connected:
    """A service and a client as links of one router; what the client is sent is below `_INBOX`."""

    def __init__(self, service: Service) -> None:
        self._router, self._service = Router(), service
        self.client = Client()
        self.link = ServiceLink(self._router, service, Delivery)
        self.sender = ServiceLink(self._router, self.client, Delivery)
        service.link = self.link
        self.link.interest = self.sender.interest = Interest()
        self.sender.subscribe(b"_INBOX.>")

    def run(self) -> None:
        """Ticks until nothing is due."""
        while self._router.has_due:
            self._router.end_tick()

    def end(self) -> None:
        for one in (self.link, self.sender):
            one.detach()
        self._router.end_tick()
        self._service.link = None
