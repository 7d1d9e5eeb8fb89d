"""Writes docs/doctor.md from the table of checks of `headrace doctor`.

    python -m docs.doctor

Ids, severities and texts are those of `headrace.cli.diagnosis.table`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.cli.diagnosis.symptoms import HarmLevel
from headrace.cli.diagnosis.table import CHECKS

PAGE: Final = Path(__file__).with_name("doctor.md")

_INTRODUCTION: Final = """\
# What `headrace doctor` looks for

`headrace doctor` says what will hurt, the worst first, each with what to do. This page is made from its table
(`python -m docs.doctor`); the flags are in [cli.md](cli.md#doctor), the keys of `--json` in
[cli-json.md](cli-json.md#doctor).

```text
headrace doctor headrace.conf                                 a configuration, of Headrace or nats-server
headrace doctor --user admin --password-file secret           the running servers, by the system account
headrace doctor --monitor http://127.0.0.1:8222               one running server, by its monitoring port
headrace doctor headrace.conf --monitor http://127.0.0.1:8222 --pid /run/headrace.pid      all of it together
```

A configuration is read as a start would read it, and compared with the machine it is read on: the disk of its
store, the limit of open files, its certificates. Of running servers it reads `varz`, `connz`, `jsz`, `routez`
and `healthz`; it changes nothing. A user who is not of the system account gets what can be said of its own
account: streams, consumers, clients. Secrets are never shown.

The exit code is 3 if there is a danger or a warning, 0 if there are only hints or nothing: made for cron.
`--ignore ID` leaves out what is known and meant so. An id never changes.
"""

_MEANINGS: Final = {
    HarmLevel.DANGER: "It hurts now, or strangers or a single failure can take data.",
    HarmLevel.WARNING: "It will hurt when something else happens: more load, a failure, time.",
    HarmLevel.HINT: "Worth to know; the exit code stays 0.",
}


def page() -> str:
    """The page of all findings."""
    parts = [_INTRODUCTION]
    for severity in sorted(HarmLevel, reverse=True):
        parts += [f"## {severity.label.capitalize()}", "", _MEANINGS[severity], ""]
        parts += ["| id | what it means | what to do | |", "|---|---|---|---|"]
        for check in CHECKS:
            if check.severity is severity:
                name = check.link.partition("#")[0]
                link = f"[{name}]({check.link})"
                parts.append(f"| `{check.id}` | {check.title}. | {check.advice} | {link} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
