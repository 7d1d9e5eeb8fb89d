"""The meaning of what obstore raises, as one of the kinds of StoreError.

obstore has exceptions of its own for some answers, and for some requests only: a listing that is refused is
a GenericError, and S3's 409 for a write that another one got in the way of looks like an object that exists.
The status and the store's code, which stand in its text, decide then.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from headrace.objects.errors import (
    AccessRefused,
    KeyExists,
    KeyMissing,
    RequestRefused,
    StoreBusy,
    StoreError,
)

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>|\"reason\": ?\"(\w{1,64})\"")
_MESSAGE: Final = re.compile(r"<Message>([^<\n]{1,300})")
_NO_STORE: Final = {
    "NoSuchBucket": "there is no such bucket",
    "ContainerNotFound": "there is no such container",
    "ContainerBeingDeleted": "the container is being deleted",
}
"""Codes that say that the bucket itself is not there."""
_CONFLICTS: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""Codes of a 409 that leaves open whether the object exists."""
_CREDENTIALS: Final = frozenset({"ExpiredToken", "InvalidToken", "InvalidAccessKeyId"})
"""Codes about credentials, which S3 gives some of with status 400."""
_BUSY: Final = frozenset({"429", "503"})
_REFUSED: Final = frozenset({"401", "403"})
_CUT: Final = frozenset({"RequestTimeout", "IncompleteBody"})
"""Codes of a request that did not arrive whole; S3 gives them with status 400."""
_ELSEWHERE: Final = "redirect without LOCATION"
"""The words of obstore for a bucket that S3 has in another region."""
_REQUEST: Final = re.compile(r"Error performing \w+ (\w+://[^/\s]+)\S* in .*?  ?- (.+)")
"""The line of obstore for a request that failed: the store's address, and what went wrong."""
_CAUSE: Final = re.compile(r"(?:message|error): \"([^\"]+)\"|InvalidCertificate\(\s*(\w+)")
"""Why, as the lines behind it have it: of the system's error, or of a certificate."""
MOST_TEXT: Final = 200
"""Characters of what obstore says that are passed on: a line of a log."""
_TEXTS: Final = {KeyMissing: "it is not there", KeyExists: "it is there already"}


class _Answer(NamedTuple):
    """The words of a store: HTTP status and code, each "" where there is none, and all of the text."""

    status: str
    code: str
    text: str


def store_error(what: str, error: Exception, kinds: Any) -> StoreError:
    """Return the StoreError that an exception of obstore means; `what` could not be done.

    `kinds` is `obstore.exceptions`.
    """
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    answer = _Answer(status[1] if status else "", (code[1] or code[2]) if code else "", text)
    kind = _kind_by_code(answer) or _kind_by_exception(error, kinds) or _kind_by_status(answer)
    return kind(f"{what}: {_TEXTS.get(kind) or _NO_STORE.get(answer.code) or _reason(error, answer)}")


def first_line(error: Exception) -> str:
    """Return the first line of an exception's text, or what it is where it has none; a readable part of it.

    Of a request that failed: the store's address and the reason, without paths and how often it was tried.
    """
    line, _, rest = str(error).partition("\n")
    if (request := _REQUEST.search(line)) is not None:
        causes = [found[1] or found[2] for found in _CAUSE.finditer(rest)]
        line = f"{request[1]}: {request[2].strip()}" + (f" ({causes[-1]})" if causes else "")
    line = line or repr(error)
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"


def _kind_by_code(answer: _Answer) -> type[StoreError] | None:
    if answer.code in _NO_STORE:
        return RequestRefused
    if answer.status == "409" and answer.code in _CONFLICTS:
        return StoreBusy
    return AccessRefused if answer.code in _CREDENTIALS else None


def _kind_by_exception(error: Exception, kinds: Any) -> type[StoreError] | None:
    if isinstance(error, (kinds.NotFoundError, FileNotFoundError)):
        return KeyMissing
    if isinstance(error, (kinds.AlreadyExistsError, kinds.PreconditionError)):
        return KeyExists
    refusals = (kinds.PermissionDeniedError, kinds.UnauthenticatedError, PermissionError)
    return AccessRefused if isinstance(error, refusals) else None


def _kind_by_status(answer: _Answer) -> type[StoreError]:
    if answer.status in _REFUSED:
        return AccessRefused
    if answer.status in _BUSY:
        return StoreBusy
    is_final = answer.status.startswith("4") and answer.status != "408" and answer.code not in _CUT
    if is_final or answer.status == "501" or _ELSEWHERE in answer.text:
        return RequestRefused
    return StoreError


def _reason(error: Exception, answer: _Answer) -> str:
    """Return what the store said where it did: "403 AccessDenied (Access Denied)"."""
    if not answer.code or not answer.status:
        return first_line(error)
    message = found[1].strip() if (found := _MESSAGE.search(answer.text)) else ""
    return f"{answer.status} {answer.code}" + (f" ({message})" if message else "")
