"""Where account tokens come from: memory, HTTP, directories."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from harness.claims import ACCOUNT_KEY, ISSUED_AT, account_token, user_token
from harness.keys import ACCOUNT, key_pair
from headrace.conf.operator_options import OperatorOptions, ResolverOptions, ResolverTLSOptions
from headrace.errors import StartError
from headrace.protocol.jwt.decoding import MAX_TOKEN
from headrace.server.jwt_directory import Deletion, JWTDirectory
from headrace.server.operator_mode import make_resolver
from headrace.server.resolver import MemoryResolver, ResolverError
from headrace.server.resolver_directory import DirectoryResolver
from headrace.server.resolver_url import URLResolver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

KEY = ACCOUNT_KEY.public
TOKEN = account_token()
OTHERS = [key_pair(ACCOUNT, f"account {number}") for number in range(4)]
TRAVERSALS = ["", "x", "../" + KEY, KEY + "/", KEY + "\n", KEY.lower(), "/etc/passwd", user_token()]


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def token_of(number: int, **outer: Any) -> str:
    return account_token(subject=OTHERS[number], outer=outer)


def directory(path: Path, **options: Any) -> JWTDirectory:
    found = JWTDirectory(str(path), **options)
    found.open()
    return found


# --- memory ---


def test_memory_gives_what_was_preloaded_and_stored() -> None:
    async def scenario() -> None:
        resolver = MemoryResolver({KEY: TOKEN})
        assert await resolver.fetch(KEY) == TOKEN
        with pytest.raises(ResolverError, match="account missing"):
            await resolver.fetch(OTHERS[0].public)
        assert await resolver.store(OTHERS[0].public, "t")
        assert await resolver.fetch(OTHERS[0].public) == "t"

    asyncio.run(scenario())


@pytest.mark.parametrize("name", TRAVERSALS)
def test_no_resolver_takes_what_is_no_account_key(name: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        url = URLResolver(ResolverOptions("url", url="http://127.0.0.1:1/"))
        for resolver in (MemoryResolver({}), url, DirectoryResolver(options(tmp_path), {})):
            with pytest.raises(ResolverError, match="valid account keys"):
                await resolver.fetch(name)

    asyncio.run(scenario())


# --- directories ---


def options(path: Path, kind: str = "full", **changes: Any) -> ResolverOptions:
    return ResolverOptions(kind, directory=str(path), **changes)


def test_directory_keeps_tokens_as_files_that_only_the_owner_reads(tmp_path: Path) -> None:
    store = directory(tmp_path / "new" / "jwt")
    assert store.save(KEY, TOKEN)
    file = tmp_path / "new" / "jwt" / f"{KEY}.jwt"
    assert file.read_text() == TOKEN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    assert directory(file.parent).load(KEY) == TOKEN


def test_directory_keeps_the_newer_of_two_tokens(tmp_path: Path) -> None:
    store = directory(tmp_path)
    newer = account_token(outer={"iat": ISSUED_AT + 5, "jti": "new"})
    assert store.save(KEY, TOKEN)
    assert not store.save(KEY, TOKEN)
    assert store.save(KEY, newer)
    assert not store.save(KEY, TOKEN)
    assert not store.save(KEY, account_token(outer={"iat": ISSUED_AT + 9, "jti": "new"}))  # the same id
    assert store.load(KEY) == newer


@pytest.mark.parametrize("token", ["", "x", user_token(), TOKEN[:-3], account_token(subject=OTHERS[0])])
def test_directory_takes_only_tokens_of_that_account(tmp_path: Path, token: str) -> None:
    store = directory(tmp_path)
    with pytest.raises(ResolverError) as caught:
        store.save(KEY, token)
    assert "eyJ" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_directory_at_its_limit_refuses_or_evicts(tmp_path: Path) -> None:
    full = directory(tmp_path / "full", limit=2)
    cache = directory(tmp_path / "cache", limit=2, evicts=True)
    for store in (full, cache):
        store.save(OTHERS[0].public, token_of(0))
        store.save(OTHERS[1].public, token_of(1))
        store.load(OTHERS[0].public)
    with pytest.raises(ResolverError, match="full"):
        full.save(OTHERS[2].public, token_of(2))
    assert full.save(OTHERS[0].public, token_of(0, iat=ISSUED_AT + 1, jti="2"))  # that one has its place
    cache.save(OTHERS[2].public, token_of(2))
    assert cache.accounts() == (OTHERS[0].public, OTHERS[2].public)
    with pytest.raises(ResolverError, match="account missing"):
        cache.load(OTHERS[1].public)


def test_directory_deletes_as_it_is_told(tmp_path: Path) -> None:
    for deletion in Deletion:
        store = directory(tmp_path / deletion.name, deletion=deletion)
        store.save(KEY, TOKEN)
        if deletion is Deletion.REFUSED:
            with pytest.raises(ResolverError, match="not set up"):
                store.delete(KEY)
            assert store.load(KEY) == TOKEN
            continue
        assert store.delete(KEY)
        assert not store.delete(KEY)
        left = [file.name for file in (tmp_path / deletion.name).iterdir()]
        assert left == ([f"{KEY}.jwt.deleted"] if deletion is Deletion.RENAMES else [])
        with pytest.raises(ResolverError, match="account missing"):
            store.load(KEY)
        assert directory(tmp_path / deletion.name).accounts() == ()


def test_directory_tokens_go_when_their_time_is_over(tmp_path: Path) -> None:
    clock = Clock()
    store = directory(tmp_path, now=clock)
    store.save(KEY, TOKEN)
    store.save(OTHERS[0].public, token_of(0, exp=int(clock.now) + 10))
    assert store.expire() == ()
    clock.now += 10
    assert store.expire() == (OTHERS[0].public,)
    assert store.accounts() == (KEY,)


def test_directory_with_ttl_counts_from_the_last_use(tmp_path: Path) -> None:
    clock = Clock()
    store = directory(tmp_path, now=clock, ttl=60.0, evicts=True)
    store.save(KEY, account_token(outer={"exp": 5}))  # its own time does not count
    clock.now += 59
    assert store.load(KEY)
    clock.now += 59
    assert store.expire() == ()
    clock.now += 1
    with pytest.raises(ResolverError, match="account missing"):
        store.load(KEY)
    assert list(tmp_path.iterdir()) == []


def test_directory_passes_over_what_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "x.jwt").write_text(TOKEN)
    (tmp_path / f"{OTHERS[0].public}.jwt").write_text("nonsense")
    (tmp_path / f"{OTHERS[1].public}.jwt").mkdir()
    (tmp_path / f"{KEY}.jwt.tmp").write_text(TOKEN[:10])  # a crash while writing
    store = directory(tmp_path)
    assert store.accounts() == ()
    assert not (tmp_path / f"{KEY}.jwt.tmp").exists()
    assert store.save(OTHERS[0].public, token_of(0))
    with pytest.raises(ResolverError, match="cannot be read"):
        store.load(OTHERS[1].public)
    with pytest.raises(ResolverError, match="cannot be written"):
        store.save(OTHERS[1].public, token_of(1))


def test_directory_reads_no_more_than_a_token(tmp_path: Path) -> None:
    (tmp_path / f"{KEY}.jwt").write_bytes(b"x" * (MAX_TOKEN + 1))
    with pytest.raises(ResolverError, match="too large"):
        directory(tmp_path).load(KEY)
    (tmp_path / f"{KEY}.jwt").write_bytes(b"\xff")
    with pytest.raises(ResolverError, match="cannot be read"):
        directory(tmp_path).load(KEY)


def test_directory_whose_file_was_removed_by_hand_says_so(tmp_path: Path) -> None:
    store = directory(tmp_path)
    store.save(KEY, TOKEN)
    (tmp_path / f"{KEY}.jwt").unlink()
    with pytest.raises(ResolverError, match="account missing"):
        store.load(KEY)
    assert len(store) == 0


def test_directory_write_that_fails_leaves_the_old_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = directory(tmp_path)
    store.save(KEY, TOKEN)

    def fails(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(ResolverError, match="No space left"):
        store.save(KEY, account_token(outer={"iat": ISSUED_AT + 5, "jti": "new"}))
    monkeypatch.undo()
    assert directory(tmp_path).load(KEY) == TOKEN


def test_directory_resolver_preloads_fetches_and_closes(tmp_path: Path) -> None:
    async def scenario() -> None:
        resolver = DirectoryResolver(options(tmp_path, allow_delete=True), {KEY: TOKEN})
        await resolver.start()
        try:
            assert await resolver.fetch(KEY) == TOKEN
            assert await resolver.store(OTHERS[0].public, token_of(0))
            assert await resolver.delete(OTHERS[0].public)
            with pytest.raises(ResolverError, match="account missing"):
                await resolver.fetch(OTHERS[0].public)
        finally:
            await resolver.close()

    asyncio.run(scenario())


def test_directory_resolver_removes_tokens_whose_time_is_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        gone: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        resolver = DirectoryResolver(options(tmp_path, "cache", ttl=0.02), {KEY: TOKEN})
        resolver.on_expired = gone.put_nowait
        await resolver.start()
        try:
            assert await asyncio.wait_for(gone.get(), 10) == (KEY,)
        finally:
            await resolver.close()

    asyncio.run(scenario())


def test_directory_resolver_that_cannot_work_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")

    async def scenario(resolver: DirectoryResolver) -> None:
        with pytest.raises(StartError, match="resolver directory"):
            await resolver.start()
        await resolver.close()

    asyncio.run(scenario(DirectoryResolver(options(file), {})))
    asyncio.run(scenario(DirectoryResolver(options(tmp_path / "d"), {KEY: "nonsense"})))


# --- HTTP ---


def with_server(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
    use: Callable[[str], Awaitable[None]],
) -> None:
    """Run `use` with the URL of a server that answers like this."""

    async def scenario() -> None:
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)  # one of them never answers
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            assert site._server is not None
            port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
            await use(f"http://u:s3cret@127.0.0.1:{port}/jwt/")
        finally:
            await runner.cleanup()

    asyncio.run(scenario())


def url_resolver(url: str, **changes: Any) -> URLResolver:
    return URLResolver(ResolverOptions("url", url=url, **changes))


def test_url_gives_what_the_server_answers_and_asks_once_for_many() -> None:
    asked = []
    arrived, release = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path != "/jwt/":
            arrived.set()
            await release.wait()
        return web.Response(text=f"{TOKEN}\n")

    async def use(url: str) -> None:
        resolver = url_resolver(url)
        await resolver.start()
        waiting = [asyncio.ensure_future(resolver.fetch(KEY)) for _ in range(3)]
        await arrived.wait()
        waiting[0].cancel()
        release.set()
        assert await asyncio.gather(*waiting[1:]) == [f"{TOKEN}\n"] * 2
        assert asked == ["/jwt/", f"/jwt/{KEY}"]
        with pytest.raises(ResolverError, match="not supported"):
            await resolver.store(KEY, TOKEN)
        await resolver.close()
        with pytest.raises(ResolverError, match="closed"):
            await resolver.fetch(KEY)

    with_server(answer, use)


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        (lambda: web.Response(status=404), "404 Not Found"),
        (lambda: web.Response(status=500), "500"),
        (lambda: web.Response(body=b"x" * (MAX_TOKEN + 1)), "too large"),
        (lambda: web.Response(body=b"\xff"), "no token"),
        (lambda: web.Response(status=302, headers={"Location": "/jwt/again"}), "TooManyRedirects"),
        (lambda: None, "no answer within 0.2 seconds"),
    ],
)
def test_url_that_gives_no_token_says_why_and_shows_no_password(
    respond: Callable[[], web.Response | None], message: str
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = web.Response() if request.path == "/jwt/" else respond()
        if found is None:
            await asyncio.Event().wait()
        assert found is not None
        return found

    async def use(url: str) -> None:
        resolver = url_resolver(url, timeout=0.2 if "within" in message else 5.0)
        await resolver.start()
        try:
            with pytest.raises(ResolverError, match=message) as caught:
                await resolver.fetch(KEY)
            assert "s3cret" not in str(caught.value)
            assert KEY in str(caught.value)
        finally:
            await resolver.close()

    with_server(answer, use)


def test_url_with_nobody_there_ends_the_start() -> None:
    async def scenario() -> None:
        resolver = url_resolver("http://u:s3cret@127.0.0.1:1/")
        with pytest.raises(StartError, match="could not fetch") as caught:
            await resolver.start()
        assert "s3cret" not in str(caught.value)

    asyncio.run(scenario())


def test_url_with_files_that_cannot_be_used_ends_the_start() -> None:
    async def scenario() -> None:
        resolver = url_resolver("https://127.0.0.1:1/", tls=ResolverTLSOptions(ca_file="/nowhere/ca.pem"))
        with pytest.raises(StartError, match="resolver_tls"):
            await resolver.start()

    asyncio.run(scenario())


# --- the choice ---


@pytest.mark.parametrize(
    ("chosen", "kind"),
    [
        (ResolverOptions("memory"), MemoryResolver),
        (ResolverOptions("url", url="http://h/"), URLResolver),
        (ResolverOptions("full", directory="d"), DirectoryResolver),
        (ResolverOptions("cache", directory="d", limit=5), DirectoryResolver),
        (None, type(None)),
    ],
)
def test_make_resolver_is_the_configured_one(chosen: ResolverOptions | None, kind: type) -> None:
    assert isinstance(make_resolver(OperatorOptions(("O",), resolver=chosen)), kind)
