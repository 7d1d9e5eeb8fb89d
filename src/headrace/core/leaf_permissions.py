"""Permissions of one leaf link, each way: the hub's, the leaf node's denials, JetStream's domains.

A hub takes over what its user may do; the leaf node hears of that by INFO and keeps to it. Other than for a
client a wildcard that is wider than what is allowed may be subscribed to: what does not belong is not sent.
Never lives here: what happens when something may not pass. Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.conf.account_options import Permissions, SubjectPermission
from headrace.core.permissions import PermissionSet
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    _Judge = Callable[[bytes], bool]

_OF_CLIENTS: Final = ("$JS.API.>", "$KV.>", "$OBJ.>")
_OF_SERVERS: Final = ("$JSC.>", "$NRG.>", *_OF_CLIENTS)


class Domains(Struct, frozen=True):
    """The subjects that keep two JetStream domains apart: `both` passes neither way, `outgoing` not to the
    other side.

    `notice`: what the log says of it, "" for nothing.
    """

    both: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    notice: str = ""


def domains(
    *,
    local: str,
    remote: str,
    has_jetstream: bool,
    is_system: bool,
    has_system: bool,
    server: str,
    extends: bool = True,
) -> Domains:
    """Return the permissions of a leaf link whose ends have these JetStream domains ("": none).

    `is_system`: the link is of the system account.

    Only a system account joins two servers to one JetStream; each other account keeps its own, and what a
    domain's name stands before (`$JS.<domain>.API`) is open to the other side. `extends` False: a system
    account does not join them, since accounts use the API over links of their own.
    """
    is_apart = local != remote or (not has_jetstream and not local) or not has_system
    is_apart = is_apart or (is_system and not extends)
    outgoing = (f"$JS.{local}.API.>",) if local and has_jetstream and is_apart else ()
    if is_system and is_apart:
        text = f"System account connected from {server}\nJetStream not extended, domains differ"
        if not extends:
            why = "due to presence of empty default domain"
            text = f'Not extending remote JetStream domain "{remote}" {why}\n{text}'
        return Domains(_OF_SERVERS, outgoing, text)
    if is_system:
        return Domains(
            notice=f'Extending JetStream domain "{remote}" as System Account connected from server {server}'
        )
    notice = f'JetStream using domains: local "{local}", remote "{remote}"' if is_apart else ""
    return Domains(_OF_CLIENTS, outgoing, notice)


class LeafRules:
    """The permissions of a leaf link.

    `tells`, `sends`, `receives` as a `LeafLink` is restricted with; None: anything.

    `inward`: subjects that may come (None: any), of which those in `denied_inward` are not even asked for;
    `outward` and `denied_outward`: what may go. An entry with a queue group counts for nothing, as there.
    `keeps_inward_denials`: what comes of them is refused too. Raises: ConfigError for entries that are no
    subjects.
    """

    __slots__ = ("receives", "sends", "tells")

    def __init__(
        self,
        inward: SubjectPermission | None,
        outward: SubjectPermission | None,
        *,
        denied_inward: Iterable[str] = (),
        denied_outward: Iterable[str] = (),
        keeps_inward_denials: bool,
    ) -> None:
        asked = _merged(inward, denied_inward)
        sent = _merged(outward, denied_outward)
        received = asked if keeps_inward_denials else _merged(inward, ())
        self.tells: Final = None if asked is None else _Asking(asked)
        self.sends: Final = _judge(sent)
        self.receives: Final = _judge(received)


def _merged(given: SubjectPermission | None, denied: Iterable[str]) -> SubjectPermission | None:
    """Return one permission of both; None when everything is allowed. Nothing allowed is `()`."""
    given = given or SubjectPermission()
    allow = None if given.allow is None else tuple(each for each in given.allow if " " not in each)
    deny = (*(each for each in given.deny if " " not in each), *denied)
    return None if allow is None and not deny else SubjectPermission(allow, deny)


def _judge(given: SubjectPermission | None) -> _Judge | None:
    if given is None:
        return None
    if given.allow == ():
        return lambda _: False
    return PermissionSet(Permissions(publish=given)).may_publish


class _Asking:
    """A predicate: is interest in a subject, perhaps a wildcard, told to the other side?"""

    __slots__ = ("_allow", "_set")

    def __init__(self, given: SubjectPermission) -> None:
        self._allow = None if given.allow is None else [subject.encode() for subject in given.allow]
        self._set = PermissionSet(Permissions(subscribe=SubjectPermission(None, given.deny)))

    def __call__(self, subject: bytes) -> bool:
        return self._is_allowed(subject) and self._set.may_subscribe(subject)

    def _is_allowed(self, subject: bytes) -> bool:
        if self._allow is None or any(grammar.is_subset(subject, each) for each in self._allow):
            return True
        return grammar.has_wildcard(subject) and any(grammar.is_subset(each, subject) for each in self._allow)
