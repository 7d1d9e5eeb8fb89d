"""The sink ledger: where in its stream a batch of a query began, for exactly-once beyond the duplicate
window.

Before anything of a batch is published a record in a KV bucket says what the stream's last sequence is.
Whoever writes the batch again finds the record, and looks behind that sequence for what is stored already.
So the search has an exact beginning, however long ago that was, and is made only for a batch written again.
Keys: `<query>.<hash of the stream's name>`, and `.p<partition>` behind it once a task has begun. A new batch
replaces the records of the one before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from headrace.client.errors import JetStreamError
from headrace.client.jetstream_api import STREAM_EXISTS, STREAM_NOT_FOUND, WRONG_LAST_SEQUENCE
from headrace.spark.errors import SinkError

if TYPE_CHECKING:
    from headrace.client.jetstream_api import JetStreamApi, StreamFacts
    from headrace.spark.sink_rows import RowsIdentity

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch that was begun before, in this run of the query or an earlier one."""

    last_sequence: int
    """The stream's last one before the batch; all of it is stored behind that."""
    at_ns: int


class BatchLedger:
    """The records of one bucket. Raises: ClientError."""

    def __init__(self, api: JetStreamApi, bucket: str) -> None:
        self._api = api
        self._bucket = bucket

    def begin(self, facts: StreamFacts, rows: RowsIdentity, token: str, attempt: str) -> Begun | None:
        """Note that a task begins; what was noted before if some of its rows may be stored already.

        `token` is the same for all tasks of one run, `attempt` is this one's alone.
        Raises: SinkError if a later batch was begun before.
        """
        record = {"v": _VERSION, "stream": facts.name, "created": facts.created_ns, "batch": rows.batch}
        batch, is_ours = self._begin_batch(_key(facts, rows), record, facts, token)
        mark = _mark(facts, rows)
        mine = record | {"token": token}
        seen = self._last(mark, facts.replicas)
        self._api.put(self._subject(mark), json.dumps(mine | {"attempt": attempt}).encode())
        if is_ours and (seen is None or mine.items() - seen[1].items()):
            return None
        return batch

    def holds(self, facts: StreamFacts, rows: RowsIdentity, attempt: str) -> bool:
        """True if no other attempt of the task has begun since this one did."""
        seen = self._last(_mark(facts, rows), facts.replicas)
        return seen is not None and seen[1].get("attempt") == attempt

    def forget(self, write: str) -> None:
        """Remove the records of a query or write."""
        request = {"filter": self._subject(f"{write}.>")}
        try:
            self._api.ask(f"STREAM.PURGE.KV_{self._bucket}", request)
        except JetStreamError as error:
            if error.err_code != STREAM_NOT_FOUND:  # else no task has begun
                raise

    def _begin_batch(
        self, key: str, record: dict[str, Any], facts: StreamFacts, token: str
    ) -> tuple[Begun | None, bool]:
        """Read or write the record of the batch; return it, and True if this run wrote it."""
        while True:
            seen = self._last(key, facts.replicas)
            if seen is not None and seen[1].get("created") == record["created"]:
                batch = int(seen[1]["batch"])
                if batch > record["batch"]:
                    raise SinkError(
                        f"batch {record['batch']} is to be written into stream {record['stream']}, and batch "
                        f"{batch} of the same query was begun before: the checkpoint is older than the "
                        "stream, or two runs share it; start with a new checkpointLocation"
                    )
                if batch == record["batch"]:
                    return Begun(int(seen[1]["last"]), seen[2]), seen[1]["token"] == token
            body = json.dumps(record | {"token": token, "last": facts.last_sequence}).encode()
            try:
                self._api.put(self._subject(key), body, after=seen[0] if seen is not None else 0)
                return None, True
            except JetStreamError as error:
                if error.err_code not in WRONG_LAST_SEQUENCE:  # else another task was first
                    raise

    def _last(self, key: str, replicas: int) -> tuple[int, dict[str, Any], int] | None:
        while True:
            try:
                found = self._api.last_of(f"KV_{self._bucket}", self._subject(key))
            except JetStreamError as error:
                if error.err_code != STREAM_NOT_FOUND:
                    raise
                self._create(replicas)
                continue
            if found is None:
                return None
            sequence, body, at = found
            try:
                record = json.loads(body)
                if record["v"] != _VERSION:
                    raise ValueError(f"version {record['v']}")
            except (KeyError, TypeError, ValueError) as error:
                raise SinkError(f"bucket {self._bucket}, key {key}: not a record of ours: {error}") from error
            return sequence, record, at

    def _create(self, replicas: int) -> None:
        config = {
            "name": f"KV_{self._bucket}",
            "description": "Where batches of Spark queries began (Headrace)",
            "subjects": [f"$KV.{self._bucket}.>"],
            "storage": "file",
            "num_replicas": replicas,
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
        }
        try:
            self._api.ask(f"STREAM.CREATE.KV_{self._bucket}", config)
        except JetStreamError as error:
            if error.err_code != STREAM_EXISTS:  # else another task was first, with another stream's replicas
                raise

    def _subject(self, key: str) -> str:
        return f"$KV.{self._bucket}.{key}"


def _key(facts: StreamFacts, rows: RowsIdentity) -> str:
    return f"{rows.write}.{blake2b(facts.name.encode(), digest_size=6).hexdigest()}"


def _mark(facts: StreamFacts, rows: RowsIdentity) -> str:
    return f"{_key(facts, rows)}.p{rows.partition}"
