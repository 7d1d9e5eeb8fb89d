"""Modules of the console that need no browser, in the Node that Playwright brings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import playwright
import pytest

from harness.console_files import STATIC
from harness.waiting import PATIENCE

_NODE: Final = Path(playwright.__file__).parent / "driver" / "node"


def evaluate(module: str, body: str, **given: object) -> Any:
    """What the body of an async function returns, as JSON.

    In it `it` is the module (a path below the console's files), and each of `given` a constant. Raises:
    AssertionError with what JavaScript raised.
    """
    if not _NODE.exists():
        pytest.skip("Playwright has no Node here")
    constants = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in given.items())
    source = (
        f'import * as it from "{(STATIC / module).as_uri()}";\n{constants}'
        f"console.log(JSON.stringify((await (async () => {{\n{body}\n}})()) ?? null));"
    )
    done = subprocess.run(
        [_NODE, "--input-type=module", "--no-warnings", "-e", source],
        capture_output=True, encoding="utf-8", timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
