"""Extensions of consumers beyond the Go server: entries of their metadata, so other clients keep working.

`headrace.max_ack_pending_per_subject`: how many messages of one subject may be unacknowledged at a time.
`headrace.order_token`: the token, from 1, that counts in place of the whole subject.
`headrace.dead_letter_subject`: where messages go that are given up. Never here: what that comes to
(`keyed_order`, `dead_letters`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.protocol.jetstream.configs import AckPolicy, DeliverPolicy
from headrace.protocol.jetstream.errors import ApiError
from headrace.subjects.grammar import is_valid_literal, is_valid_subject, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.protocol.jetstream.configs import ConsumerConfig

PREFIX: Final = "headrace."
PER_SUBJECT: Final = PREFIX + "max_ack_pending_per_subject"
ORDER_TOKEN: Final = PREFIX + "order_token"
DEAD_LETTERS: Final = PREFIX + "dead_letter_subject"
_MOST: Final = 65_535


class Extensions(NamedTuple):
    """The extensions that a consumer's metadata asks for.

    `per_subject` 0: no such limit. `token` 0: the whole subject counts. `dead_letters` empty: none.
    """

    per_subject: int = 0
    token: int = 0
    dead_letters: str = ""


_NONE: Final = Extensions()


def _refused(key: str, reason: str) -> ApiError:
    return ApiError(10094, err=f"metadata {key}: {reason}")


def _number(config: ConsumerConfig, key: str) -> int:
    text = config.metadata.get(key)
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= _MOST and len(text) < 6):
        raise _refused(key, f"a number from 1 to {_MOST} is needed")
    return int(text)


def extensions_of(config: ConsumerConfig) -> Extensions:
    """Return the extensions that a configuration's metadata asks for.

    Raises: ApiError for a value that cannot be.
    """
    own = [key for key in config.metadata if key.startswith(PREFIX)]
    if not own:
        return _NONE
    for key in own:
        if key not in (PER_SUBJECT, ORDER_TOKEN, DEAD_LETTERS):
            raise _refused(key, "unknown")
    found = Extensions(
        _number(config, PER_SUBJECT), _number(config, ORDER_TOKEN), config.metadata.get(DEAD_LETTERS, "")
    )
    if found.token and not found.per_subject:
        raise _refused(ORDER_TOKEN, f"{PER_SUBJECT} is needed too")
    if found.per_subject:
        if config.ack_policy is not AckPolicy.EXPLICIT:
            raise _refused(PER_SUBJECT, "ack policy explicit is needed")
        if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
            raise _refused(PER_SUBJECT, "not with deliver policy last_per_subject")
    if DEAD_LETTERS in config.metadata:
        subject = found.dead_letters.encode()
        if not is_valid_subject(subject) or not is_valid_literal(subject) or subject.startswith(b"$"):
            raise _refused(DEAD_LETTERS, "a subject without wildcards that does not begin with $ is needed")
        if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.ALL):
            raise _refused(DEAD_LETTERS, "ack policy explicit or all is needed")
    return found


def check_extensions(config: ConsumerConfig, stream_subjects: Iterable[str]) -> None:
    """Check the extensions of a consumer of a stream with these subjects. Raises: ApiError."""
    found = extensions_of(config)
    if found.dead_letters:
        wanted = config.filter_subjects or [config.filter_subject or ">"]
        subject = found.dead_letters.encode()
        mine = any(matches(pattern.encode(), subject) for pattern in stream_subjects)
        if mine and any(matches(pattern.encode(), subject) for pattern in wanted):
            raise _refused(DEAD_LETTERS, "the consumer would get its own dead letters")
