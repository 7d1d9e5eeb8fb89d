"""`headrace nkey`: keys, signatures and encrypted files, exchanged with the package nkeys."""

from __future__ import annotations

import base64
import stat
from typing import TYPE_CHECKING

import nkeys
import pytest

from harness.keys import ACCOUNT, key_pair
from headrace.protocol.keypairs import CurveKeyPair
from headrace.protocol.nkeys import KeyKind

if TYPE_CHECKING:
    from pathlib import Path

    from harness.command_line import CommandLine

KINDS = {"user": "U", "account": "A", "operator": "O", "server": "N", "curve": "X"}


def made(cli: CommandLine, kind: str, name: str = "key.nk") -> tuple[str, str]:
    """A key in a file: the name of the file and the public key."""
    path = str(cli.folder / name)
    return path, cli("nkey", "gen", kind, "--output", path, "-q").ok().lines[0]


def saved(folder: Path, data: bytes, name: str = "body") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


@pytest.mark.parametrize(("kind", "letter"), KINDS.items())
def test_keys_of_all_kinds_are_made_and_shown(alone: CommandLine, kind: str, letter: str) -> None:
    found = alone("nkey", "gen", kind, "--json").ok().json
    seed, public = alone("nkey", "gen", kind).ok().lines

    assert (found["kind"], found["public"][0], found["seed"][:2]) == (kind, letter, f"S{letter}")
    assert (public[0], seed[:2]) == (letter, f"S{letter}")
    assert alone("nkey", "show", "-", "-q", stdin=seed.encode()).ok().lines == [public]
    assert alone("nkey", "show", public, "--json").ok().json == {"kind": kind, "public": public}


@pytest.mark.parametrize("kind", ["user", "account", "operator", "server"])
def test_the_package_nkeys_reads_seeds_and_signs_as_we_do(alone: CommandLine, kind: str) -> None:
    path, public = made(alone, kind)
    with open(path, "rb") as file:
        theirs = nkeys.from_seed(bytearray(file.read().strip()))
    body = saved(alone.folder, b"a release\n\x00")
    signature = alone("nkey", "sign", body, path, "-q").ok().lines[0]

    assert theirs.public_key.decode() == public
    assert base64.urlsafe_b64decode(signature + "==") == theirs.sign(b"a release\n\x00")
    assert alone("nkey", "verify", body, signature, public).ok().err == ""
    plain = base64.b64encode(theirs.sign(b"a release\n\x00")).decode()
    assert alone("nkey", "verify", body, plain, path, "--json").ok().json["valid"] is True


def test_a_signature_may_begin_with_a_dash(alone: CommandLine) -> None:
    path, public = made(alone, "user")
    with open(path, "rb") as file:
        key = nkeys.from_seed(bytearray(file.read().strip()))
    tries = ((b"%d" % number, base64.urlsafe_b64encode(key.sign(b"%d" % number))) for number in range(10_000))
    text, signature = next((text, signature) for text, signature in tries if signature.startswith(b"-"))

    body = saved(alone.folder, text)
    assert alone("nkey", "verify", body, signature.decode().rstrip("="), public).ok().err == ""
    assert alone("nkey", "sign", body, path, "-q").ok().lines == [signature.decode().rstrip("=")]


def test_what_was_changed_or_is_of_another_key_is_3(alone: CommandLine) -> None:
    path, public = made(alone, "user")
    body = saved(alone.folder, b"a release")
    signature = alone("nkey", "sign", body, path, "-q").ok().lines[0]
    other = made(alone, "user", "other.nk")[1]
    ran = alone("nkey", "verify", "-", signature, public, "--json", stdin=b"a release!")

    assert (ran.code, ran.json) == (3, {"public": public, "valid": False})
    assert alone("nkey", "verify", body, signature, other).code == 3
    assert alone("nkey", "verify", body, "no signature", public).code == 3


def test_seeds_are_in_files_of_their_owner_and_nowhere_else(alone: CommandLine) -> None:
    path = alone.folder / "key.nk"
    ran = alone("nkey", "gen", "user", "-o", str(path), "--json").ok()
    seed = path.read_text().strip()
    again = alone("nkey", "gen", "user", "-o", str(path))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert seed not in ran.out
    assert (again.code, path.read_text().strip()) == (10, seed)
    given = alone("nkey", "show", seed)
    assert given.code == 2
    assert seed not in given.err
    path.chmod(0o644)
    shown = alone("nkey", "show", str(path))
    assert "can be read by others" in shown.ok().err
    assert seed not in shown.out + shown.err


def test_files_without_a_good_seed_are_said(alone: CommandLine) -> None:
    seed = key_pair(ACCOUNT, "account").seed
    broken = seed[:20] + ("A" if seed[20] != "A" else "B") + seed[21:]
    for data, reason in ((b"nothing", "has no seed"), (broken.encode(), "checksum"), (b"\xff", "UTF-8")):
        ran = alone("nkey", "show", saved(alone.folder, data))

        assert ran.code == 1
        assert reason in ran.err
        assert broken not in ran.err
    assert alone("nkey", "show", str(alone.folder / "none")).code == 4


def test_a_seed_may_have_comments_around_it(alone: CommandLine) -> None:
    pair = key_pair(ACCOUNT, "account")
    path = saved(alone.folder, f"# of the account\n{pair.seed}\n".encode())

    assert alone("nkey", "show", path, "-q").ok().lines == [pair.public]


def test_files_are_sealed_for_one_and_opened_by_one(alone: CommandLine) -> None:
    ours, our_public = made(alone, "curve", "ours.nk")
    theirs, their_public = made(alone, "curve", "theirs.nk")
    body = saved(alone.folder, b"a plan\n")
    text = alone("nkey", "seal", body, ours, their_public).ok().raw
    opened = alone("nkey", "open", "-", theirs, our_public, stdin=text)
    found = alone("nkey", "open", "-", theirs, our_public, "--json", stdin=text).ok().json

    assert opened.ok().raw == b"a plan\n"
    assert found == {
        "sender": our_public, "recipient": their_public, "size_bytes": 7, "data": "a plan\n"
    }  # fmt: skip
    sealed, plain = str(alone.folder / "plan.sealed"), alone.folder / "plan"
    alone("nkey", "seal", body, ours, their_public, "-o", sealed).ok()
    alone("nkey", "open", sealed, theirs, our_public, "--output", str(plain)).ok()
    assert (plain.read_bytes(), stat.S_IMODE(plain.stat().st_mode)) == (b"a plan\n", 0o600)
    assert alone("nkey", "open", sealed, theirs, their_public).code == 3
    assert alone("nkey", "open", sealed, ours, our_public).code == 3
    assert alone("nkey", "open", body, theirs, our_public).code == 3


def test_what_a_server_seals_is_opened(alone: CommandLine) -> None:
    path, public = made(alone, "curve")
    sender = CurveKeyPair.generate()
    sealed = saved(alone.folder, sender.seal(b"\xff", public), "sealed")

    assert alone("nkey", "open", sealed, path, sender.public).ok().raw == b"\xff"
    assert alone("nkey", "open", sealed, path, sender.public, "--json").ok().json["data_base64"] == "/w=="


def test_keys_of_the_wrong_kind_are_wrong_use(alone: CommandLine) -> None:
    user, user_public = made(alone, "user")
    curve, curve_public = made(alone, "curve", "curve.nk")
    body = saved(alone.folder, b"x")
    for arguments in (
        ("sign", body, curve),
        ("sign", "-", "-"),
        ("verify", body, "signature", curve_public),
        ("seal", body, user, curve_public),
        ("seal", body, curve, user_public),
        ("seal", body, curve, "no key"),
        ("open", body, user, curve_public),
    ):
        assert alone("nkey", *arguments).code == 2, arguments


def test_kinds_are_those_of_the_protocol() -> None:
    assert {kind.upper() for kind in KINDS} | {"CLUSTER"} == set(KeyKind.__members__)
