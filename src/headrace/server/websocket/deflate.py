"""permessage-deflate (RFC 7692) as this server offers it: no context kept, small messages left as they are.

Here lives the negotiation and which messages are compressed. Never lives here: the compression itself, and
the bound on what a message inflates to; both are the library's.
Source: parameters and threshold of the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websockets.extensions import Extension
    from websockets.frames import Frame
    from websockets.typing import ExtensionParameter

THRESHOLD: Final = 64
"""Bytes of a message up to which it is not worth compressing."""

_SETTINGS: Final = {"level": 1}  # the fastest


class LargeMessagesDeflate(PerMessageDeflate):
    """Compresses messages above THRESHOLD."""

    def encode(self, frame: Frame) -> Frame:
        return frame if len(frame.data) <= THRESHOLD else super().encode(frame)


class DeflateFactory(ServerPerMessageDeflateFactory):
    """Accepts every offer, and asks both sides to begin each message anew."""

    def __init__(self) -> None:
        super().__init__(
            server_no_context_takeover=True, client_no_context_takeover=True, compress_settings=_SETTINGS
        )

    def process_request_params(
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], PerMessageDeflate]:
        accepted, extension = super().process_request_params(params, accepted_extensions)
        return accepted, LargeMessagesDeflate(
            extension.remote_no_context_takeover,
            extension.local_no_context_takeover,
            extension.remote_max_window_bits,
            extension.local_max_window_bits,
            extension.compress_settings,
        )
