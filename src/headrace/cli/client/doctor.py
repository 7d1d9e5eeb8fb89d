"""`headrace doctor`: what will hurt, in a configuration and in running servers.

Here lives what is looked at and how findings are printed. Never lives here: the checks
(`headrace.cli.diagnosis`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.cli.diagnosis.evidence import Evidence
    from headrace.cli.diagnosis.symptoms import DoctorFinding

_STYLES: Final = {"danger": "red", "warning": "yellow", "hint": "cyan"}
_INDENT: Final = "  "


def examine(call: Call) -> ExitCode | None:
    """Look and print. Returns WRONG if there is more than hints. Raises: CommandError; ClientError."""
    from headrace.cli.diagnosis.symptoms import HarmLevel
    from headrace.cli.diagnosis.table import CHECKS, diagnose

    ignored = call.options.ignore or ()
    unknown = sorted(set(ignored) - {check.id for check in CHECKS})
    if unknown:
        raise CommandError(f"--ignore: there is no check {unknown[0]!r}", ExitCode.WRONG_USE)
    evidence = _evidence(call)
    findings = diagnose(evidence, ignored)
    document: dict[str, Any] = {
        "servers": [server.name for server in evidence.servers],
        "scope": evidence.scope,
        "findings": [_document(finding) for finding in findings],
    }
    if evidence.file is not None:
        document = {"file": evidence.file.path, **document}
    call.out.document(
        document,
        lambda: _show(call, evidence, findings),
        quiet=" ".join(finding.check.id for finding in findings),
    )
    is_wrong = any(finding.check.severity > HarmLevel.HINT for finding in findings)
    return ExitCode.WRONG if is_wrong else None


def _evidence(call: Call) -> Evidence:
    from headrace.cli.client.server_asking import server_source
    from headrace.cli.diagnosis.gathering import file_evidence, gathered
    from headrace.cli.signals import process_id

    options, shared = call.options, call.shared
    if options.pid is not None and options.file is None:
        raise CommandError("--pid needs the file that the process runs with", ExitCode.WRONG_USE)
    file = None
    if options.file is not None:
        pid = None if options.pid is None else process_id(options.pid)
        file = file_evidence(options.file, pid)
        if not (options.monitor or shared.server or shared.context):
            return gathered(call, file=file, source=None)
    with server_source(call) as source:
        return gathered(call, file=file, source=source)


def _document(finding: DoctorFinding) -> dict[str, Any]:
    check = finding.check
    return {
        "id": check.id,
        "severity": check.severity.label,
        "title": check.title,
        "advice": check.advice,
        "link": f"docs/{check.link}",
        "places": [{"place": each.place, "text": each.text} for each in finding.found],
    }


def _show(call: Call, evidence: Evidence, findings: list[DoctorFinding]) -> None:
    out = call.out
    if not out.is_terminal:
        _show_rows(call, findings)
    else:
        for finding in findings:
            check = finding.check
            label = check.severity.label
            out.line(f"{label}: {check.title} ({check.id})", _STYLES[label])
            for each in finding.found:
                out.line(f"{_INDENT}{each.place}: {each.text}")
            out.line(f"{_INDENT}{check.advice} docs/{check.link}", "dim")
    if evidence.scope == "account":
        out.note("this account only: a user of the system account, or --monitor, sees the servers")
    if not findings:
        looked = [evidence.file.path] if evidence.file is not None else []
        looked += [server.name for server in evidence.servers]
        out.note(f"nothing is wrong with {', '.join(looked)}")


def _show_rows(call: Call, findings: list[DoctorFinding]) -> None:
    from headrace.cli.text_table import TextColumn

    call.out.table(
        [TextColumn(name) for name in ("Severity", "Id", "Place", "Found", "Title", "Advice", "Link")],
        [
            (
                finding.check.severity.label,
                finding.check.id,
                each.place,
                each.text,
                finding.check.title,
                finding.check.advice,
                f"docs/{finding.check.link}",
            )
            for finding in findings
            for each in finding.found
        ],
    )
