"""The exceptions of the client, one class for each thing that a caller can do about them.

Only exception classes live here. A text of the server is carried word for word in `ServerError.text`.
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class ClientError(HeadraceError):
    """Root of the errors of `headrace.client`."""


class AddressError(ClientError, ValueError):
    """A server URL that cannot be understood; the text says which part."""


class CredentialsError(ClientError, ValueError):
    """A credentials file, a seed or a context that cannot be used; the text never shows a secret."""


class ContextMissingError(CredentialsError):
    """A context of this name is not there."""


class TLSFileError(ClientError):
    """A file of certificates, or the key of one, that cannot be used; `path` is the file."""

    def __init__(self, path: str, error: OSError | ValueError) -> None:
        super().__init__(f"{path}: {getattr(error, 'strerror', None) or error}")
        self.path = path


class ConnectError(ClientError):
    """No server could be reached, or it is not a NATS server, or TLS could not be agreed on."""


class ConnectionLostError(ClientError):
    """The connection ended without the client asking for it; nothing is re-sent or re-subscribed."""


class ClientTimeoutError(ClientError, TimeoutError):
    """The server did not answer in time; the connection itself may still be usable."""


class ServerError(ClientError):
    """The server said `-ERR`; `text` is what stood between the quotes, `fatal` whether it closes after it."""

    def __init__(self, text: str, *, fatal: bool) -> None:
        self.text = text
        self.fatal = fatal
        super().__init__(f"the server says: {text}")


class MaxPayloadError(ClientError, ValueError):
    """A message longer than the server's max_payload; it was not sent."""


class NoRespondersError(ClientError):
    """A request to a subject without subscribers (status 503)."""


class StreamingRefusedError(ClientError):
    """A streaming server said no; `code` is as in HTTP: 400 a bad request, 404 not there, 500 its storage."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class PublishRefusedError(ClientError):
    """A server answered a publish with no, for good: the text is its own, word for word."""


class JetStreamError(ClientError):
    """JetStream said no; `code` is as in HTTP, `err_code` the server's number for the reason (0: none)."""

    def __init__(self, code: int, err_code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.err_code = err_code


class JetStreamMissingError(JetStreamError):
    """A stream, consumer, message, bucket, key or object that JetStream was asked for is not there."""


class JetStreamExistsError(JetStreamError):
    """A thing of that name is there already, has other settings, or is not at the expected sequence."""


class ReadInterruptedError(ClientError):
    """Reading a stream was broken off by the server: its consumer was removed, or messages are missing."""
