"""Requests to delete single messages of one stream that came together: one write to its log for all.

What stands against it, a message that is not there, an audit that somebody listens to: then each request goes
the way of all requests. The answers are the same.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.core.service import Delivery
from headrace.jetstream.api.dispatch import START
from headrace.jetstream.api.request import refusal, response
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.errors import LogError
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.api.dispatch import Api
    from headrace.jetstream.stream.stream import Stream

_DONE: Final = response("stream_msg_delete", {"success": True})


def delete_together(
    account: AccountJetStream, api: Api, name: str, requests: Sequence[tuple[int, bytes]]
) -> None:
    """Delete messages of a stream, and answer each of the requests for it: sequence, reply."""
    stream = account.streams.get(name)
    left = _left(account, stream, [sequence for sequence, _ in requests])
    if stream is not None and len(left) < len(requests):
        account.touch(stream)
        done = [reply for sequence, reply in requests if sequence not in left]
        account.commit(stream.log, partial(_answer, account, name, done))
    for sequence, reply in requests:
        if sequence in left:
            subject = b"$JS" + START + f"STREAM.MSG.DELETE.{name}".encode()
            api.receive(Delivery(0, subject, reply, b"", b'{"seq":%d,"no_erase":true}' % sequence))


def _left(account: AccountJetStream, stream: Stream | None, sequences: list[int]) -> set[int]:
    """Delete what can be deleted together; return what was not."""
    if (
        stream is None
        or account.advised("API")
        or len(set(sequences)) != len(sequences)
        or stream.log.absent(sequences)
    ):
        return set(sequences)
    return set(stream.removal.delete_all(sequences))


def _answer(account: AccountJetStream, name: str, replies: list[bytes], error: LogError | None) -> None:
    body = _DONE
    if error is not None:
        account.note.error("stream %s: deletions are not durable: %s", name, error)
        body = refusal("stream_msg_delete", ApiError(10057, err=str(error)), {})
    for counters in (account.api_counters, account.system.api):
        counters.total += len(replies)
        counters.errors += len(replies) if error is not None else 0
    for reply in replies:
        if reply:
            account.publish(reply, body)
