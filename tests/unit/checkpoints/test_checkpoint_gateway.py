"""The gateway over real HTTP: every operation, what Hadoop's client is told, and what is refused."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import urlopen

import pytest

pytest.importorskip("obstore")

import obstore

from harness.s3 import obstore_options, s3_endpoint
from headrace.checkpoints import object_checkpoint
from headrace.checkpoints.objects import PIECE
from headrace.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What moto and its dependencies warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")

TEMPORARY = "/offsets/.0.6f1d2c1e-1111-2222-3333-444455556666.tmp"


@dataclass(frozen=True)
class Answered:
    status: int
    body: bytes
    location: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def exception(self) -> tuple[int, str]:
        return self.status, self.json["RemoteException"]["exception"]


class Client:
    """As Hadoop's: bytes go where a redirect says."""

    def __init__(self, location: str) -> None:
        parts = urlsplit(location)
        assert parts.scheme == "webhdfs"
        self.address = parts.netloc
        self.root = parts.path

    def ask(self, method: str, path: str, op: str, body: bytes | None = None, **options: Any) -> Answered:
        query = urlencode({"op": op, **options})
        return self._send(method, f"/webhdfs/v1{self.root}{quote(path)}?{query}", body)

    def create(self, path: str, body: bytes, overwrite: str = "false") -> Answered:
        return self._redirected("PUT", path, "CREATE", body, overwrite=overwrite)

    def read(self, path: str, **options: int) -> Answered:
        return self._redirected("GET", path, "OPEN", None, **options)

    def rename(self, old: str, new: str, options: str | None = None) -> Answered:
        more = {} if options is None else {"renameoptions": options}
        return self.ask("PUT", old, "RENAME", destination=f"{self.root}{new}", **more)

    def names(self, path: str) -> list[tuple[str, str]]:
        answer = self.ask("GET", path, "LISTSTATUS")
        assert answer.status == 200, answer
        return [(one["pathSuffix"], one["type"]) for one in answer.json["FileStatuses"]["FileStatus"]]

    def _redirected(self, method: str, path: str, op: str, body: bytes | None, **options: Any) -> Answered:
        first = self.ask(method, path, op, **options)
        if first.status != 307:
            return first
        assert first.location is not None
        parts = urlsplit(first.location)
        assert parts.netloc == self.address
        return self._send(method, f"{parts.path}?{parts.query}", body)

    def _send(self, method: str, target: str, body: bytes | None) -> Answered:
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            return Answered(response.status, response.read(), response.headers["Location"])
        finally:
            connection.close()


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for obstore that lead to a server with the bucket `checkpoints`."""
    with s3_endpoint("checkpoints") as endpoint:
        yield obstore_options(endpoint)


@pytest.fixture(params=["memory", "local", "s3"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    url, options = "memory:///", {}
    if request.param == "local":
        url = f"file://{tmp_path}"
    elif request.param == "s3":
        url, options = f"s3://checkpoints/{tmp_path.name}", request.getfixturevalue("s3")
    with object_checkpoint(url, **options) as location:
        yield Client(location)


# ---- reading and writing --------------------------------------------------------------------------------


def test_a_created_file_is_read_back_whole_and_in_parts(client: Client) -> None:
    body = bytes(range(256)) * 40_000  # more than one piece
    assert client.create("/state/0/1.delta", body).status == 201

    assert client.read("/state/0/1.delta").body == body
    assert client.read("/state/0/1.delta", offset=5, length=7).body == body[5:12]
    assert client.read("/state/0/1.delta", offset=len(body)).body == b""
    status = client.ask("GET", "/state/0/1.delta", "GETFILESTATUS").json["FileStatus"]
    assert (status["type"], status["length"]) == ("FILE", len(body))
    assert status["modificationTime"] > 1_700_000_000_000


@pytest.mark.parametrize("path", ["/offsets/0", TEMPORARY])
def test_create_replaces_only_when_told_to(client: Client, path: str) -> None:
    assert client.create(path, b"one").status == 201

    assert client.create(path, b"two").exception == (403, "FileAlreadyExistsException")
    assert client.read(path).body == b"one"
    assert client.create(path, b"two", overwrite="true").status == 201
    assert client.read(path).body == b"two"


@pytest.mark.parametrize("path", ["/offsets/0", TEMPORARY])
def test_a_body_that_is_cut_off_is_never_there(client: Client, path: str) -> None:
    target = f"/webhdfs/v1{client.root}{path}?op=CREATE&redirected=true"
    head = f"PUT {target} HTTP/1.1\r\nHost: {client.address}\r\nTransfer-Encoding: chunked\r\n\r\n"
    host, port = client.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(head.encode() + b"5\r\nhello\r\n")
        raw.shutdown(socket.SHUT_WR)
        raw.recv(1)  # closed, or an error: either way it has been judged

    assert client.ask("GET", path, "GETFILESTATUS").exception == (404, "FileNotFoundException")


def test_a_store_that_fails_in_the_middle_cuts_the_reader_off(monkeypatch: pytest.MonkeyPatch) -> None:
    real = obstore.get_range_async

    async def failing(store: Any, key: str, *, start: int, end: int) -> Any:
        if start:
            raise OSError("the line is down")
        return await real(store, key, start=start, end=end)

    monkeypatch.setattr(obstore, "get_range_async", failing)
    with object_checkpoint("memory:///") as location:
        client = Client(location)
        assert client.create("/f", bytes(PIECE + 1)).status == 201
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            client.read("/f")
        assert client.read("/f", length=9).body == bytes(9)


def test_names_with_blanks_and_letters_of_all_kinds(client: Client) -> None:
    path = "/a=1/Zürich 100%/x+y"
    assert client.create(path, b"1").status == 201
    assert client.read(path).body == b"1"
    assert client.names("/a=1") == [("Zürich 100%", "DIRECTORY")]


@pytest.mark.parametrize("options", [{"offset": 4}, {"offset": "x"}, {"length": "-1"}])
def test_what_cannot_be_read_is_refused(client: Client, options: dict[str, Any]) -> None:
    client.create("/f", b"123")
    assert client.ask("GET", "/f", "OPEN", **options).exception == (400, "IllegalArgumentException")


@pytest.mark.parametrize("op", ["GETFILESTATUS", "LISTSTATUS", "OPEN", "CHECKACCESS"])
def test_what_is_not_there_is_not_found(client: Client, op: str) -> None:
    assert client.ask("GET", "/nowhere/1", op).exception == (404, "FileNotFoundException")


def test_noredirect_names_the_place(client: Client) -> None:
    client.create("/f", b"123")
    where = client.ask("GET", "/f", "OPEN", noredirect="true").json["Location"]
    assert "redirected=true" in where


# ---- rename: what makes a checkpoint file ------------------------------------------------------------------


@pytest.mark.parametrize("source", [TEMPORARY, "/offsets/old"])
def test_rename_moves_a_file(client: Client, source: str) -> None:
    client.create(source, b"v1")

    assert client.rename(source, "/offsets/0", "NONE").status == 200

    assert client.read("/offsets/0").body == b"v1"
    assert client.names("/offsets") == [("0", "FILE")]


@pytest.mark.parametrize("source", [TEMPORARY, "/offsets/old"])
def test_rename_replaces_only_when_told_to(client: Client, source: str) -> None:
    client.create("/offsets/0", b"before")
    client.create(source, b"after")

    assert client.rename(source, "/offsets/0", "NONE").exception == (403, "FileAlreadyExistsException")
    assert client.rename(source, "/offsets/0").json == {"boolean": False}
    assert (client.read("/offsets/0").body, client.read(source).body) == (b"before", b"after")

    assert client.rename(source, "/offsets/0", "OVERWRITE").status == 200
    assert client.read("/offsets/0").body == b"after"
    assert client.ask("GET", source, "GETFILESTATUS").status == 404


def test_of_many_renames_to_one_name_one_succeeds(client: Client) -> None:
    writers = 8
    for number in range(writers):
        client.create(f"/commits/.7.{number}.tmp", b"%d" % number)
    statuses: dict[int, int] = {}

    def rename(number: int) -> None:
        statuses[number] = client.rename(f"/commits/.7.{number}.tmp", "/commits/7", "NONE").status

    threads = [threading.Thread(target=rename, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [number for number, status in statuses.items() if status == 200]
    assert client.read("/commits/7").body == b"%d" % winner
    assert sorted(statuses.values()) == [200] + [403] * (writers - 1)


def test_rename_of_what_is_not_there_or_no_file(client: Client) -> None:
    client.create("/folder/file", b"1")
    assert client.rename("/nothing", "/x", "NONE").exception == (404, "FileNotFoundException")
    assert client.rename("/nothing", "/x").json == {"boolean": False}
    assert client.rename("/folder", "/x", "NONE").exception == (400, "IllegalArgumentException")
    outside = client.ask("PUT", "/folder/file", "RENAME", destination="/elsewhere/x")
    assert outside.exception == (400, "IllegalArgumentException")


# ---- folders -----------------------------------------------------------------------------------------------


def test_folders_are_there_when_made_and_when_something_is_in_them(client: Client) -> None:
    assert client.ask("GET", "/", "GETFILESTATUS").json["FileStatus"]["type"] == "DIRECTORY"
    assert client.names("/") == []
    assert client.ask("PUT", "/q/offsets", "MKDIRS", permission="755").json == {"boolean": True}
    client.create("/q/commits/0", b"1")

    assert client.names("/") == [("q", "DIRECTORY")]
    assert client.names("/q") == [("commits", "DIRECTORY"), ("offsets", "DIRECTORY")]
    assert client.names("/q/offsets") == []
    assert client.names("/q/commits/0") == [("", "FILE")]
    assert client.ask("PUT", "/q/commits/0", "MKDIRS").exception == (403, "FileAlreadyExistsException")


def test_temporary_files_are_listed_until_they_are_renamed(client: Client) -> None:
    client.create(TEMPORARY, b"12")
    assert client.names("/offsets") == [(TEMPORARY.rpartition("/")[2], "FILE")]
    assert client.read(TEMPORARY).body == b"12"
    assert client.ask("GET", "/offsets", "GETFILESTATUS").json["FileStatus"]["type"] == "DIRECTORY"


def test_delete(client: Client) -> None:
    for path in ("/q/a", "/q/b/c", "/qq", "/q/.t.1.tmp"):
        client.create(path, b"1")

    def delete(path: str, recursive: str) -> Answered:
        return client.ask("DELETE", path, "DELETE", recursive=recursive)

    assert delete("/q", "false").exception == (403, "PathIsNotEmptyDirectoryException")
    assert delete("/q/a", "false").json == {"boolean": True}
    assert delete("/q", "true").json == {"boolean": True}
    assert delete("/q", "true").json == {"boolean": False}
    assert client.names("/") == [("qq", "FILE")]


# ---- the rest ----------------------------------------------------------------------------------------


def test_permissions_and_times_are_taken_and_forgotten(client: Client) -> None:
    client.create("/f", b"1")
    assert client.ask("PUT", "/f", "SETPERMISSION", permission="600").status == 200
    assert client.ask("PUT", "/f", "SETTIMES", modificationtime=1).status == 200
    assert client.ask("GET", "/", "GETHOMEDIRECTORY").json == {"Path": client.root}


def test_what_hadoops_client_wants_beside_files(client: Client) -> None:
    client.create("/f", b"1")
    stranger = Client(f"webhdfs://{client.address}")
    defaults = stranger.ask("GET", "/", "GETSERVERDEFAULTS").json["FsServerDefaults"]
    assert (defaults["replication"], defaults["encryptDataTransfer"]) == (1, False)
    assert client.ask("GET", "/f", "GETFILELINKSTATUS").json["FileStatus"]["type"] == "FILE"
    with urlopen(f"http://{client.address}/webhdfs/v1{client.root}/f?op=GETFILESTATUS", timeout=10) as answer:
        assert answer.headers["Content-Type"] is None


def test_a_store_that_cannot_be_reached_is_an_error_of_its_own() -> None:
    options = {
        "endpoint": "http://127.0.0.1:1",
        "access_key_id": "key",
        "secret_access_key": "secret",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
        "retry_config": {"max_retries": 0},
    }
    with object_checkpoint("s3://checkpoints", **options) as location:
        client = Client(location)
        for answer in (client.create("/f", b"1"), client.ask("GET", "/f", "LISTSTATUS")):
            assert answer.exception == (500, "IOException")
            assert "the store failed at /f" in answer.json["RemoteException"]["message"]


@pytest.mark.parametrize(
    ("method", "op"), [("POST", "APPEND"), ("GET", "GETACLSTATUS"), ("PUT", "OPEN"), ("GET", "")]
)
def test_other_operations_say_that_they_are_not_there(client: Client, method: str, op: str) -> None:
    assert client.ask(method, "/f", op).exception == (400, "UnsupportedOperationException")


def test_without_the_secret_nothing_is_told(client: Client) -> None:
    client.create("/f", b"1")
    for root in ("", "/wrong", f"{client.root}x", "/%ff%fe"):
        stranger = Client(f"webhdfs://{client.address}{root}")
        assert stranger.ask("GET", "/f", "OPEN").exception == (403, "AccessControlException")


@pytest.mark.parametrize("path", ["/a/../../b", "/./a", "/a//b", "/a\n"])
def test_paths_that_leave_or_mean_nothing_are_refused(client: Client, path: str) -> None:
    answer = client.ask("GET", path, "GETFILESTATUS")
    assert answer.exception == (400, "IllegalArgumentException")


def test_the_location_can_be_the_same_after_a_restart(tmp_path: Path) -> None:
    url, secret = f"file://{tmp_path}", "a-secret-of-mine"
    with object_checkpoint(url, secret=secret) as location:
        assert Client(location).create("/offsets/0", b"1").status == 201
        port = urlsplit(location).port
    assert port is not None
    with object_checkpoint(url, port=port, secret=secret) as again:
        assert again == location
        assert Client(again).read("/offsets/0").body == b"1"


@pytest.mark.parametrize(
    ("url", "options"),
    [("nonsense", {}), ("memory:///", {"secret": "short"}), ("memory:///", {"secret": "with/slash-in-it"})],
)
def test_what_cannot_be_served_is_said_at_once(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(StartError), object_checkpoint(url, **options):
        pass


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=str(port)), object_checkpoint("memory:///", port=port):
            pass
