"""The origin of a result: machine class, versions, commit. No host name, no path."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Results do not make the tree dirty: a run writes them.
_OWN_OUTPUT = (":(exclude)bench/results", ":(exclude)docs/performance.md", ":(exclude)docs/performance.png")


def cpu_model(cpuinfo: str) -> str:
    """Give the model name in the text of /proc/cpuinfo, or "unknown"."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return "unknown"


def machine_class() -> dict[str, str | int]:
    """Give CPU model, usable cores, memory in GiB, system, kernel and TCP congestion control."""
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages * page_size / 2**30),
        "system": platform.system(),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "tcp": Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip(),
    }


def _git(*args: str) -> str | None:
    try:
        done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit_state() -> tuple[str | None, bool]:
    """Give the commit (None outside a repository or before the first one) and whether the tree differs."""
    status = _git("status", "--porcelain", "--", ".", *_OWN_OUTPUT)
    return _git("rev-parse", "--verify", "-q", "HEAD"), bool(status)


def distribution_version(name: str) -> str | None:
    """Give the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
