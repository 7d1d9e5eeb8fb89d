"""Requests for the console's files, and their answers as bytes."""

from __future__ import annotations

import gzip
import random

import pytest

from headrace import limits
from headrace.console.files import INDEX, table
from headrace.console.page_requests import BadPageRequest, read_request
from headrace.console.site import ConsoleSite, HostNames

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


def site(*sockets: str) -> ConsoleSite:
    return ConsoleSite("/console", b'{"path": "/console"}', HostNames(["n1.example"]), sockets)


def head(line: str = "GET /console/ HTTP/1.1", *headers: str, host: str | None = "127.0.0.1:8080") -> bytes:
    lines = [line, *([] if host is None else [f"Host: {host}"]), *headers]
    return "".join(f"{each}\r\n" for each in lines).encode("latin-1") + b"\r\n"


def answered(request: bytes, **options: bool) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, body."""
    text, _, body = site().answer(request, **options).data.partition(b"\r\n\r\n")
    first, *lines = text.decode("ascii").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(": ")
        assert name.lower() not in headers, name
        headers[name.lower()] = value
    return int(first.split(" ")[1]), headers, body


def test_page_has_all_that_keeps_it_safe() -> None:
    status, headers, body = answered(head())

    assert status == 200
    assert body == table()[INDEX].body
    assert headers["content-length"] == str(len(body))
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "request_",
    [
        head("GET /console/none HTTP/1.1"),
        head(host="evil.example"),
        b"\r\n\r\n",
        head("GET /console HTTP/1.1"),
    ],
)
def test_every_answer_has_the_policy(request_: bytes) -> None:
    assert answered(request_)[1]["content-security-policy"] == POLICY


def test_another_origin_may_be_connected_to_where_the_server_is_elsewhere() -> None:
    data = site("wss://n1.example:443").answer(head()).data

    assert b"connect-src 'self' wss://n1.example:443;" in data


def test_head_is_get_without_the_body() -> None:
    _, whole, body = answered(head())
    status, headers, nothing = answered(head("HEAD /console/ HTTP/1.1"))

    assert (status, nothing) == (200, b"")
    assert headers["content-length"] == whole["content-length"] == str(len(body))


def test_settings_are_a_file() -> None:
    assert answered(head("GET /console/console.json HTTP/1.1"))[2] == b'{"path": "/console"}'


def test_path_without_a_slash_is_sent_on() -> None:
    status, headers, body = answered(head("GET /console HTTP/1.1"))

    assert (status, headers["location"], body) == (308, "/console/", b"")


@pytest.mark.parametrize("wish", ["gzip", "br, gzip;q=0.5", "deflate, *", "GZIP"])
def test_packed_for_who_takes_it(wish: str) -> None:
    large = ConsoleSite("/console", b'"%b"' % (b"x" * 5000), HostNames([]))
    request = head("GET /console/console.json HTTP/1.1", f"Accept-Encoding: {wish}")
    text, _, body = large.answer(request).data.partition(b"\r\n\r\n")

    assert b"Content-Encoding: gzip\r\n" in text
    assert b"Vary: Accept-Encoding\r\n" in text
    assert b"Content-Length: %d\r\n" % len(body) in text
    assert gzip.decompress(body) == b'"%b"' % (b"x" * 5000)


@pytest.mark.parametrize("wish", ["", "br", "gzip;q=0", "gzip; q=0.000", "identity"])
def test_not_packed_for_others(wish: str) -> None:
    _, headers, body = answered(head("GET /console/ HTTP/1.1", f"Accept-Encoding: {wish}"))

    assert "content-encoding" not in headers
    assert body == table()[INDEX].body


@pytest.mark.parametrize("form", ["{}", '"x", {}', "*", "{strong}"])
def test_what_the_browser_has_is_not_sent(form: str) -> None:
    etag = table()[INDEX].etag
    tags = form.format(etag, strong=etag.removeprefix("W/"))
    status, headers, body = answered(head("GET /console/ HTTP/1.1", f"If-None-Match: {tags}"))

    assert (status, body, headers["etag"]) == (304, b"", etag)
    assert "content-length" not in headers
    assert answered(head("GET /console/ HTTP/1.1", 'If-None-Match: "other"'))[0] == 200


@pytest.mark.parametrize(
    "target",
    [
        "/console/../varz",
        "/console/%2e%2e/%2e%2e/etc/passwd",
        "/console//index.html",
        "/console/./index.html",
        "/console/index.html/",
        "/console/index.html?x=1",
        "/console/?",
        "/console/..",
        "/console/files.py",
        "/console/static/index.html",
        "/console/%69ndex.html",
        "/console/\\index.html",
        "/consolex",
    ],
)
def test_only_what_is_in_the_table_is_there(target: str) -> None:
    assert answered(head(f"GET {target} HTTP/1.1"))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"])
def test_other_methods_are_refused(method: str) -> None:
    status, headers, _ = answered(head(f"{method} /console/ HTTP/1.1"))

    assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "[::1]:8080",
        "[::1]",
        "192.168.1.9:80",
        "localhost:1",
        "LOCALHOST",
        "n1.example",
        "N1.Example.:443",
    ],
)
def test_host_that_is_known_or_an_address(host: str) -> None:
    assert answered(head(host=host))[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:8080",
            "n1.example.evil",
            "127.0.0.1.evil.example",
            "",
            "localhost.evil",
        ),
        *(
            "127.0.0.1:8080:1",
            "::1",
            "[::1",
            "n1.example:x",
            "[fe80::1%25evil]",
            "a@n1.example",
            "2130706433",
        ),
    ],
)
def test_host_of_a_stranger_is_misdirected(host: str) -> None:
    status, _, text = answered(head(host=host))

    assert status == 421
    assert b"console { hosts }" in text


@pytest.mark.parametrize(
    "request_",
    [
        head("GET console HTTP/1.1"),
        head("GET http://127.0.0.1/console/ HTTP/1.1"),
        head("GET /console/ HTTP/2.0"),
        head("GET /console/ HTTP/1.1 "),
        head("GET  /console/ HTTP/1.1"),
        head("GET /console/\x01 HTTP/1.1"),
        head("GET /console/\xe9 HTTP/1.1"),
        head("get /console/ HTTP/1.1"),
        head("GET /console/"),
        head(host=None),
        head("GET /console/ HTTP/1.1", "Host: localhost"),
        head("GET /console/ HTTP/1.1", "Content-Length: 5"),
        head("GET /console/ HTTP/1.1", "Content-Length: 0", "Content-Length: 5"),
        head("GET /console/ HTTP/1.1", "Transfer-Encoding: chunked"),
        head("GET /console/ HTTP/1.1", "X: a\nY: b"),
        head("GET /console/ HTTP/1.1", "X: a\x00"),
        head("GET /console/ HTTP/1.1", " folded: x"),
        head("GET /console/ HTTP/1.1", "X : y"),
        head("GET /console/ HTTP/1.1", "nothing"),
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\r\n\r\n",
    ],
)
def test_what_is_no_request_is_bad(request_: bytes) -> None:
    status, headers, _ = answered(request_)

    assert (status, headers["connection"]) == (400, "close")


def test_request_that_is_too_large() -> None:
    large = head("GET /console/ HTTP/1.1", f"X: {'x' * limits.CONSOLE_HEAD}")
    fits = head("GET /console/ HTTP/1.1", f"X: {'x' * (limits.CONSOLE_HEAD - 100)}")

    assert answered(large)[0] == 431
    assert answered(fits)[0] == 200


@pytest.mark.parametrize(
    ("request_", "end"),
    [
        (head(), "keep-alive"),
        (head("GET /console/ HTTP/1.1", "Connection: Close"), "close"),
        (head("GET /console/ HTTP/1.1", "Connection: x, close"), "close"),
        (head("GET /console/ HTTP/1.0"), "close"),
    ],
)
def test_connection_ends_when_it_is_asked_to(request_: bytes, end: str) -> None:
    assert answered(request_)[1]["connection"] == end
    assert answered(request_, is_last=True)[1]["connection"] == "close"


@pytest.mark.parametrize(
    ("target", "is_had"),
    [
        ("/console", True),
        ("/console/", True),
        ("/console/anything", True),
        ("/console?x", True),
        ("/", False),
        ("/consoles", False),
        ("/leafnode", False),
    ],
)
def test_targets_of_the_console(target: str, is_had: bool) -> None:
    assert site().has(target) is is_had


def test_any_bytes_are_a_request_or_refused() -> None:
    """Bytes changed, cut and put together at random: nothing but `BadPageRequest` comes of them."""
    chance = random.Random(7)
    seeds = [head(), head("HEAD /console/x.js HTTP/1.0", 'If-None-Match: W/"1"', "Accept-Encoding: gzip;q=1")]
    for _ in range(2000):
        text = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(text))
            match chance.randrange(4):
                case 0:
                    text[at] = chance.randrange(256)
                case 1:
                    del text[at : at + chance.randrange(9)]
                case 2:
                    text[at:at] = chance.choice((b"\r\n", b"\0", b":", b"\xff", b" ", b"%2e", b",,;q="))
                case _:
                    text[at:at] = text[at : at + 20]
            if not text:
                break
        try:
            request = read_request(bytes(text))
        except BadPageRequest:
            continue
        assert request.target.startswith("/")
        assert request.target.isascii()
        assert "\r" not in request.host
