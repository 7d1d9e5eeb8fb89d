"""The console's files for a server that does not serve them itself, with the headers that Headrace sends."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import headrace
from headrace import version

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

STATIC: Final = Path(headrace.__file__).parent / "console" / "static"
_KINDS: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self' {}; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


class ConsoleFiles:
    """A small file server for tests; a context manager. `settings` goes into console.json."""

    def __init__(self, socket: str, **settings: Any) -> None:
        said = json.dumps({"version": version.__version__, "path": "/console", "socket": socket, **settings})

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                name = self.path.partition("?")[0].removeprefix("/console/") or "index.html"
                file = STATIC / name
                if name == "console.json":
                    self._answer(said.encode(), "application/json")
                elif file.is_file() and ".." not in name:
                    self._answer(file.read_bytes(), _KINDS.get(file.suffix, "text/plain"))
                else:
                    self.send_error(404)

            def _answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", _POLICY.format(socket))
                self.send_header("Cache-Control", "no-cache")
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/console/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
