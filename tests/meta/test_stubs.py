"""The .pyi files say what the compiled modules have, and only that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

COMPILED: Final = [
    "headrace.conf.plain",
    "headrace.engine.ack_lane",
    "headrace.engine.api_lane",
    "headrace.engine.api_requests",
    "headrace.engine.batches",
    "headrace.engine.client",
    "headrace.engine.columns",
    "headrace.engine.direct_gets",
    "headrace.engine.consumer",
    "headrace.engine.service_imports",
    "headrace.engine.frames",
    "headrace.engine.gateway",
    "headrace.engine.sequence_set",
    "headrace.engine.subject_index",
    "headrace.engine.ids",
    "headrace.engine.interest",
    "headrace.engine.lanes",
    "headrace.engine.leaf",
    "headrace.engine.link",
    "headrace.engine.log_core",
    "headrace.engine.log_reading",
    "headrace.engine.memory",
    "headrace.engine.memory_log",
    "headrace.engine.memory_reading",
    "headrace.engine.message_blocks",
    "headrace.engine.messages",
    "headrace.engine.mqtt",
    "headrace.engine.mqtt_headers",
    "headrace.engine.mqtt_topics",
    "headrace.engine.peer",
    "headrace.engine.pending",
    "headrace.engine.publish_lane",
    "headrace.engine.records",
    "headrace.engine.replay",
    "headrace.engine.route",
    "headrace.engine.s2",
    "headrace.engine.service",
    "headrace.engine.stream_imports",
    "headrace.engine.pulls",
    "headrace.engine.stan",
    "headrace.engine.jetstream",
    "headrace.engine.legacy_route",
    "headrace.engine.traffic",
    "headrace.engine.syncer",
    "headrace.engine.permission_cache",
    "headrace.load.loops",
]
if sys.platform == "linux":
    COMPILED.append("headrace.server.epoll")

ALLOWED: Final = r"""
# Cython's own: classes carry pickling hooks and method tables, modules a table of doctests.
headrace\..*\.__(pyx_capi|test|reduce_cython|setstate_cython|pyx_vtable)__
# Constructors are __cinit__ in Cython: the signature of __init__ is not to be seen.
headrace\.engine\.(batches\.(Block|Gathered|Outgoing)|columns\.ColumnsBuilder|frames\.Payload|gateway\.GatewayLink|client\.ClientLink|service_imports\.(AccountLink|ServiceImport)|leaf\.LeafLink|mqtt\.MqttLink|peer\.PeerLink|link\.(Link|Router)|log_reading\.PointReads|records\.Scan|route\.RouteLink|legacy_route\.LegacyRouteLink|s2\.Stream|service\.ServiceLink|stream_imports\.StreamImport|permission_cache\.PermissionCache|interest\.Interest)\.__(init|new)__
headrace\.server\.epoll\.Poller\.__(init|new)__
headrace\.conf\.plain\.PlainReader\.__(init|new)__
headrace\.load\.loops\.(AnswerWindow|FrameReader|FrameWriter|LatencyBuckets|SendBuffer)\.__(init|new)__
# The buffer protocol has no method to be seen before Python 3.12.
headrace\.engine\.frames\.Payload\.__buffer__
headrace\.load\.loops\.(FrameReader|SendBuffer)\.__buffer__
"""

CONFIGURATION: Final = """
[mypy]
mypy_path = {root}/src
[mypy-headrace]
follow_imports = skip
"""
"""Not the project's: the package `headrace` names everything, and no stub needs what it names."""


def test_every_compiled_module_is_checked() -> None:
    """A new compiled module with a stub must be listed here."""
    stubs = {
        path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "src" / "headrace").rglob("*.pyi")
    }
    assert stubs - {"headrace.server.epoll"} == set(COMPILED) - {"headrace.server.epoll"}


def test_stubs_match_the_compiled_modules(tmp_path: Path) -> None:
    pytest.importorskip("mypy.stubtest")
    allowlist, configuration = tmp_path / "allowed", tmp_path / "mypy.ini"
    allowlist.write_text(ALLOWED, encoding="utf-8")
    configuration.write_text(CONFIGURATION.format(root=ROOT), encoding="utf-8")
    command = [sys.executable, "-m", "mypy.stubtest", "--allowlist", str(allowlist)]
    command += [
        "--ignore-unused-allowlist",
        "--ignore-disjoint-bases",
        "--concise",
        "--mypy-config-file",
        str(configuration),
    ]
    run = subprocess.run([*command, *COMPILED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
