"""`headrace consumer next` and `sub`: messages of a consumer, shown and acknowledged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection
    from headrace.client.consuming import ConsumedMessage, PullConsumer, PushConsumer

_MODES: Final = ("ack", "nak", "nak_delay", "term", "progress", "no_ack")
_WAIT_NS: Final = 5_000_000_000
_BATCH: Final = 100
"""Messages of one pull: those that were not shown when it ends are delivered again only after a while."""
_PULL_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0

Info = dict[str, Any]


def pull(call: Call) -> None:
    """Pull messages, show and settle them. Raises: CommandError, ClientError."""
    from headrace.client.consuming import PullConsumer

    options = call.options
    mode = _mode(call)
    wait_ns = _WAIT_NS if options.wait is None else options.wait
    shown = _Shown(call)
    with call.connected() as connection:
        info = _info(call, connection)
        _check_pulled(info)
        settle = _settling(call, mode, info)
        consumer = PullConsumer(
            call.api(connection), options.stream, options.consumer, group=options.group or ""
        )
        for message in consumer.fetch(options.count, wait=wait_ns / 1e9):
            shown.show(message)
            settle(message)
        connection.flush(call.timeout)
    if not shown.count:
        if not wait_ns:
            raise CommandError(f"{options.consumer} has no message now", ExitCode.NOT_THERE)
        raise CommandError(f"no message of {options.consumer} in {wait_ns / 1e9:g} s", ExitCode.TIMED_OUT)
    if mode is None and info["config"].get("ack_policy") != "none":
        call.out.note(f"acknowledged {shown.count} message{'' if shown.count == 1 else 's'}")


def _mode(call: Call) -> str | None:
    """The way of acknowledging that was chosen. Raises: CommandError for two, and for none with --json."""
    options = call.options
    found = [mode for mode in _MODES if getattr(options, mode) not in (None, False)]
    if len(found) > 1:
        raise _wrong(f"{_flag(found[0])} and {_flag(found[1])} exclude each other")
    if not found and call.out.is_json:
        raise _wrong(f"--json needs one of {', '.join(map(_flag, _MODES))}")
    return found[0] if found else None


def _flag(mode: str) -> str:
    return f"--{mode.replace('_', '-')}"


def _settling(call: Call, mode: str | None, info: Info) -> Callable[[ConsumedMessage], object]:
    """The acknowledgement of a message that was shown."""
    delay: int | None = call.options.nak_delay
    if mode == "no_ack" or info["config"].get("ack_policy") == "none":
        return lambda message: None
    if mode in ("nak", "nak_delay"):
        return lambda message: message.nak(delay)
    if mode == "term":
        return lambda message: message.term()
    if mode == "progress":
        return lambda message: message.in_progress()
    return lambda message: message.ack(timeout=call.timeout)


def subscribe(call: Call) -> None:
    """Show messages as they come and acknowledge each. Raises: CommandError, ClientError."""
    options = call.options
    if options.no_ack and options.nak_delay is not None:
        raise _wrong("--no-ack and --nak-delay exclude each other")
    if options.nak_delay is not None and options.exec is None:
        raise _wrong("--nak-delay needs --exec")
    if options.exec is not None:
        from headrace.cli.client.message_command import check_command

        check_command(options.exec, "--exec")
    shown = _Shown(call)
    with call.reconnecting() as connection:
        info = _info(call, connection)
        is_acknowledged = not options.no_ack and info["config"].get("ack_policy") != "none"
        messages = _messages(call, connection, info)
        call.out.note(f"listening on {options.consumer} of {options.stream}")
        for message in messages:
            if options.exec is not None:
                is_done = shown.show_output(message, info)
            else:
                shown.show(message)
                is_done = True
            if is_acknowledged:
                if is_done:
                    message.ack()
                else:
                    message.nak(options.nak_delay)
            if options.count is not None and shown.count >= options.count:
                break
        connection.flush(call.timeout)


def _messages(call: Call, connection: Connection, info: Info) -> Iterator[ConsumedMessage]:
    """The messages as they come, until the time or the silence of the flags ends them."""
    from headrace.client.consuming import PullConsumer, PushConsumer

    options = call.options
    ends = _Ends(options)
    target = info["config"].get("deliver_subject")
    if target:
        if options.group:
            raise _wrong("--group is for consumers that are pulled from")
        pushed = PushConsumer(connection, target, info["config"].get("deliver_group") or None)
        connection.flush(call.timeout)
        return _pushed(pushed, ends)
    consumer = PullConsumer(call.api(connection), options.stream, options.consumer, group=options.group or "")
    most = 1 if options.exec is not None else info["config"].get("max_batch") or _BATCH
    return _pulled(call, consumer, ends, min(most, _BATCH))


def _pushed(consumer: PushConsumer, ends: _Ends) -> Iterator[ConsumedMessage]:
    while (left := ends.left()) is None or left > 0:
        for message in consumer.messages(idle=left):
            ends.heard()
            yield message
            ends.heard()
            if ends.is_over():
                return


def _pulled(call: Call, consumer: PullConsumer, ends: _Ends, most: int) -> Iterator[ConsumedMessage]:
    """Pull after pull, each for no more messages than are shown: what is left over would wait for nothing."""
    from headrace.client.consuming import HEARTBEAT
    from headrace.client.errors import (
        ClientTimeoutError,
        ConnectionLostError,
        NoRespondersError,
        ReadInterruptedError,
    )

    count = call.options.count
    got = 0
    while (left := ends.left()) is None or left > 0:
        batch = most if count is None else min(most, count - got)
        try:
            wait = _PULL_S if left is None else min(left, _PULL_S)
            for message in consumer.fetch(batch, wait=wait, heartbeat=HEARTBEAT):
                got += 1
                ends.heard()
                yield message
                ends.heard()
        except (ClientTimeoutError, ConnectionLostError, NoRespondersError, ReadInterruptedError):
            _wait_for_server(call, consumer.connection, ends)


def _wait_for_server(call: Call, connection: Connection, ends: _Ends) -> None:
    """Return when a server says that the consumer is there, or the time is over.

    Raises: JetStreamMissingError if the consumer is gone; ServerError that refuses the client.
    """
    from headrace.client.errors import ClientTimeoutError, ConnectionLostError, NoRespondersError
    from headrace.client.retries import Backoff

    pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, jitter=0.5)
    while ends.left() != 0:
        try:
            _info(call, connection)
            return
        except (ClientTimeoutError, ConnectionLostError, NoRespondersError):
            time.sleep(pauses.next())  # the next question finds another connection


class _Ends:
    """The end of listening, by the flags --for and --idle."""

    def __init__(self, options: Namespace) -> None:
        self._for: int | None = getattr(options, "for")
        self._idle: int | None = options.idle
        self._began = self._last = time.monotonic()

    def heard(self) -> None:
        """Note that a message is there."""
        self._last = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds until it ends, if no message comes; None: it does not end."""
        ends = [
            start + limit / 1e9
            for start, limit in ((self._began, self._for), (self._last, self._idle))
            if limit is not None
        ]
        return max(min(ends) - time.monotonic(), 0.0) if ends else None

    def is_over(self) -> bool:
        """True if the time of --for is over."""
        return self._for is not None and time.monotonic() >= self._began + self._for / 1e9


def _info(call: Call, connection: Connection) -> Info:
    from headrace.client.api import JetStreamAssets

    return JetStreamAssets(call.api(connection)).consumer_info(call.options.stream, call.options.consumer)


def _check_pulled(info: Info) -> None:
    target = info["config"].get("deliver_subject")
    if target:
        raise _wrong(f"{info['name']} pushes its messages to {target}; consumer sub shows them")


class _Shown:
    """The messages that were shown."""

    def __init__(self, call: Call) -> None:
        self._out = call.out
        self._options = call.options
        self.count = 0

    def show(self, message: ConsumedMessage) -> None:
        """Show a message."""
        self.count += 1
        document = _document(message)
        if getattr(self._options, "headers_only", False):
            document.pop("data", None)
            document.pop("data_base64", None)
        self._out.event(document, lambda: self._print(message, message.data), quiet=document.get("data"))

    def show_output(self, message: ConsumedMessage, info: Info) -> bool:
        """Run the command of --exec for a message and show its output; True if it ended with 0."""
        from headrace.cli.client.message_command import run_command
        from headrace.cli.json_keys import body_document

        self.count += 1
        wait_ns = (info["config"].get("backoff") or [info["config"].get("ack_wait") or 0])[0]
        end = run_command(
            self._options.exec,
            message.subject,
            message.headers,
            message.data,
            meanwhile=None if self._options.no_ack else lambda: _ask_for_time(message),
            every=wait_ns / 2e9 if wait_ns else None,
        )
        document = _document(message)
        document.pop("data", None)
        document.pop("data_base64", None)
        document |= body_document(end.output) | {"exit_code": end.code}
        self._out.event(document, lambda: self._print(message, end.output), quiet=document.get("data"))
        if end.code:
            place = f"{message.delivery.stream} {message.delivery.sequence}"
            self._out.warn(f"{message.subject} ({place}): the command failed with {end.code}: {end.reason}")
        return end.code == 0

    def _print(self, message: ConsumedMessage, data: bytes) -> None:
        out, options = self._out, self._options
        if options.raw:
            out.body(data, raw=out.is_raw(options.raw))
            return
        if getattr(options, "subjects_only", False):
            out.line(message.subject)
            return
        delivery = message.delivery
        again = f", delivery {delivery.deliveries}" if delivery.deliveries > 1 else ""
        place = f"{delivery.stream} {delivery.sequence}{again}, {delivery.pending} follow"
        out.line(f"[#{self.count}] {message.subject} ({place})", "bold")
        for name, values in message.headers.items():
            for value in values:
                out.line(f"{name}: {value}", "dim")
        if not getattr(options, "headers_only", False):
            if message.headers:
                out.line()
            out.body(data)
            out.line()


def _ask_for_time(message: ConsumedMessage) -> None:
    """Ask for more time. Where the connection is lost the message is delivered again, as it would be."""
    from headrace.client.errors import ConnectionLostError

    message.in_progress()
    try:
        if message.connection is not None:
            message.connection.flush()
    except ConnectionLostError:
        pass  # the next pull connects again, and says so


def _document(message: ConsumedMessage) -> dict[str, Any]:
    from headrace.cli.json_keys import message_document

    delivery = message.delivery
    return message_document(
        message.subject,
        message.data,
        headers=message.headers,
        header_bytes=message.header_bytes,
        received_ns=time.time_ns(),
        stream=delivery.stream,
        sequence=delivery.sequence,
        time_ns=delivery.time_ns,
        deliveries=delivery.deliveries,
        pending=delivery.pending,
    )


def _wrong(text: str) -> CommandError:
    return CommandError(text, ExitCode.WRONG_USE)
