"""Extensions of streams beyond the Go server: entries of their metadata, so other clients keep working.

`headrace.require_msg_id`: with `true`, a stream takes no publication without a `Nats-Msg-Id`. Never here:
what that comes to (`checks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.protocol.jetstream.errors import invalid

if TYPE_CHECKING:
    from headrace.protocol.jetstream.configs import StreamConfig

PREFIX: Final = "headrace."
REQUIRE_ID: Final = PREFIX + "require_msg_id"


def requires_id(config: StreamConfig) -> bool:
    """True if a stream takes no publication without an id."""
    return config.metadata.get(REQUIRE_ID) == "true"


def check_extensions(config: StreamConfig) -> None:
    """Check the extensions in a configuration's metadata.

    Raises: ApiError 10052 for an unknown entry, or a bad value.
    """
    for key, value in config.metadata.items():
        if not key.startswith(PREFIX):
            continue
        if key != REQUIRE_ID:
            raise invalid(f"metadata {key}: unknown")
        if value not in ("true", "false"):
            raise invalid(f"metadata {key}: true or false is needed")
