"""The rows of `nkey`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument, WordFlag

_FILE: Final = WordArgument("file", "the file; - for standard input", ValueKind.FILE)
_KEY: Final = WordArgument("key", "file with the seed; - for standard input", ValueKind.FILE)
_PUBLIC: Final = WordArgument("key", "the public key, or a file with its seed", ValueKind.FILE)
_KIND: Final = JsonKey("kind", "the kind of the key")
_PUBLIC_KEY: Final = JsonKey("public", "the public key")
_SENDER: Final = JsonKey("sender", "the public key of who encrypted it")
_RECIPIENT: Final = JsonKey("recipient", "the public key of who can read it")
_THEIRS: Final = "XCUFFARVD6VVA3W7VWOGCFG4MAWPD57L6PTYKWK3S3MWHEJVZTOGIRUN"
_WRITTEN: Final = JsonKey("file", "the file that was written, with `--output`")

ROWS: Final = (
    CommandRow(
        words=("nkey", "gen"),
        summary="Make a key",
        description="Prints its seed and the public key; with --output the seed goes into a file that only "
        "its owner can read. Exit code 10 if there is a file already.",
        run="nkey:generate",
        connects=False,
        arguments=(
            WordArgument("kind", "whose key", choices=("user", "account", "operator", "server", "curve")),
        ),
        flags=(WordFlag(("--output", "-o"), "file for the seed", ValueKind.FILE),),
        keys=(_KIND, _PUBLIC_KEY, JsonKey("seed", "the seed, without `--output`"), _WRITTEN),
        examples=("nkey gen user --output user.nk", "nkey gen curve --json"),
    ),
    CommandRow(
        words=("nkey", "show"),
        summary="Show the public key of a seed, and of which kind it is",
        run="nkey:show",
        connects=False,
        arguments=(_PUBLIC._replace(help="file with the seed, - for standard input, or a public key"),),
        keys=(_KIND, _PUBLIC_KEY),
        examples=("nkey show user.nk", "nkey show user.nk -q"),
    ),
    CommandRow(
        words=("nkey", "sign"),
        summary="Sign a file",
        description="The signature is base64url without padding.",
        run="nkey:sign",
        connects=False,
        arguments=(_FILE, _KEY),
        keys=(_PUBLIC_KEY, JsonKey("signature", "the signature")),
        examples=("nkey sign release.tar user.nk -q",),
    ),
    CommandRow(
        words=("nkey", "verify"),
        summary="Check the signature of a file",
        description="Exit code 3 if the signature is not that of this key over this file.",
        run="nkey:verify",
        aliases=("check",),
        connects=False,
        arguments=(_FILE, WordArgument("signature", "the signature, in base64 or base64url"), _PUBLIC),
        keys=(_PUBLIC_KEY, JsonKey("valid", "true if the signature is right")),
        examples=("nkey verify release.tar SIGNATURE user.nk",),
    ),
    CommandRow(
        words=("nkey", "seal"),
        summary="Encrypt a file for the holder of a curve key",
        description="Prints base64, or writes the bytes into a file. Who opens it sees that it comes from "
        "the key that encrypted it.",
        run="nkey:seal",
        connects=False,
        arguments=(_FILE, _KEY, WordArgument("recipient", "the public curve key (X...) of who may read it")),
        flags=(WordFlag(("--output", "-o"), "file for the encrypted bytes", ValueKind.FILE),),
        keys=(
            _SENDER,
            _RECIPIENT,
            JsonKey("size_bytes", "the bytes of what was encrypted"),
            JsonKey("sealed", "what was encrypted, in base64, without `--output`"),
            _WRITTEN,
        ),
        examples=(f"nkey seal plan.txt mine.nk {_THEIRS} -o plan.sealed",),
    ),
    CommandRow(
        words=("nkey", "open"),
        summary="Decrypt a file that was sealed",
        description="Exit code 3 if it is damaged, for another key, or not from this sender.",
        run="nkey:open_sealed",
        aliases=("unseal",),
        connects=False,
        arguments=(_FILE, _KEY, WordArgument("sender", "the public curve key (X...) of who encrypted it")),
        flags=(WordFlag(("--output", "-o"), "file for what was in it, for its owner only", ValueKind.FILE),),
        keys=(
            _SENDER,
            _RECIPIENT,
            JsonKey("size_bytes", "the bytes of what was in it"),
            JsonKey("data", "what was in it, where it is UTF-8, without `--output`"),
            JsonKey("data_base64", "the same in base64, where it is not UTF-8"),
            _WRITTEN,
        ),
        examples=(f"nkey open plan.sealed mine.nk {_THEIRS} > plan.txt",),
    ),
)
