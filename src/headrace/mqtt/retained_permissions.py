"""Retained messages of users who may not publish there any more: they go when users have changed.

Looked at are the messages that this server has stored for a user with a name: other servers look at theirs.
Source: nats-server 2.15.1, which does so after a reload that changes users or accounts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.mqtt.message_headers import hex_digit
from headrace.mqtt.names import RETAINED_FLAGS, RETAINED_ORIGIN, RETAINED_SOURCE
from headrace.mqtt.sparkplug import CERTIFICATES_SUBJECT
from headrace.mqtt.steps import Awaited, begin
from headrace.protocol.jetstream.headers import value

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.mqtt.ports import HubPort
    from headrace.mqtt.retained import RetainedMessages

TOGETHER: Final = 500
"""Messages that are looked at in one go; then others have their turn, and what is removed is waited for."""


async def remove_forbidden(
    account: HubPort, retained: RetainedMessages, may_publish: Callable[[str, bytes], bool]
) -> None:
    """Forget the retained messages that their users may not publish now. Raises: RequestFailed.

    `may_publish`: of a name of a user, and a subject.
    """
    removals: list[Awaited[Any]] = []
    for number, (subject, message) in enumerate(retained.matching(b">"), 1):
        sequence = message.sequence
        body = await retained.body(subject, message)
        if body is not None and message.sequence == sequence:  # else it is a newer one, which was judged
            headers = body[0]
            source = value(headers, RETAINED_SOURCE).decode("utf-8", "surrogateescape")
            is_own = value(headers, RETAINED_ORIGIN) == account.server_hash.encode()
            if is_own and source and not may_publish(source, subject.removeprefix(CERTIFICATES_SUBJECT)):
                flags = hex_digit(value(headers, RETAINED_FLAGS))
                removal = retained.store(subject, message.topic, flags, b"", user=source, more=b"")
                removals.append(begin(removal))
        if number % TOGETHER == 0:
            await _end(removals)
            await _pause(account)
    await _end(removals)


async def _end(removals: list[Awaited[Any]]) -> None:
    while removals:
        await removals.pop()


def _pause(account: HubPort) -> Awaited[None]:
    over: Awaited[None] = Awaited()
    account.after(0, lambda: over.give(None))
    return over
