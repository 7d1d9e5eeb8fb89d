"""Requests about streams: made, changed, listed, emptied, removed.

What a configuration may say is `stream.rules`'. Source: JetStream specification, 1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.jetstream.api import paging
from headrace.jetstream.api.contexts import stream_context
from headrace.jetstream.api.infos import stream_info
from headrace.jetstream.api.request import Endpoint
from headrace.jetstream.stream.rules import check_new_stream, check_stream_update
from headrace.protocol.jetstream import requests
from headrace.protocol.jetstream.errors import ApiError
from headrace.subjects.grammar import overlaps

if TYPE_CHECKING:
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.api.request import Request
    from headrace.jetstream.stream.stream import Stream

_MOST_SUBJECTS: Final = 100_000
"""Subjects with their numbers of messages, in one answer."""


def create(request: Request) -> None:
    account, name = request.account, request.names[0]
    if account.assets.after_removal(name, request.handle):
        return
    asked = requests.decode_stream(request.payload, strict=account.settings.strict)
    config = check_new_stream(asked.config, stream_context(account, name), pedantic=asked.pedantic)
    request.check_served(name)
    stream = account.streams.get(name)
    undo = None
    if stream is None:
        made = stream = account.assets.create_stream(config)
        undo = lambda: account.assets.discard_stream(made)  # noqa: E731
    fields = {**stream_info(stream, with_version=True), "did_create": True}
    request.answer_durably(fields, 10077, undo)


def update(request: Request) -> None:
    account, name = request.account, request.names[0]
    asked = requests.decode_stream(request.payload, strict=account.settings.strict)
    known = account.streams.get(name)
    context = stream_context(account, name)
    config = check_stream_update(
        None if known is None else known.config, asked.config, context, pedantic=asked.pedantic
    )
    stream = request.stream()
    account.assets.update_stream(stream, config)
    request.answer_durably(stream_info(stream, with_version=True, domain=True), 10069)


def info(request: Request) -> None:
    asked = request.decode(requests.StreamInfoRequest, optional=True)
    stream = request.stream()
    fields = stream_info(
        stream, with_version=True, domain=True, leader=True, deleted_details=asked.deleted_details
    )
    listed = dict(paging.EMPTY)
    if asked.subjects_filter:
        totals = stream.subject_totals(asked.subjects_filter)
        if totals:
            listed, part = paging.page(sorted(totals), asked.offset, _MOST_SUBJECTS)
            listed["offset"] = max(asked.offset, 0)
            if part:
                fields["state"]["subjects"] = {subject: totals[subject] for subject in part}
    request.answer_when_stored({**listed, **fields}, [stream])


def names(request: Request) -> None:
    asked = request.decode(requests.StreamNamesRequest, optional=True)
    found = [stream.name for stream in _matching(request.account, asked.subject)]
    fields, part = paging.page(found, asked.offset, paging.NAMES)
    request.answer({**fields, "streams": list(part) or None})


def details(request: Request) -> None:
    asked = request.decode(requests.StreamListRequest, optional=True)
    found = _matching(request.account, asked.subject)
    fields, part = paging.page(found, asked.offset, paging.DETAILS)
    fields["streams"] = [stream_info(stream, domain=True) for stream in part]
    broken = request.account.broken
    if broken:
        fields |= {"missing": sorted(broken), "offline": broken}
    request.answer_when_stored(fields, part)


def _matching(account: AccountJetStream, subject: str) -> list[Stream]:
    """Streams by name, those with a subject that messages of `subject` could have."""
    streams = sorted(account.streams.values(), key=lambda stream: stream.name)
    if not subject:
        return streams
    wanted = subject.encode()
    return [one for one in streams if any(overlaps(wanted, its.encode()) for its in one.config.subjects)]


def delete(request: Request) -> None:
    request.check_empty()

    def removed(error: Exception | None) -> None:
        if error is not None:
            raise ApiError(10050, err=str(error))
        request.answer({"success": True})

    name = request.names[0]
    done = partial(request.guarded, removed)
    if name in request.account.broken:
        request.account.assets.remove_broken(name, done)
    else:
        request.account.assets.remove_stream(request.stream(), done)


def purge(request: Request) -> None:
    asked = request.decode(requests.PurgeRequest, optional=True)
    if asked.seq > 0 and asked.keep > 0:
        raise ApiError(10003)
    stream = request.stream()
    purged = stream.removal.purge(asked.filter, up_to=asked.seq, keep=asked.keep)
    request.account.touch(stream)
    answer = {"success": True, "purged": purged}
    request.after_commit(stream.log, lambda: request.answer(answer), 10110)


ENDPOINTS: Final = {
    b"STREAM.CREATE": Endpoint("stream_create", create, 1, 1),
    b"STREAM.UPDATE": Endpoint("stream_update", update, 1, 1),
    b"STREAM.INFO": Endpoint("stream_info", info, 1, 1, paging.EMPTY),
    b"STREAM.NAMES": Endpoint("stream_names", names, on_error={**paging.EMPTY, "streams": None}),
    b"STREAM.LIST": Endpoint("stream_list", details, on_error={**paging.EMPTY, "streams": []}),
    b"STREAM.DELETE": Endpoint("stream_delete", delete, 1, 1),
    b"STREAM.PURGE": Endpoint("stream_purge", purge, 1, 1, {"purged": 0}),
}
