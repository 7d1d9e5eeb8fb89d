"""Make the libraries that the console loads, from the packages pinned in requirements/console.

`python tools/vendor.py` writes src/headrace/console/static/vendor: each library as one file, their licences,
and MANIFEST with versions and SHA-256. A person runs it after a change of a pin; tests/unit/console compare
MANIFEST with the files: what is shipped is what the packages gave. Needs npm; no install and no run needs it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PINS: Final = ROOT / "requirements" / "console"
VENDOR: Final = ROOT / "src" / "headrace" / "console" / "static" / "vendor"

NATS: Final = """export {
  createInbox, credsAuthenticator, headers, jwtAuthenticator, nkeyAuthenticator, tokenAuthenticator,
  usernamePasswordAuthenticator, wsconnect,
} from "@nats-io/nats-core";
"""
"""The names of nats-core that the console uses."""

PACKAGES: Final = ("@nats-io/nats-core", "@nats-io/nkeys", "@nats-io/nuid", "tweetnacl", "uplot")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for pin in ("package.json", "package-lock.json"):
            shutil.copy(PINS / pin, work / pin)
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=work, check=True
        )
        modules = work / "node_modules"
        VENDOR.mkdir(parents=True, exist_ok=True)
        (work / "nats-core.js").write_text(NATS, encoding="utf-8")
        _bundle(work, work / "nats-core.js", "nats-core.js")
        _bundle(work, modules / "uplot" / "dist" / "uPlot.esm.js", "uplot.js")
        shutil.copy(modules / "uplot" / "dist" / "uPlot.min.css", VENDOR / "uplot.css")
        (VENDOR / "LICENSES.txt").write_text(_licences(modules), encoding="utf-8")
        (VENDOR / "MANIFEST").write_text(_manifest(modules), encoding="utf-8")


def _bundle(work: Path, entry: Path, name: str) -> None:
    esbuild = work / "node_modules" / ".bin" / "esbuild"
    options = ["--bundle", "--format=esm", "--minify", "--target=es2022", f"--outfile={VENDOR / name}"]
    subprocess.run([esbuild, entry, *options, "--log-level=warning"], cwd=work, check=True)


def _licences(modules: Path) -> str:
    parts = []
    for package in PACKAGES:
        licence = (modules / package / "LICENSE").read_text(encoding="utf-8").strip()
        parts.append(f"{package}\n{'=' * len(package)}\n\n{licence}\n")
    return "\n\n".join(parts)


def _manifest(modules: Path) -> str:
    """A line for each package, then one for each file."""
    lines = ["# Made by tools/vendor.py. Packages: name, version, licence. Files: SHA-256, name."]
    for package in PACKAGES:
        said = json.loads((modules / package / "package.json").read_text(encoding="utf-8"))
        lines.append(f"package {package} {said['version']} {said['license']}")
    for file in sorted(VENDOR.iterdir()):
        if file.name != "MANIFEST" and not file.name.endswith(".d.ts"):
            lines.append(f"file {hashlib.sha256(file.read_bytes()).hexdigest()} {file.name}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
