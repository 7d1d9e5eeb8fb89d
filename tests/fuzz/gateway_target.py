"""What a fuzz input of the gateway protocol means, and what must hold whatever it is.

An input is what three other servers and two clients send, with commands between (`playing`). At the end the
server of another cluster that sends messages must have been told exactly what is wanted in this one.
"""

from __future__ import annotations

from typing import Any, Final

from gateway_peers import COMPLETE, OTHER_HASH, START, GatewayServer
from route_peers import GLOBAL

from fuzz.frames import read_frames
from fuzz.playing import Playing, play_twice
from fuzz.route_frames import read_route_lines
from fuzz.route_target import QUEUE, A, RoutePlay

INBOUND, OUTBOUND, ROUTE = range(3)
"""The first links: two gateways, each to a server of another cluster, and a route. Then come clients."""

SERVED: Final = (GLOBAL, A)


class GatewayPlay(RoutePlay):
    """One playing of an input, by three other servers and two clients, in $G and in A."""

    SERVER = GatewayServer
    server: GatewayServer

    def _side(self, number: int) -> Any:
        if number == ROUTE:
            remote = self.server.route()
            remote.link.configure(headers=True, has_origin=True, origin_unsub=True, server_hash=OTHER_HASH)
            return remote
        if number > ROUTE:
            return self.client(SERVED[number - ROUTE - 1])
        is_outbound = number == OUTBOUND
        limits = {"max_payload": 70_000, "max_control_line": 300}
        return self.server.gateway(*SERVED, outbound=is_outbound, traces=is_outbound, **limits)

    def _held(self) -> int:
        """What another cluster wants, or has refused, is in no figure of an account."""
        outbound = self.sides[OUTBOUND].link
        views = outbound.views()
        assert sum(row[3] + row[4] for row in views) == len(outbound.interest_rows())
        assert sum(sum(row[2:]) for row in views) == outbound.subscriptions_count
        return super()._held() - outbound.subscriptions_count

    def _check_told(self) -> None:
        self.take_from(INBOUND)
        if self.sides[INBOUND].link.is_closing:
            return
        wanted = {row[:3] for row in self.sides[ROUTE].link.interest_rows() if row[3]}
        for side, account in zip(self.sides[ROUTE + 1 :], SERVED, strict=True):
            wanted |= {(account, subject, queue) for subject, queue, *_ in side.link.subscriptions()}
        told = read_route_lines(_interest_of(self.written(INBOUND)), None)
        assert set(told) == wanted, f"told {sorted(told)}, wanted {sorted(wanted)}"
        assert set(told.values()) <= {1}

    # -- commands

    def switch(self, argument: int) -> None:
        self.sides[OUTBOUND].link.switch(SERVED[argument & 1], complete=bool(argument & 2))

    def serve_again(self, argument: int) -> None:
        link, account = self.sides[argument & 1].link, SERVED[argument >> 1 & 1]
        if not link.is_closing:
            link.withdraw(account)
            link.serve(account, self.server.accounts[account], start=START, complete=COMPLETE)

    def reorder(self, _argument: int) -> None:
        self.sides[OUTBOUND].link.stand_behind(SERVED)

    def wait(self, argument: int) -> None:
        self.router.now += argument * 1_000_000_000

    COMMANDS = (
        Playing.choose,
        Playing.end_tick,
        Playing.take,
        Playing.close,
        RoutePlay.hold,
        Playing.block,
        switch,
        serve_again,
        reorder,
        wait,
        Playing.trace,
        RoutePlay.map_subjects,
    )


def _interest_of(written: bytes) -> bytes:
    """Without the lines that begin and end what is told."""
    return written.replace(START, b"").replace(COMPLETE, b"")


def _read(number: int, written: bytes) -> list[Any]:
    if number > ROUTE:
        return sorted(read_frames(written))
    read_route_lines(_interest_of(written), None)
    return sorted(written.split(b"\r\n"))


def check(data: bytes) -> None:
    """Plays one input both ways; raises as `play_twice`."""
    play_twice(data, GatewayPlay, _read, QUEUE)
