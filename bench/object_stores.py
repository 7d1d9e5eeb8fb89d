"""Object stores as programs of their own: one with a fixed latency, moto's S3, and Azurite.

Here lives how each is started and ended, for benches and for tests. It needs nothing of ours, and moto only
where that is asked for. Never here: clients of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final
from urllib.request import Request, urlopen

from bench.errors import BenchError
from bench.machine import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AZURITE: Final = ROOT / ".venv/azurite/node_modules/azurite/dist/src/blob/main.js"
AZURITE_ACCOUNT: Final = "devstoreaccount1"
AZURITE_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key that every Azurite has; it is in its documentation."""
_VERSION: Final = "2021-08-06"
_LISTENS: Final = re.compile(r"successfully listens on (http://\S+)")


@contextmanager
def object_server(latency_ms: float, bandwidth_mbs: float = 0.0) -> Iterator[int]:
    """Run a store (`bench.object_server`) for a block; gives its port. Raises: BenchError."""
    command = [sys.executable, "-m", "bench.object_server", "--latency-ms", str(latency_ms)]
    command += ["--bandwidth-mbs", str(bandwidth_mbs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.strip().isdigit():
                raise BenchError("the store did not start")
            yield int(line)
        finally:
            process.terminate()


@contextmanager
def moto_server(bucket: str) -> Iterator[str]:
    """Run moto's S3 with one empty bucket for a block; gives its URL.

    Those that run in a process at a time have the same buckets; with the last one all are gone.
    Raises: BenchError where moto is not installed.
    """
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise BenchError(f"moto's server is not installed: {error}") from error
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    served: Any = server._server
    served.app = _one_by_one(served.app)
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    _motos.add(endpoint)
    try:
        _ask(f"{endpoint}/{bucket}", "PUT")
        yield endpoint
    finally:
        _motos.remove(endpoint)
        if not _motos:
            _ask(f"{endpoint}/moto-api/reset", "POST")
        server.stop()


_motos: Final[set[str]] = set()
"""The URLs of moto's servers that run in this process."""


def _ask(url: str, method: str) -> None:
    with urlopen(Request(url, method=method), timeout=10):
        pass


def _one_by_one(app: Callable[..., Any]) -> Callable[..., Any]:
    """Answer one request after the other: moto looks whether a key exists and stores it in two steps."""
    lock = threading.Lock()

    def answer(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    return answer


@contextmanager
def azurite_server(container: str) -> Iterator[str]:
    """Run Azurite with one empty container for a block; gives the URL of its account.

    Raises: BenchError where Azurite is not installed.
    """
    node = shutil.which("node")
    if node is None or not AZURITE.exists():
        raise BenchError("Azurite is not installed: make .venv/.azurite, where npm is")
    options = ("--blobHost", "127.0.0.1", "--blobPort", "0", "--skipApiVersionCheck")
    command = [node, str(AZURITE), *options, "--inMemoryPersistence", "--disableTelemetry", "--silent"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            endpoint = f"{_azurite_address(server)}/{AZURITE_ACCOUNT}"
            _make_container(endpoint, container)
            yield endpoint
        finally:
            server.terminate()


def _azurite_address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    said = []
    for line in server.stdout:
        said.append(line)
        if (found := _LISTENS.search(line)) is not None:
            return found[1]
    raise BenchError(f"Azurite did not start: {''.join(said)}")


def _make_container(endpoint: str, name: str) -> None:
    date = formatdate(usegmt=True)
    account = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{name}"
    sent = f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n{account}\nrestype:container"
    signed = "PUT" + 12 * "\n" + sent
    digest = hmac.new(base64.b64decode(AZURITE_KEY), signed.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    request = Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)
    with urlopen(request, timeout=10):
        pass
