"""Requests to the system account that bring, ask for and delete the tokens of accounts.

Here live the subjects and the answers. Never lives here: tokens (`resolver`), what a new one does to accounts
and their clients (`operator_mode`). Requests are done one after the other, as they came.

A full directory answers for all accounts, a caching one keeps only what somebody here needed; with other
resolvers a token holds until the server ends. A full directory also compares itself with those of others
every `interval`. Bounds: `MOST_WAITING` requests wait. Source: nats-server 2.15.1.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from typing import TYPE_CHECKING, Final

from headrace.core.grants import Refused
from headrace.internal_errors import INTERNAL_ERROR
from headrace.protocol.jwt import rules
from headrace.protocol.jwt.decoding import JWTError, decode_account, decode_deletion
from headrace.protocol.nkeys import KeyKind
from headrace.server.resolver import MISSING, ResolverError
from headrace.server.resolver_directory import DirectoryResolver
from headrace.server.services import ServiceHost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from headrace.core.service import Delivery, Host, Timer
    from headrace.engine.batches import Gathered
    from headrace.protocol.jwt.claims import AccountClaims, DeletionClaims
    from headrace.server.operator_mode import OperatorMode
    from headrace.server.port import AccountsHost

MOST_WAITING: Final = 1024
"""Requests that wait for their turn; one more is not heard."""

_LOOKUP: Final = "$SYS.REQ.ACCOUNT.%s.CLAIMS.LOOKUP"
_PACK: Final = b"$SYS.REQ.CLAIMS.PACK"
_UPDATES: Final = {b"$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE": 3, b"$SYS.ACCOUNT.*.CLAIMS.UPDATE": 2}
"""The token of the subject that names the account; the second form is of older tools."""

_OK, _FAILED = 200, 500


class ClaimsService:
    """A `core.service.Service` in the system account of a server in operator mode.

    `describe` gives what answers say of the server.
    """

    def __init__(
        self, server: AccountsHost, operator: OperatorMode, describe: Callable[[], dict[str, Any]]
    ) -> None:
        self._server = server
        self._operator = operator
        self._describe = describe
        resolver = operator.resolver
        self._store = resolver if isinstance(resolver, DirectoryResolver) else None
        self._is_full = self._store is not None and self._store.kind == "full"
        # The Go server's words name the caching directory.
        self._what = "jwt update" if self._store is None or self._is_full else "jwt update cache"
        self._done = "jwt updated" if self._store is None or self._is_full else "jwt updated cache"
        self._inbox = f"$SYS._INBOX.{secrets.token_hex(12)}.".encode()
        self._asked: dict[bytes, asyncio.Future[bytes]] = {}
        self._takers: dict[int, Callable[[Delivery], Coroutine[Any, Any, None]]] = {}
        self._waiting: deque[Delivery] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._host = ServiceHost(
            self,
            server.router,
            server.accounts[server.accounts.system or ""],
            loop=server.loop,
            wake=server.ticks.wake,
            log=server.log,
            max_payload=server.options.max_payload,
        )
        self._host.start()

    def close(self) -> None:
        self._host.stop()
        self._host.close()

    # -- core.service.Service ---------------------------------------------------------------------

    def start(self, host: Host) -> None:
        for subject, place in _UPDATES.items():
            self._takers[host.subscribe(subject)] = self._update_of(place)
        self._replies = host.subscribe(self._inbox + b"*")
        if self._store is None:
            return
        self._operator.ask_others = self._ask
        takers = {b"UPDATE": self._update_any, b"LIST": self._list, b"DELETE": self._delete}
        for name, taker in takers.items():
            self._takers[host.subscribe(b"$SYS.REQ.CLAIMS." + name)] = taker
        if self._is_full:
            self._takers[host.subscribe((_LOOKUP % "*").encode())] = self._look_up
            self._takers[host.subscribe(_PACK, b"responder")] = self._give_pack
            self._compare_later(host)

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        for request in batch:
            assert isinstance(request, tuple), "nothing was asked to be gathered"
            if request.sid == self._replies and request.subject in self._asked:
                answer = self._asked[request.subject]
                if not answer.done():
                    answer.set_result(request.payload)
            elif len(self._waiting) >= MOST_WAITING:
                self._server.log.error("DirResolver - too many requests wait, one is not heard")
            else:
                self._waiting.append(request)
        if self._waiting and self._worker is None:
            self._worker = self._server.tasks.run(self._work())

    def stop(self) -> None:
        self._waiting.clear()
        for answer in self._asked.values():
            answer.cancel()

    async def _work(self) -> None:
        try:
            while self._waiting:
                request = self._waiting.popleft()
                try:
                    await self._takers.get(request.sid, self._merge)(request)
                except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
                    self._mistaken(error, request)
        finally:
            self._worker = None

    def _mistaken(self, error: Exception, request: Delivery) -> None:
        """Log a mistake of ours in one line, and answer the request with an error.

        The answer is made here: the functions that make others may be those that failed.
        """
        self._host.failed(error, request.subject.decode("utf-8", "replace"))
        if request.reply:
            refusal = {"error": {"code": _FAILED, "description": INTERNAL_ERROR}}
            self._host.publish(request.reply, json.dumps(refusal, separators=(",", ":")).encode())

    # -- new tokens -------------------------------------------------------------------------------

    def _update_of(self, place: int) -> Callable[[Delivery], Coroutine[Any, Any, None]]:
        async def update(request: Delivery) -> None:
            await self._update(request, request.subject.split(b".")[place].decode(errors="replace"))

        return update

    async def _update_any(self, request: Delivery) -> None:
        await self._update(request, None)

    async def _update(self, request: Delivery, key: str | None) -> None:
        """Store the token of an account that a request brings.

        `key`: the account that the subject names, if it names one.
        """
        if not request.payload and key is not None and self._store is None:
            self._answer(request.reply, key, "jwt update error", "request body is empty")
            return
        try:
            token = request.payload.decode("ascii")
            claims = decode_account(token)
        except (UnicodeDecodeError, JWTError) as error:
            reason = str(error) if isinstance(error, JWTError) else "the token is no text"
            named = "n/a" if key is None or self._is_full else key
            self._answer(request.reply, named, f"{self._what} resulted in error", reason)
            return
        message, reason = await self._taken(claims, token, key)
        self._answer(request.reply, claims.subject if key is None else key, message, reason)

    async def _taken(self, claims: AccountClaims, token: str, key: str | None) -> tuple[str, str]:
        """Take a token: the text of the answer, and why the token is not kept, "" if it is."""
        failed = f"{self._what} resulted in error"
        if key is not None and claims.subject != key:
            return failed, "subject does not match jwt content"
        if self._store is not None and self._needs_signing_key(claims):
            return failed, "operator requires issuer to be a signing key"
        if not self._is_full and not self._operator.is_known(claims.subject):
            return f"{self._what} skipped", ""
        if self._store is not None and (issues := rules.account_issues(claims, None)):
            failed = "jwt validation failed" if self._is_full else f"{self._what} validation failed"
            return failed, f"validation errors: {issues[0]}"
        try:
            if self._store is not None:
                self._operator.trust.account(claims.subject, token)
                await self._store.replace(claims.subject, token)
            if self._operator.is_known(claims.subject):
                await self._operator.change(claims.subject, token)
        except (Refused, ResolverError) as error:
            return failed, str(error).removeprefix("Account JWT lookup error: ")
        return self._done, ""

    def _needs_signing_key(self, claims: AccountClaims) -> bool:
        operators = self._operator.options.operators
        return bool(operators) and operators[0].strict_signing_keys and claims.issuer == operators[0].subject

    # -- tokens that are here ---------------------------------------------------------------------

    async def _look_up(self, request: Delivery) -> None:
        assert self._store is not None
        if not request.reply or request.reply.startswith(self._inbox):
            return
        key = request.subject.split(b".")[3].decode(errors="replace")
        try:
            token = await self._store.fetch(key)
        except ResolverError as error:
            if str(error) != MISSING:
                self._server.log.error("DirResolver - Error looking up account %r: %s", key, error)
            token = ""
        self._host.publish(request.reply, token.encode())

    async def _list(self, request: Delivery) -> None:
        assert self._store is not None
        if request.reply:
            accounts = sorted(self._store.directory.accounts())
            self._send(request.reply, {"server": self._describe(), "data": accounts})

    async def _give_pack(self, request: Delivery) -> None:
        """Send all tokens, one message each, and an empty one; who has the same gets that only."""
        assert self._store is not None
        if not request.reply or request.reply.startswith(self._inbox):
            return
        try:
            differs = request.payload != await self._store.digest()
            tokens = await self._store.pack() if differs else {}
        except ResolverError as error:
            self._server.log.error("DirResolver - Pack request error: %s", error)
            return
        for account in sorted(tokens):
            self._host.publish(request.reply, f"{account}|{tokens[account]}".encode())
        self._host.publish(request.reply, b"")

    # -- deletion ---------------------------------------------------------------------------------

    async def _delete(self, request: Delivery) -> None:
        assert self._store is not None
        subject = ""
        try:
            claims = decode_deletion(request.payload.decode("ascii"))
            subject = claims.subject
            accounts = self._deletable(claims)
        except (JWTError, UnicodeDecodeError, ResolverError) as error:
            reason = str(error) if not isinstance(error, UnicodeDecodeError) else "the token is no text"
            self._answer(request.reply, "", f"delete accounts request by {subject} failed", reason)
            return
        troubles = []
        for account in accounts:
            try:
                await self._store.delete(account)
            except ResolverError as error:
                troubles.append(str(error))
            else:
                self._operator.forget((account,))
        message = f"deleted {len(accounts) - len(troubles)} accounts"
        failed = f", failed for {len(troubles)}" if troubles else ""
        self._answer(request.reply, "", message + failed, "\n".join(troubles))

    def _deletable(self, claims: DeletionClaims) -> tuple[str, ...]:
        """Return the accounts that a request wants deleted.

        Raises: ResolverError for a request that is not to be followed; none is deleted then.
        """
        operators = self._operator.options.operators
        own = {*operators[0].signing_keys} if operators else set()
        if operators and not operators[0].strict_signing_keys:
            own.add(operators[0].subject)
        if self._store is None or not self._store.may_delete:
            raise ResolverError("delete must be enabled in server config")
        if claims.subject != claims.issuer:
            raise ResolverError("not self signed")
        if claims.issuer not in own:
            raise ResolverError("not trusted")
        if claims.accounts is None or not all(rules.is_key(key, KeyKind.ACCOUNT) for key in claims.accounts):
            raise ResolverError("malformed request")
        if self._server.accounts.system in claims.accounts:
            raise ResolverError("not allowed to delete system account")
        return tuple(dict.fromkeys(claims.accounts))

    # -- other servers ----------------------------------------------------------------------------

    async def _ask(self, key: str) -> str:
        """Ask the other servers for the token of an account. Raises: Refused."""
        assert self._store is not None
        subject = (_LOOKUP % key).encode()
        # A full directory hears its own question: without other servers there is nobody else to ask.
        if self._is_full or self._host.backlog(subject) is None:
            raise Refused("Account JWT lookup error: account jwt not found")
        reply = self._inbox + secrets.token_hex(12).encode()
        answer = self._asked[reply] = asyncio.get_running_loop().create_future()
        try:
            self._host.publish(subject, b"", reply=reply)
            async with asyncio.timeout(self._store.patience):
                payload: bytes = await answer
            token = payload.decode("ascii")
            if token:
                self._operator.trust.account(key, token)
                await self._store.store(key, token)
        except TimeoutError:
            raise Refused("Account JWT lookup error: fetching jwt timed out") from None
        except (UnicodeDecodeError, ResolverError) as error:
            raise Refused(f"Account JWT lookup error: {type(error).__name__}") from None
        finally:
            del self._asked[reply]
        if not token:
            raise Refused("Account JWT lookup error: account jwt not found")
        return token

    def _compare_later(self, host: Host) -> None:
        assert self._store is not None
        self._timer = host.call_later(self._store.interval, self._compare)

    def _compare(self) -> None:
        self._server.tasks.run(self._ask_for_packs())
        self._compare_later(self._host)

    async def _ask_for_packs(self) -> None:
        assert self._store is not None
        try:
            self._host.publish(_PACK, await self._store.digest(), reply=self._inbox + b"pack")
        except ResolverError as error:
            self._server.log.error("DirResolver - Checking store state: %s", error)
        except Exception as error:  # noqa: BLE001 - whatever it is: the next comparison is not far
            self._host.failed(error, _PACK.decode())

    async def _merge(self, request: Delivery) -> None:
        """Tokens of another server; those that are newer are kept."""
        if request.subject != self._inbox + b"pack" or self._store is None or not request.payload:
            return
        for line in request.payload.decode("ascii", "replace").splitlines():
            account, bar, token = line.partition("|")
            try:
                if not bar:
                    raise ResolverError("line in package didn't contain 2 entries")
                self._operator.trust.account(account, token)
                if await self._store.store(account, token) and self._operator.is_known(account):
                    await self._operator.change(account, token)
            except (Refused, ResolverError) as error:
                self._server.log.error("DirResolver - Merging resulted in error: %s", error)
                return

    # -- answers ----------------------------------------------------------------------------------

    def _answer(self, reply: bytes, account: str, message: str, reason: str) -> None:
        named = f"{message} - {account}" if account else message
        if reason:
            self._server.log.error("%s - %s", named, reason)
        else:
            self._server.log.debug("%s", named)
        if not reply:
            return
        about = {"account": account} if account else {}
        if reason:
            error = {**about, "code": _FAILED, "description": f"{message} - {reason}"}
            self._send(reply, {"server": self._describe(), "error": error})
        else:
            self._send(
                reply,
                {"server": self._describe(), "data": {**about, "code": _OK, "message": message}},
            )

    def _send(self, reply: bytes, document: dict[str, Any]) -> None:
        self._host.publish(reply, json.dumps(document, separators=(",", ":")).encode())
