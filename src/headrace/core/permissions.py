"""Permissions of one user: to publish, to subscribe, to be sent messages.

Here lives the decision, made once per subject and remembered by whoever asks. Never lives here: error
texts, connections, accounts. A `PermissionSet` belongs to a user and is immutable, so all connections
of the user share it; a `ResponseTracker` belongs to one connection.

Source: client protocol, section 8; fine points compared with the Go server 2.15.1. Two of its answers
are not repeated here, on purpose:
- it lets `SUB foo.>` pass where only `foo.*` is allowed, and then delivers `foo.a.b`; here a
  subscription must lie wholly within an allowed subject;
- when two requests carry the same reply subject, the second takes away one of the permitted responses;
  here it grants them anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.errors import ConfigError, ConfigProblem
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.conf.account_options import Permissions, ResponsePermission

MAX_TRACKED_REPLIES: Final = 65536
"""Reply subjects one connection may owe a response to; one more forgets the oldest."""


class _Rule(Struct, frozen=True):
    """One allowed or denied subject; `queue` None means any subscriber, else members of that group."""

    subject: bytes
    queue: bytes | None

    def covers_queue(self, queue: bytes) -> bool:
        """True if the rule names this group. A rule's group may have wildcards; `v1.*` also names itself."""
        if self.queue is None:
            return False
        return queue == self.queue or (
            grammar.has_wildcard(self.queue) and grammar.is_subset(queue, self.queue)
        )


class _Rules:
    """The rules of one list, arranged so that the common literal ones cost one look-up."""

    __slots__ = ("_literals", "_wildcards")

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._literals: dict[bytes, list[_Rule]] = {}
        wildcards: list[_Rule] = []
        for rule in rules:
            if grammar.has_wildcard(rule.subject):
                wildcards.append(rule)
            else:
                self._literals.setdefault(rule.subject, []).append(rule)
        self._wildcards = tuple(wildcards)

    def matching(self, subject: bytes) -> list[_Rule]:
        """Rules whose subject matches this one taken literally, as a message's subject is."""
        found = list(self._literals.get(subject, ()))
        found.extend(rule for rule in self._wildcards if grammar.matches(rule.subject, subject))
        return found

    def containing(self, subject: bytes) -> list[_Rule]:
        """Rules whose subject contains all that this subscription can receive."""
        found = list(self._literals.get(subject, ()))
        found.extend(rule for rule in self._wildcards if grammar.is_subset(subject, rule.subject))
        return found

    def can_overlap(self, subject: bytes) -> bool:
        """True if some message could match both a rule and this subscription."""
        if any(grammar.overlaps(rule.subject, subject) for rule in self._wildcards):
            return True
        return any(grammar.overlaps(literal, subject) for literal in self._literals)


class PermissionSet:
    """The permissions of one user; two are equal when they were configured alike.

    Raises: ConfigError naming every entry that is not a subject (or, for subscribe, "subject queue").
    """

    __slots__ = (
        "_publish_allow",
        "_publish_deny",
        "_subscribe_allow",
        "_subscribe_deny",
        "given",
        "responses",
    )

    def __init__(self, permissions: Permissions) -> None:
        self.given: Final = permissions
        publish, subscribe = permissions.publish, permissions.subscribe
        self.responses: Final[ResponsePermission | None] = permissions.allow_responses
        problems: list[ConfigProblem] = []
        allowed = (publish.allow or ()) if publish else ()
        self._publish_allow: _Rules | None = None
        if allowed or self.responses is not None:
            # One who may only answer may publish nothing else unless a list says so.
            self._publish_allow = _Rules(_read_rules(allowed, problems, with_queue=False))
        self._publish_deny = _Rules(_read_rules(publish.deny if publish else (), problems, with_queue=False))
        subscribe_allowed = (subscribe.allow or ()) if subscribe else ()
        self._subscribe_allow: _Rules | None = None
        if subscribe_allowed:
            self._subscribe_allow = _Rules(_read_rules(subscribe_allowed, problems, with_queue=True))
        denied = _read_rules(subscribe.deny if subscribe else (), problems, with_queue=True)
        self._subscribe_deny = _Rules(denied) if denied else None
        if problems:
            raise ConfigError(problems)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PermissionSet) and self.given == other.given

    def __hash__(self) -> int:
        return hash(self.given)

    def may_publish(self, subject: bytes) -> bool:
        """True if the lists permit publishing. A response may be permitted besides, see `ResponseTracker`."""
        if self._publish_allow is not None and not self._publish_allow.matching(subject):
            return False
        return not self._publish_deny.matching(subject)

    def may_subscribe(self, subject: bytes, queue: bytes | None = None) -> bool:
        """True if a subscription is accepted.

        One wider than a denied subject is accepted, and then filtered.
        """
        allow = self._subscribe_allow
        if allow is not None and not _allows(allow.containing(subject), queue):
            return False
        return self.may_deliver(subject, queue)

    def filters_delivery(self, subject: bytes, queue: bytes | None = None) -> bool:
        """True if `may_deliver` must be asked about each message for this accepted subscription."""
        if self._subscribe_deny is None or not (queue or grammar.has_wildcard(subject)):
            return False
        return self._subscribe_deny.can_overlap(subject)

    def may_deliver(self, subject: bytes, queue: bytes | None = None) -> bool:
        """True if a message with this subject may be sent to a subscription in this group (or in none)."""
        return self._subscribe_deny is None or not _denies(self._subscribe_deny.matching(subject), queue)

    def response_tracker(self, now_ns: Callable[[], int]) -> ResponseTracker | None:
        """A tracker for one connection of this user; None when responses give it no permission."""
        return None if self.responses is None else ResponseTracker(self.responses, now_ns)


class ResponseTracker:
    """Reply subjects that one connection may publish to because a message it was sent asked for it.

    The caller tracks a reply when it delivers a message whose reply the lists do not permit anyway, and
    asks only when they refuse a publish.
    Units: `now_ns` is a monotonic clock in nanoseconds.
    """

    __slots__ = ("_expires_ns", "_granted", "_max_entries", "_max_messages", "_now_ns")

    def __init__(
        self,
        permission: ResponsePermission,
        now_ns: Callable[[], int],
        max_entries: int = MAX_TRACKED_REPLIES,
    ) -> None:
        self._max_messages = permission.max_messages
        self._expires_ns = round(permission.expires * 1e9)
        self._now_ns = now_ns
        self._max_entries = max_entries
        # reply -> [granted at, responses so far]; in the order granted, so the oldest come first.
        self._granted: dict[bytes, list[int]] = {}

    def __len__(self) -> int:
        return len(self._granted)

    def track(self, reply: bytes) -> None:
        """Permit responses to a message with this reply that has just been delivered."""
        now = self._now_ns()
        self._forget_expired(now)
        self._granted.pop(reply, None)
        if len(self._granted) >= self._max_entries:
            del self._granted[next(iter(self._granted))]
        self._granted[reply] = [now, 0]

    def may_publish(self, subject: bytes) -> bool:
        """True if a publication is a permitted response; then it counts as one."""
        entry = self._granted.get(subject)
        if entry is None:
            return False
        granted_at, sent = entry
        if self._is_expired(granted_at, self._now_ns()):
            del self._granted[subject]
            return False
        if 0 < self._max_messages <= sent + 1:
            del self._granted[subject]
        else:
            entry[1] = sent + 1
        return True

    def _is_expired(self, granted_at: int, now: int) -> bool:
        return self._expires_ns > 0 and now - granted_at > self._expires_ns

    def _forget_expired(self, now: int) -> None:
        while self._granted:
            oldest = next(iter(self._granted))
            if not self._is_expired(self._granted[oldest][0], now):
                return
            del self._granted[oldest]


def _allows(rules: list[_Rule], queue: bytes | None) -> bool:
    """A group must be among the groups that matching rules name, if any names one."""
    if queue and any(rule.queue is not None for rule in rules):
        return any(rule.covers_queue(queue) for rule in rules)
    return any(rule.queue is None for rule in rules)


def _denies(rules: list[_Rule], queue: bytes | None) -> bool:
    return any(rule.queue is None or (queue and rule.covers_queue(queue)) for rule in rules)


def _read_rules(entries: Iterable[str], problems: list[ConfigProblem], *, with_queue: bool) -> list[_Rule]:
    rules = []
    most_parts = 2 if with_queue else 1
    for entry in entries:
        parts = [part.encode() for part in entry.split()]
        if not 1 <= len(parts) <= most_parts or not all(map(grammar.is_valid_subject, parts)):
            problems.append(ConfigProblem(f'subject "{entry}" is not a valid subject'))
            continue
        rules.append(_Rule(parts[0], parts[1] if len(parts) == 2 else None))
    return rules
