"""The consumers of one stream: what each is, and how far.

    obs/NAME/{meta.inf, meta.sum, meta.key, o.dat}

Source: nats-server 2.15 (jetstream.go, filestore.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.importing.findings import Finding, Severity
from headrace.jetstream.consumer.rules import ConsumerContext, complete
from headrace.jetstream.importing.block_files import read_file
from headrace.jetstream.importing.consumer_state import read_consumer_state
from headrace.jetstream.importing.crypt import WrongKey
from headrace.jetstream.importing.metadata import BadMetadata, Owner, read_metadata
from headrace.jetstream.importing.model import SourceConsumer
from headrace.jetstream.importing.raft_consumers import replayed
from headrace.jetstream.importing.stream_index import BadIndex
from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.jetstream.consumer.ack_state import ConsumerState
    from headrace.jetstream.importing.crypt import Keys, Opened
    from headrace.jetstream.importing.raft_log import RaftLogs

CONSUMERS: Final = "obs"
_STATE: Final = "o.dat"


class ConsumerFiles:
    """The consumers of one stream, as files; `findings` gets their faults."""

    def __init__(
        self, account: str, stream: StreamConfig, keys: Keys, raft: RaftLogs, findings: list[Finding]
    ) -> None:
        self._account = account
        self._stream = stream
        self._keys = keys
        self._raft = raft
        self._findings = findings

    def read(self, directory: Path, shown: str) -> SourceConsumer | None:
        """Read a consumer; None when its configuration cannot be known. Raises: SourceUnusable."""
        name = directory.name
        owner = Owner(self._account, f"{self._stream.name}.{name}", f"{self._stream.name}/{name}")
        try:
            found = read_metadata(directory, ConsumerConfig, owner, self._keys)
            config = self._judged(found.config, name)
        except BadMetadata as error:
            text = f"{error}; this consumer is left out"
            self._findings.append(Finding(Severity.DAMAGED, f"{shown}/{error.file}", text))
            return None
        self._findings += (Finding(kind, f"{shown}/meta.inf", text) for kind, text in found.notes)
        state = self._state(directory / _STATE, f"{shown}/{_STATE}", found.opened)
        group = self._raft.group(self._account, self._stream.name, name)
        if group is not None:
            state = replayed(self._raft, group, config, state, self._findings)
        return SourceConsumer(name, config, found.created_ns, state)

    def _judged(self, config: ConsumerConfig, name: str) -> ConsumerConfig:
        """Return the configuration, judged as nats-server does at its start. Raises: BadMetadata."""
        said = config.durable_name or config.name or name
        if said != name:
            raise BadMetadata(f"it is of another consumer, {said!r}")
        try:
            return replace(
                complete(replace(config, name=name), ConsumerContext(self._stream)), name=config.name
            )
        except ApiError as error:
            raise BadMetadata(f"nats-server would not serve it: {error}") from error

    def _state(self, path: Path, shown: str, opened: Opened | None) -> ConsumerState | None:
        if not path.is_file():
            return None
        data = read_file(path)
        if not data:
            return None
        try:
            return read_consumer_state(opened.unseal(data) if opened is not None else data)
        except (BadIndex, WrongKey) as error:
            text = f"{error}; this consumer begins anew, as its configuration says"
            self._findings.append(Finding(Severity.DAMAGED, shown, text, 0, len(data)))
            return None
