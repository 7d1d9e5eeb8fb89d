"""Completion by real shells: each gets its script, and a command line that ends in a tab."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from harness.waiting import LONG
from headrace.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from pathlib import Path

BASH: Final = """
source ./script
words=("$@")
COMP_WORDS=("${words[@]}")
COMP_CWORD=$((${#words[@]} - 1))
COMP_LINE="${words[*]}"
COMP_POINT=${#COMP_LINE}
function_of() { while [ "$1" != -F ]; do shift; done; echo "$2"; }
"$(function_of $(complete -p headrace))"
printf '%s\\n' "${COMPREPLY[@]}"
"""

FISH: Final = """
source ./script
complete -C (string join -- ' ' $argv)
"""

ZSH: Final = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d $PWD/dump; LISTMAX=1000'
zpty -w shell 'echo re""ady'
zpty -r shell seen '*ready*'
zpty -w -n shell "$1"$'\\t\\t'
zpty -r shell seen "*$2*"
print -r -- "$seen"
"""


def printed(*arguments: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["headrace", *arguments])
    assert code == 0
    return out.getvalue()


def played(shell: str, driver: str, folder: Path, *arguments: str) -> str:
    """What a shell that has our script prints when it carries out `driver`."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell}")
    name = "_headrace" if shell == "zsh" else "script"
    (folder / name).write_text(printed("completion", shell))
    (folder / "driver").write_text(driver)
    (folder / "nats.conf").touch()
    (folder / "store").mkdir()
    done = subprocess.run(
        [found, str(folder / "driver"), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LINES: Final = [
    (("",), set(COMMANDS)),
    (("se",), {"serve", "server"}),
    (("serve", "--st"), {"--store_dir", "--streaming"}),
    (("streaming", "re"), {"report", "replay"}),
    (("streaming", "--cluster_i"), {"--cluster_id"}),
    (("jetstream", ""), {"import", "backup", "verify", "restore", "upload", "status", "stepdown"}),
    (("jetstream", "backup", "--a"), {"--account"}),
    (("tables", "compact", "--f"), {"--file-size"}),
    (("pipeline", "run", "--metr"), {"--metrics"}),
    (("completion", ""), {"bash", "zsh", "fish"}),
]


@pytest.mark.parametrize(("words", "offered"), LINES)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], offered: set[str]) -> None:
    assert set(played("bash", BASH, tmp_path, "headrace", *words).split()) == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("serve", "-c", "na"), {"nats.conf"}),
        (("serve", "--config", "na"), {"nats.conf"}),
        (("config", "check", "na"), {"nats.conf"}),
        (("serve", "-sd", ""), {"store"}),
        (("jetstream", "backup", "--dir", ""), {"store"}),
    ],
)
def test_bash_completes_files_and_directories(
    tmp_path: Path, words: tuple[str, ...], offered: set[str]
) -> None:
    assert set(played("bash", BASH, tmp_path, "headrace", *words).split()) == offered


@pytest.mark.parametrize(("words", "offered"), LINES)
def test_fish_completes(tmp_path: Path, words: tuple[str, ...], offered: set[str]) -> None:
    lines = played("fish", FISH, tmp_path, "headrace", *words).splitlines()

    assert {line.partition("\t")[0] for line in lines} == offered


def test_zsh_completes(tmp_path: Path) -> None:
    assert "--store_dir" in played("zsh", ZSH, tmp_path, "headrace serve --st", "--streaming")


def test_every_flag_of_a_server_can_be_completed(tmp_path: Path) -> None:
    """Also the one that has letters of other flags only, such as -DV."""
    offered = set(played("bash", BASH, tmp_path, "headrace", "serve", "-").split())

    shown = {
        word.rstrip(",") for line in printed("serve", "--help").splitlines() for word in line.split()[:2]
    }
    assert offered >= {word for word in shown if word.startswith("-")}


def test_a_script_for_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["headrace", "completion", "tcsh"])

    assert ended.value.code == 2
    assert "'tcsh'" in capsys.readouterr().err
