"""Rows of `server`: commands to servers, and tools for who writes a configuration."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument, WordFlag

_TEXT: Final = ValueKind.TEXT
_ACCOUNT: Final = WordArgument("account", "the account", ValueKind.STREAM)
_SYSTEM: Final = "Takes a user of the system account."

CONTROLS: Final = (
    CommandRow(
        words=("server", "kick"),
        summary="Close a client's connection",
        description=f"By the number that `server report connections` shows. {_SYSTEM}",
        run="server_control:kick",
        arguments=(
            WordArgument("cid", "number of the connection", ValueKind.NUMBER),
            WordArgument("server-name", "name or id of its server", ValueKind.SERVER, "?"),
        ),
        changes=True,
        asks=True,
        keys=(
            JsonKey("server", "the name of the server"),
            JsonKey("kicked", "true if the connection was closed"),
            JsonKey("connection", "the connection, as `CONNZ` shows it"),
        ),
        examples=("server kick 12 n1 --force",),
    ),
    CommandRow(
        words=("server", "reload"),
        summary="Have a server read its configuration again",
        description=f"The server of this machine is reloaded by `headrace reload`, too. {_SYSTEM}",
        run="server_control:reload",
        arguments=(WordArgument("server-name", "name or id of the server", ValueKind.SERVER),),
        changes=True,
        keys=(
            JsonKey("server", "the name of the server"),
            JsonKey("server_id", "its id"),
            JsonKey("reloaded", "true if it has read its configuration again"),
        ),
        examples=("server reload n1",),
    ),
    CommandRow(
        words=("server", "account", "info"),
        summary="Show an account as the servers know it",
        description=_SYSTEM,
        run="server_control:account_info",
        arguments=(_ACCOUNT,),
        says="`data` of the answer to `$SYS.REQ.ACCOUNT.<account>.INFO`",
        examples=("server account info A",),
    ),
    CommandRow(
        words=("server", "account", "purge"),
        summary="Remove all streams of an account",
        description=_SYSTEM,
        run="server_control:account_purge",
        arguments=(_ACCOUNT,),
        changes=True,
        asks=True,
        keys=(
            JsonKey("account", "the account"),
            JsonKey("streams", "the names of its streams before"),
            JsonKey("messages", "how many messages were in them"),
            JsonKey("purged", "true if the servers were told to remove them; they do it after their answer"),
        ),
        examples=("server account purge A --dry-run",),
    ),
    CommandRow(
        words=("server", "cluster", "step-down"),
        summary="Have another server lead JetStream's cluster",
        description=_SYSTEM,
        run="server_control:cluster_step_down",
        aliases=("stepdown", "sd"),
        flags=(
            WordFlag(("--preferred",), "name of the server that is to lead", _TEXT),
            WordFlag(("--cluster",), "a server of this cluster", _TEXT),
            WordFlag(("--tags",), "a server with this tag", _TEXT, repeated=True, metavar="TAG"),
        ),
        changes=True,
        keys=(
            JsonKey("cluster", "the name of JetStream's cluster"),
            JsonKey("former_leader", "the name of the server that led"),
            JsonKey("leader", "the name of the one that leads now"),
            JsonKey("changed", "true if the leader was told to step down"),
        ),
        examples=("server cluster step-down",),
    ),
    CommandRow(
        words=("server", "cluster", "peer-remove"),
        summary="Remove a server that is gone from JetStream's cluster",
        description=f"Its replicas are made anew on other servers. {_SYSTEM}",
        run="server_control:cluster_peer_remove",
        aliases=("rm", "pr"),
        arguments=(WordArgument("server-name", "name or peer id of the server", ValueKind.SERVER),),
        changes=True,
        asks=True,
        keys=(
            JsonKey("cluster", "the name of JetStream's cluster"),
            JsonKey("peer", "the server, as `meta_cluster` of `JSZ` shows it"),
            JsonKey("removed", "true if it was removed"),
        ),
        examples=("server cluster peer-remove n3 --dry-run",),
    ),
    CommandRow(
        words=("server", "mapping"),
        summary="Try a subject mapping",
        description="Exit 4 if the subject does not match, 2 if the mapping is none.",
        run="server_tools:mapping",
        aliases=("map",),
        arguments=(
            WordArgument("source", "what is mapped, such as orders.*.*", ValueKind.SUBJECT),
            WordArgument("destination", "what becomes of it, such as '{{wildcard(2)}}.{{wildcard(1)}}'"),
            WordArgument("subject", "a subject to map", ValueKind.SUBJECT, "?"),
        ),
        connects=False,
        keys=(
            JsonKey("source", "what is mapped"),
            JsonKey("destination", "what becomes of it"),
            JsonKey("subject", "the subject, if one was given"),
            JsonKey("mapped", "what becomes of the subject"),
        ),
        examples=("server mapping 'orders.*.*' 'orders.{{wildcard(2)}}.{{wildcard(1)}}' orders.eu.7",),
    ),
    CommandRow(
        words=("server", "passwd"),
        summary="Make the bcrypt hash of a password, for a configuration",
        run="server_tools:passwd",
        aliases=("mkpasswd", "pass", "password"),
        arguments=(WordArgument("password", "- reads the password from a pipe", _TEXT, "?"),),
        flags=(
            WordFlag(("--cost", "-c"), "work for each try, doubled with each step", ValueKind.NUMBER, 11),
            WordFlag(("--generate", "-g"), "make the password, too"),
            WordFlag(("--pass", "-p"), "the password", _TEXT, only_as_nats=True),
        ),
        connects=False,
        keys=(
            JsonKey("hash", "the hash, for `password` in a configuration"),
            JsonKey("password", "the password, where it was made"),
        ),
        examples=("server passwd --generate",),
    ),
)
