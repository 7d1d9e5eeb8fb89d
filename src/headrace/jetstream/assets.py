"""Making, changing and removing streams and consumers of an account, each with its entry in the journal.

Whether it may be done was judged before (`stream.rules`, `consumer.rules`); how an answer waits for the
commit is the API's. A log is durable with its first message: a stream that had none yet is its entry and
nothing else, and gets an empty log again after a power loss. The entry that a stream is gone is durable
before its log is removed: a crash at any point loses no message and brings none back.

Streams and consumers are much code: it is imported with the first one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from headrace.errors import LogError, StorageError
from headrace.jetstream.state.records import AccountState, consumer_record, stream_record
from headrace.protocol.jetstream.configs import Storage
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.consumer.ack_state import ConsumerState
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.stream.stream import Stream
    from headrace.log.port import MessageLog
    from headrace.log.store import LogStore
    from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig

    Done = Callable[[LogError | None], None]


class Assets:
    """The streams and consumers of an account, made, changed and removed."""

    def __init__(self, account: AccountJetStream) -> None:
        self._account = account
        self.next_identity = 1
        """The identity of the next consumer, for the journal: never the same twice."""
        self._removing: dict[str, list[Callable[[], object]]] = {}
        """Streams whose log is about to go, and what waits for that."""
        self.unreadable = AccountState()
        """Records of streams and consumers that cannot be read here: they are written back as they were."""

    @cached_property
    def _stream_class(self) -> type[Stream]:
        from headrace.jetstream.stream.stream import Stream

        return Stream

    @cached_property
    def _consumer_class(self) -> type[Consumer]:
        from headrace.jetstream.consumer.consumer import Consumer

        return Consumer

    # -- streams ---------------------------------------------------------------------------------------

    def open_log(self, config: StreamConfig) -> MessageLog:
        """Open the log of a stream. Raises: LogError."""
        from headrace.jetstream.stream.stream import log_limits

        return self._store(config.storage).open(self._log_name(config.name), log_limits(config))

    def create_stream(self, config: StreamConfig) -> Stream:
        """Create a stream. Raises: ApiError when its log cannot be made."""
        account = self._account
        try:
            log = self.open_log(config)
        except LogError as error:
            account.note.warning("stream %s > %s: %s", account.name, config.name, error)
            raise ApiError(10077, err="error creating store for stream") from error
        return self._enter_stream(config, log)

    def _enter_stream(self, config: StreamConfig, log: MessageLog) -> Stream:
        """A stream is there from now on."""
        account = self._account
        stream = self._stream_class(account, config, log, account.turns.now_ns())
        account.streams[config.name] = stream
        account.configs.put(config)
        self._record(stream)
        stream.start()
        account.quota.usage.measure(stream)
        account.advise(f"STREAM.CREATED.{config.name}", "stream_action", stream=config.name, action="create")
        if config.num_replicas > 1:
            self.tell_of_leader(stream)
        return stream

    def discard_stream(self, stream: Stream) -> None:
        """Remove a stream of this turn that could not be made durable, as if it had never been."""
        self.remove_stream(stream, lambda _error: None)

    def update_stream(self, stream: Stream, config: StreamConfig) -> None:
        """Change the configuration of a stream. Raises: ApiError, LogError."""
        stream.update(config)
        self._account.configs.put(config)
        self._record(stream)
        name = config.name
        self._account.advise(f"STREAM.UPDATED.{name}", "stream_action", stream=name, action="modify")

    def remove_stream(self, stream: Stream, done: Done) -> None:
        """End a stream and its consumers; `done` is called when its messages are gone too.

        What was published to it is answered before.
        """
        account = self._account
        for consumer in list(stream.consumers.values()):
            self._end_consumer(stream, consumer, "deleted")
        stream.remove()
        del account.streams[stream.name]
        account.configs.drop(stream.name)
        account.quota.usage.forget(stream)
        self._removing[stream.name] = []
        name = stream.name
        account.advise(f"STREAM.DELETED.{name}", "stream_action", stream=name, action="delete")
        if not _is_stored(stream):
            self._remove_log(name, Storage.MEMORY, None, done)
            return
        account.journal.stream_gone(name)
        account.journal.after_commit(lambda error: self._gone(stream, error, done))

    def remove_broken(self, name: str, done: Done) -> None:
        """Remove a stream that is stored and cannot be served."""
        account = self._account
        del account.broken[name]
        self.unreadable.drop_stream(name)
        self._removing[name] = []
        account.journal.stream_gone(name)
        account.journal.after_commit(lambda error: self._remove_log(name, Storage.FILE, error, done))

    def _gone(self, stream: Stream, error: LogError | None, done: Done) -> None:
        if error is not None:  # the snapshot that is due will say that it is gone
            self._account.note.error("stream %s: its removal is not written yet: %s", stream.name, error)
        # Publications under way are answered by commits that were asked for before this one.
        self._account.turns.commit(
            stream.log, lambda _error: self._remove_log(stream.name, Storage.FILE, error, done)
        )

    def _remove_log(self, name: str, storage: Storage, error: LogError | None, done: Done) -> None:
        try:
            self._store(storage).remove(self._log_name(name))
        except LogError as failure:
            error = failure
        else:
            if storage is Storage.FILE:
                self._account.journal.stream_emptied(name)
        waiting = self._removing.pop(name)
        done(error)
        for function in waiting:
            function()

    # -- streams that are restored ---------------------------------------------------------------------

    def begin_restore(self, config: StreamConfig) -> MessageLog:
        """An empty log for a stream that is to be; a crash before `finish_restore` removes it.

        Raises: LogError, also when there are messages that no stream has.
        """
        log = self.open_log(config)
        if log.state().last_sequence:
            raise StorageError("there are messages of an earlier stream of that name")
        self._removing[config.name] = []
        if config.storage is Storage.FILE:
            self._account.journal.stream_gone(config.name)
        return log

    def finish_restore(self, config: StreamConfig, log: MessageLog) -> Stream:
        """The stream is there with what its log has by now."""
        waiting = self._removing.pop(config.name)
        stream = self._enter_stream(config, log)
        for function in waiting:
            function()
        return stream

    def abandon_restore(self, config: StreamConfig) -> None:
        """Remove the parts of a stream whose restore was abandoned."""
        self._remove_log(config.name, config.storage, None, lambda _error: None)

    def after_removal(self, name: str, function: Callable[[], object]) -> bool:
        """True if a stream of that name is being removed; `function` is called once it is gone."""
        waiting = self._removing.get(name)
        if waiting is None:
            return False
        waiting.append(function)
        return True

    def _record(self, stream: Stream) -> None:
        if _is_stored(stream):
            self._account.journal.stream(stream_record(stream.config, stream.created_ns))

    def _store(self, storage: Storage) -> LogStore:
        system = self._account.system
        return system.memory if storage is Storage.MEMORY else system.file

    def _log_name(self, stream: str) -> bytes:
        return stream_log(self._account.name, stream)

    # -- consumers -------------------------------------------------------------------------------------

    def create_consumer(
        self, stream: Stream, config: ConsumerConfig, name: str, state: ConsumerState | None = None
    ) -> Consumer:
        """Create a consumer of a stream. `state`: how far it is, for one that is restored."""
        from headrace.jetstream.consumer.rules import replicas

        account = self._account
        consumer = self._consumer_class(stream, config, name, account.turns.now_ns(), state)
        self.enter(stream, consumer)
        try:
            consumer.start()
        except LogError:
            consumer.stop()
            self._leave(stream, consumer)
            raise
        self.record_consumer(consumer)  # with where it begins
        self._advise("CREATED", consumer, "create")
        if replicas(config, stream.config) > 1:
            self.tell_of_leader(stream, consumer)
        return consumer

    def enter(self, stream: Stream, consumer: Consumer, identity: int = 0) -> None:
        """A consumer is there from now on. `identity`: the one it had before a restart."""
        consumer.tracker.identity = identity or self.next_identity
        self.next_identity = max(self.next_identity, consumer.tracker.identity + 1)
        stream.add(consumer)
        self._account.cores.add(_path_of(consumer), consumer.tracker)

    def _leave(self, stream: Stream, consumer: Consumer) -> None:
        stream.drop(consumer)
        self._account.cores.discard(_path_of(consumer), consumer.tracker)

    def update_consumer(self, consumer: Consumer, config: ConsumerConfig) -> None:
        """Change the configuration of a consumer. Raises: ApiError."""
        consumer.update(config)
        self.record_consumer(consumer)

    def record_consumer(self, consumer: Consumer) -> None:
        """Its configuration and its whole state."""
        if consumer.tracker.is_stored:
            consumer.tracker.forget_changes()
            record = consumer_record(
                consumer.tracker.identity,
                consumer.stream.name,
                consumer.name,
                consumer.config,
                consumer.created_ns,
            )
            record.state = consumer.state
            self._account.journal.consumer(record)

    def remove_consumer(self, consumer: Consumer, reason: str = "deleted") -> None:
        """Remove a consumer for good; clients that wait for its messages are told.

        One that is gone already is passed over.
        """
        stream = self._account.streams.get(consumer.stream.name)
        if stream is None or stream.consumers.get(consumer.name) is not consumer:
            return
        self._end_consumer(stream, consumer, reason)
        if consumer.tracker.is_stored:
            self._account.journal.consumer_gone(consumer.tracker.identity)

    def _end_consumer(self, stream: Stream, consumer: Consumer, reason: str) -> None:
        consumer.stop(reason)
        self._leave(stream, consumer)
        self._advise("DELETED", consumer, "delete")

    def _advise(self, what: str, consumer: Consumer, action: str) -> None:
        if consumer.config.direct:
            return
        stream, name = consumer.stream.name, consumer.name
        self._account.advise(
            f"CONSUMER.{what}.{stream}.{name}", "consumer_action", stream=stream, consumer=name, action=action
        )

    def tell_of_leader(self, stream: Stream, consumer: Consumer | None = None) -> None:
        """Send the advisory that this server leads a stream, or a consumer of it; none where no other can."""
        account = self._account
        if account.settings.leadership is None:
            return
        from headrace.jetstream.leadership import election  # most servers are the only one

        fields = election(account.settings.leadership())
        if consumer is None:
            name, kind = f"STREAM.LEADER_ELECTED.{stream.name}", "stream_leader_elected"
            names = {"stream": stream.name}
        elif consumer.config.direct:
            return
        else:
            name = f"CONSUMER.LEADER_ELECTED.{stream.name}.{consumer.name}"
            kind = "consumer_leader_elected"
            names = {"stream": stream.name, "consumer": consumer.name}
        account.advise(name, kind, **names, **fields)
        account.system.advise(name, kind, account=account.name, **names, **fields)

    # -- the whole -------------------------------------------------------------------------------------

    def gather(self) -> AccountState:
        """Return the state of all streams and consumers, for a snapshot of the journal."""
        unreadable = self.unreadable
        state = AccountState(dict(unreadable.streams), dict(unreadable.consumers), set(self._removing))
        for stream in self._account.streams.values():
            if _is_stored(stream):
                state.streams[stream.name] = stream_record(stream.config, stream.created_ns)
                state.positions[stream.name] = stream.sourcing.records()
            for consumer in stream.consumers.values():
                if consumer.tracker.is_stored:
                    state.consumers[consumer.tracker.identity] = record = consumer_record(
                        consumer.tracker.identity,
                        stream.name,
                        consumer.name,
                        consumer.config,
                        consumer.created_ns,
                    )
                    record.state = consumer.state
        state.positions |= unreadable.positions
        return state


def _path_of(consumer: Consumer) -> bytes:
    """Return the path of a consumer as subjects name it: `<stream>.<consumer>`."""
    return f"{consumer.stream.name}.{consumer.name}".encode()


def stream_log(account: str, stream: str) -> bytes:
    """The name of a stream's log in the stores of a server."""
    return f"{account}/streams/{stream}".encode()


def is_state_log(name: bytes) -> bool:
    """True if a log is the state of an account."""
    return name.endswith(b"/state") and b"/streams/" not in name


def log_shown(name: bytes) -> str:
    """Return the name of a log for the server's log lines."""
    account, _, stream = name.decode("utf-8", "backslashreplace").rpartition("/streams/")
    if account:
        return f"stream '{account} > {stream}'"
    return f"the streams and consumers of account '{stream.removesuffix('/state')}'"


def state_log(account: str) -> bytes:
    return f"{account}/state".encode()


def _is_stored(stream: Stream) -> bool:
    return stream.config.storage is Storage.FILE
