"""Makes a golden store: `python make.py <name> <nats-server> [chachapoly|aes]`, with `tests` in PYTHONPATH.

The server is killed, not stopped, where the name says so. Of payloads the truth has part of the SHA-256.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.jetstream import JetStreamWire
from harness.jetstream_stores import contents, fill_a_little
from harness.processes import Program, ServerProcess

KEY = "golden"
PLACE = Path(__file__).resolve().parent


def main(name: str, program: str, cipher: str = "") -> None:
    """The store in `name/store`, what the server said of it in `name/truth.json`."""
    place = PLACE / name
    shutil.rmtree(place, ignore_errors=True)
    config = f'jetstream {{ key: "{KEY}", cipher: {cipher} }}' if cipher else None
    with TemporaryDirectory() as folder:
        flags = ("-js", "-sd", str(place))
        with ServerProcess(Program(name, (program,)), Path(folder), *flags, config=config) as server:
            with JetStreamWire(server) as wire:
                fill_a_little(wire)
                truth = contents(wire)
            for stream in truth.values():
                for message in stream["messages"]:
                    message["data"] = sha256(b64decode(message.get("data", ""))).hexdigest()[:16]
            if "killed" in name:
                time.sleep(1)  # what consumers acknowledged is written a moment later
                server.kill()
    shutil.move(place / "jetstream", place / "store")
    (place / "truth.json").write_text(json.dumps(truth, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
