"""`headrace creds`: credentials files made, shown and checked.

A credentials file is a user's token and seed. No seed is printed: `show` says that there is one. Never lives
here: tokens of users made (`creds_user`), operators and accounts, whose stores belong to other tools.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headrace.cli.client.key_files import read_secret, read_user_private, write_secret
from headrace.cli.client.token_claims import claims_in, claims_summary
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.jwt.decoding import JWTError, decode_user, undecorated
from headrace.protocol.jwt.rules import user_issues
from headrace.protocol.keypairs import SigningKeyPair
from headrace.protocol.nkeys import KeyKind
from headrace.protocol.seeds import SeedError, decode_seed, encode_seed
from headrace.protocol.user_seeds import credentials_text, read_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call


def make(call: Call) -> None:
    """Put a user's token and seed into one file. Raises: CommandError, JWTError, SeedError."""
    options = call.options
    for name in ("jwt", "seed", "output"):
        if getattr(options, name) is None:
            raise CommandError(f"--{name} is missing", ExitCode.WRONG_USE)
    if options.jwt == options.seed == "-":
        raise CommandError("token and seed cannot both be standard input", ExitCode.WRONG_USE)
    token = undecorated(read_secret(call, options.jwt))
    claims = decode_user(token)
    private = read_user_private(call, options.seed)
    public = SigningKeyPair(KeyKind.USER, private).public
    if public != claims.subject:
        text = f"the token is for {claims.subject}, and the seed for {public}"
        raise CommandError(text, ExitCode.WRONG_USE)
    write_secret(options.output, credentials_text(token, encode_seed(KeyKind.USER, private)).encode())
    found = {"file": options.output, **claims_summary(claims_in(token, options.jwt))}
    call.out.document(found, lambda: call.out.line(f"written to {options.output}"), quiet=options.output)


def show(call: Call) -> None:
    """Show what the token in a file says. Raises: CommandError, SeedError."""
    path = call.options.file
    token, _ = read_credentials(read_secret(call, path), path)
    claims = claims_in(token, path)
    summary = claims_summary(claims)
    found = {"file": path, **summary, "seed": "[set]", "claims": claims}

    def show_facts() -> None:
        facts: list[tuple[str, Any]] = [(name.replace("_", " "), value) for name, value in summary.items()]
        call.out.facts([*facts, *_limit_facts(claims.get("nats")), ("seed", "[set]")])

    call.out.document(found, show_facts, quiet=summary.get("user"))


def check(call: Call) -> ExitCode:
    """Check a file: 3 if no server would take it. Raises: CommandError if it cannot be read."""
    path = call.options.file
    text = read_secret(call, path)
    problems = list(_problems(text, path, call.options.valid_for))
    found: dict[str, Any] = {"file": path, "valid": not problems, "problems": problems}
    try:
        found |= claims_summary(claims_in(read_credentials(text, path)[0], path))
    except (SeedError, CommandError):
        pass  # it is among the problems

    def show_lines() -> None:
        for problem in problems:
            call.out.line(problem, "red")
        if not problems:
            until = f"good until {found['expires']}" if "expires" in found else "good; it never expires"
            call.out.line(f"{found['user']} of account {found['account']}: {until}")

    call.out.document(found, show_lines, quiet=None if problems else path)
    return ExitCode.WRONG if problems else ExitCode.DONE


def _problems(text: str, path: str, valid_for_ns: int | None) -> Iterator[str]:
    """Yield for what a server would refuse the credentials, as far as they show it alone."""
    try:
        token, seed = read_credentials(text, path)
    except SeedError as error:
        yield str(error)
        return
    try:
        claims = decode_user(token)
    except JWTError as error:
        yield f"the token: {error}"
        return
    public = SigningKeyPair(*decode_seed(seed, path)).public
    if public != claims.subject:
        yield f"the token is for {claims.subject}, and the seed for {public}"
    now = time.time()
    yield from user_issues(claims, now)
    if valid_for_ns is not None and now < claims.expires < now + valid_for_ns / 1e9:
        yield f"the token expires in {int(claims.expires - now)} s"


def _limit_facts(nats: object) -> Iterator[tuple[str, Any]]:
    """Yield what people are shown of permissions and limits."""
    if not isinstance(nats, dict):
        return
    for name, said in (("pub", "publish"), ("sub", "subscribe")):
        rules = nats.get(name)
        for way in ("allow", "deny"):
            subjects = rules.get(way) if isinstance(rules, dict) else None
            if isinstance(subjects, list):
                yield f"{said} {way}", ", ".join(map(str, subjects))
    names = {
        "subs": "subscriptions", "data": "bytes", "payload": "payload", "src": "networks",
        "bearer_token": "bearer token", "allowed_connection_types": "connection types", "tags": "tags",
    }  # fmt: skip
    for name, said in names.items():
        value = nats.get(name)
        if value not in (None, -1, [], False):
            yield said, ", ".join(map(str, value)) if isinstance(value, list) else value
    responses = nats.get("resp")
    if isinstance(responses, dict):
        yield "responses", responses.get("max", "as many as the server allows")
