"""Generated configurations: accounts with users, permissions, limits, mappings, exports and imports.

Here lives what one number makes: the same number makes the same. A world is a few accounts that know each
other and nobody else, so that one pair of servers holds many of them. Never lives here: what clients do
there (`steps`), and configurations with mistakes (`mistakes`).

What docs/divergences.md lists is kept out by the functions below `# -- not generated`.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from differential.vocabulary import FOREIGN_TOKENS, TOKENS, narrowed, pattern, widened
from harness.keys import USER, KeyPair
from headrace.conf.binding import load_options
from headrace.errors import ConfigError
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

Tree = dict[str, Any]
"""A block of a configuration; as JSON it is a configuration of both servers."""

WORLDS: Final = 30
"""How many one pair of servers holds."""

HASHED: Final = "$2a$04$uelvOdPJQ1LmVHbylupzruwV.tusZ0MMvYw3OcFBZBPcuHlygQg0."
HASHED_PASSWORD: Final = "secret"
QUEUES: Final = ("q", "q.a", "work")


@dataclass(frozen=True, repr=False)
class Login:
    """A user: what CONNECT says, and what scripts have to know of it."""

    account: str
    user: str = ""
    password: str = ""
    key: KeyPair | None = None
    token: str = ""
    answers: bool = False
    """Has allow_responses."""
    allowed: tuple[str, ...] = ()
    """Subjects it may subscribe to, without groups; empty: all."""

    @property
    def name(self) -> str:
        return self.key.public if self.key else self.user or self.token or "nobody"

    def __repr__(self) -> str:
        return f"{self.name}@{self.account}"


@dataclass(frozen=True)
class Subjects:
    """Patterns that mean something in one account: all, what comes from others, and what others get."""

    known: tuple[str, ...]
    incoming: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()


@dataclass(frozen=True)
class World:
    """Accounts that know each other, and the subjects of each of them."""

    accounts: Tree
    logins: tuple[Login, ...]
    subjects: dict[str, Subjects]
    crowded: bool = False
    """True if some account counts its connections."""

    def neighbours(self, account: str) -> set[str]:
        """Accounts that import from this one, or the other way round."""
        links = {(name, source_of(entry)["account"]) for name, entry in self._imports()}
        return {one for link in links if account in link for one in link}

    def ways(self, publisher: str, subscriber: str, wanted: str) -> list[str]:
        """What one account publishes to, as patterns, that a subscription of the other one receives."""
        found = []
        for name, entry in self._imports():
            source, local = source_of(entry), local_pattern(entry)
            if (name, source["account"]) == (publisher, subscriber) and "service" in entry:
                found += [local] if _meet(source["subject"], wanted) else []
            elif (source["account"], name) == (publisher, subscriber) and "stream" in entry:
                found += [source["subject"]] if _meet(local, wanted) else []
        return found

    def takes_for_response(self, account: str, subject: str) -> bool:
        """Whether it belongs to a service imported with wildcards: the Go server looks for them elsewhere."""
        return any(
            name == account
            and "service" in entry
            and _is_wide(entry)
            and _meet(local_pattern(entry), subject)
            for name, entry in self._imports()
        )

    def _imports(self) -> Iterator[tuple[str, Tree]]:
        for name, tree in self.accounts.items():
            for entry in tree["imports"]:
                yield name, entry


@dataclass(frozen=True)
class Universe:
    """The whole configuration of a pair of servers."""

    number: int
    tree: Tree
    worlds: tuple[World, ...]
    guest: Login | None = None
    """Who a client without credentials is; None: refused."""

    @property
    def text(self) -> str:
        return json.dumps(self.tree, indent=1)


def universe(number: int) -> Universe:
    """The configuration with this number."""
    rng = random.Random(number)
    if number % 4 == 3:
        return _plain(number, rng)
    worlds = [_world(rng, f"{number}_{n}") for n in range(WORLDS)]
    home, block = _home(rng)
    tree: Tree = {**block, "accounts": {name: a for world in worlds for name, a in world.accounts.items()}}
    tree["system_account"] = "SYS"
    tree["accounts"]["SYS"] = {}
    tree |= _server(rng)
    guest = None
    if rng.random() < 0.5:
        logins = [login for world in [home, *worlds] for login in world.logins]
        guest = rng.choice([login for login in logins if not _is_hashed(login)])
        tree["no_auth_user"] = guest.name
    return Universe(number, tree, (home, *worlds), guest)


def small(rng: Random) -> Tree:
    """A configuration of one world, with users outside of it."""
    world = _world(rng, "")
    return {**_home(rng)[1], "accounts": {**world.accounts, "SYS": {}}, "system_account": "SYS"}


def _plain(number: int, rng: Random) -> Universe:
    """No accounts: nobody is asked, or everybody for one token, or for one name."""
    kind = rng.choice(("open", "token", "single", "listed"))
    tree: Tree = _server(rng)
    subjects = tuple(pattern(rng) for _ in range(10))
    login = Login("$G")
    logins = [login]
    if kind == "token":
        tree["authorization"] = {"token": "s3cret"}
        logins = [Login("$G", token="s3cret")]
    elif kind == "single":
        tree["authorization"] = {"user": "one", "password": "p"}
        logins = [Login("$G", "one", "p")]
    elif kind == "listed":
        world, block = _home(rng)
        tree |= block
        return Universe(number, tree, (world,))
    mappings = _mappings(rng)
    if mappings:
        tree["mappings"] = mappings
    guest = login if kind == "open" else None
    world = World({}, tuple(logins), {"$G": Subjects((*subjects, *mappings), outgoing=tuple(mappings))})
    return Universe(number, tree, (world,), guest)


def _server(rng: Random) -> Tree:
    some: Tree = rng.choice(({"max_payload": 16}, {"max_subscriptions": 5}, {"no_header_support": True}))
    return some if rng.random() < 0.3 else {}


def _home(rng: Random) -> tuple[World, Tree]:
    """The account of those who are listed outside of accounts."""
    maker = _Users(rng, "home", "$G", [pattern(rng) for _ in range(6)])
    users = maker.several(3)
    mappings = _mappings(rng)
    authorization: Tree = {"users": users}
    if maker.defaults:
        authorization["default_permissions"] = maker.defaults
    tree: Tree = {"authorization": authorization}
    if mappings:
        tree["mappings"] = mappings
    subjects = Subjects((*maker.subjects, *mappings), outgoing=tuple(mappings))
    return World({}, tuple(maker.logins), {"$G": subjects}), tree


# -- accounts ---------------------------------------------------------------------------------------


def _world(rng: Random, name: str) -> World:
    names = [f"W{name}{letter}" for letter in "ABCD"[: rng.choice((1, 2, 2, 2, 3, 3, 4))]]
    accounts: Tree = {account: {"exports": _exports(rng, names)} for account in names}
    for account in names:
        accounts[account]["imports"] = _imports(rng, account, accounts)
        mappings = _mappings(rng)
        if mappings:
            accounts[account]["mappings"] = mappings
    _make_sound(rng, accounts)
    logins: list[Login] = []
    subjects: dict[str, Subjects] = {}
    crowded = False
    for account, tree in accounts.items():
        incoming, outgoing = _subscribed_to(tree), _published_to(tree)
        maker = _Users(rng, account, account, [*incoming, *outgoing, *(pattern(rng) for _ in range(4))])
        tree["users"] = maker.several(rng.choice((1, 2, 2, 3)))
        if maker.defaults:
            tree["default_permissions"] = maker.defaults
        if rng.random() < 0.15:
            tree["limits"] = limits = _limits(rng)
            crowded = crowded or "max_connections" in limits
        logins += maker.logins
        subjects[account] = Subjects(tuple(maker.subjects), tuple(incoming), tuple(outgoing))
    return World(accounts, tuple(logins), subjects, crowded)


def _make_sound(rng: Random, accounts: Tree) -> None:
    """Takes imports out until the accounts are a configuration."""
    while not _is_sound(accounts) or _seems_circular(accounts):
        where = rng.choice([tree["imports"] for tree in accounts.values() if tree["imports"]])
        where.pop(rng.randrange(len(where)))


def _is_sound(accounts: Tree) -> bool:
    try:
        load_options(text=json.dumps({"accounts": accounts}), environ={})
    except ConfigError:
        return False
    return True


def _published_to(tree: Tree) -> list[str]:
    """Patterns of what leaves an account, or comes out of it as something else."""
    streams = [entry["stream"] for entry in tree["exports"] if "stream" in entry]
    services = [local_pattern(entry) for entry in tree["imports"] if "service" in entry]
    return [*streams, *services, *tree.get("mappings", {})]


def _subscribed_to(tree: Tree) -> list[str]:
    """Patterns of what comes into an account."""
    services = [entry["service"] for entry in tree["exports"] if "service" in entry]
    return [*services, *(local_pattern(entry) for entry in tree["imports"] if "stream" in entry)]


def _limits(rng: Random) -> Tree:
    kind, values = rng.choice(
        (("max_connections", (0, 1, 2)), ("max_subscriptions", (1, 2)), ("max_payload", (0, 8, 16)))
    )
    return {kind: rng.choice(values)}


# -- exports and imports ----------------------------------------------------------------------------


def _exports(rng: Random, names: list[str]) -> list[Tree]:
    drawn = [_export(rng, names) for _ in range(rng.choice((1, 2, 3, 4)))]
    return [entry for number, entry in enumerate(drawn) if not _is_hidden(entry, drawn[:number])]


def _export(rng: Random, names: list[str]) -> Tree:
    subject = pattern(rng)
    kind = rng.choice(("stream", "service"))
    entry: Tree = {kind: subject}
    stars = [at for at, token in enumerate(subject.split("."), 1) if token == "*"]
    if rng.random() < 0.2:
        entry["accounts"] = rng.sample(names, rng.randint(1, len(names)))
    if stars and rng.random() < 0.2:
        entry["account_token_position"] = rng.choice(stars)
    if kind == "service" and rng.random() < 0.5:
        entry["response_type"] = rng.choice(("singleton", "stream", "chunked"))
    return entry


def _imports(rng: Random, importer: str, accounts: Tree) -> list[Tree]:
    offered = [
        (name, entry) for name, tree in accounts.items() if name != importer for entry in tree["exports"]
    ]
    chosen = rng.sample(offered, min(len(offered), rng.choice((2, 3, 4))))
    return [_import(rng, importer, *offer) for offer in chosen]


def _import(rng: Random, importer: str, exporter: str, export: Tree) -> Tree:
    kind = "stream" if "stream" in export else "service"
    subject = export[kind]
    if place := export.get("account_token_position"):
        tokens = subject.split(".")
        tokens[place - 1] = importer
        subject = ".".join(tokens)
    elif rng.random() < 0.3:
        subject = narrowed(rng, subject)
    entry: Tree = {kind: {"account": exporter, "subject": subject}}
    if kind == "stream" and rng.random() < 0.3:
        entry["prefix"] = rng.choice((*FOREIGN_TOKENS, "x.y"))
    elif rng.random() < 0.5:
        is_single = kind == "service" and grammar.is_literal(subject.encode())
        entry["to"] = pattern(rng) if is_single and rng.random() < 0.3 else _renamed(rng, subject)
    if kind == "service" and rng.random() < 0.2:
        entry["share"] = True
    return entry


def _renamed(rng: Random, subject: str) -> str:
    """What an imported subject is called: its wildcards once each, in any order, among other tokens."""
    tokens = subject.split(".")
    count = tokens.count("*")
    forms = [rng.choice(("${}", "{{{{wildcard({})}}}}")).format(n) for n in range(1, count + 1)]
    if rng.random() < 0.3:
        forms = ["*"] * count
    rng.shuffle(forms)
    for token in rng.choices((*FOREIGN_TOKENS, *TOKENS), k=rng.choice((1, 1, 2))):
        forms.insert(rng.randint(0, len(forms)), token)
    if tokens[-1] == ">":
        forms.append(">")
    return ".".join(forms)


def source_of(entry: Tree) -> Tree:
    """Account and subject of an import."""
    source: Tree = entry.get("stream") or entry["service"]
    return source


def _is_wide(entry: Tree) -> bool:
    return grammar.has_wildcard(source_of(entry)["subject"].encode())


def _meet(first: str, second: str) -> bool:
    return grammar.overlaps(first.encode(), second.encode())


def local_pattern(entry: Tree) -> str:
    """What is imported, as subscriptions of the importing account have it."""
    prefix = f"{entry['prefix']}." if "prefix" in entry else ""
    to = entry.get("to", prefix + source_of(entry)["subject"])
    return ".".join("*" if token.startswith(("$", "{{")) else token for token in to.split("."))


# -- mappings ---------------------------------------------------------------------------------------


def _mappings(rng: Random) -> Tree:
    mappings: Tree = {}
    for _ in range(rng.choice((0, 0, 1, 2))):
        source = pattern(rng)
        if _is_apart(source, mappings) and not _meet(source, "_R_.a.b"):  # what is made of those differs
            mappings[source] = _mapped(rng, source)
    return mappings


def _mapped(rng: Random, source: str) -> object:
    destination = _destination(rng, source)
    kind = rng.random()
    if kind < 0.7:
        return destination
    if kind < 0.85:
        return [{"destination": destination, "weight": rng.choice((100, "100%"))}]
    if grammar.is_literal(source.encode()) and source != destination:
        # All of what is not lost goes where it came from, or nothing is left.
        return [
            {"destination": source, "weight": rng.choice((0, 100))},
            {"destination": destination, "weight": 0},
        ]
    return {"destination": destination, "weight": rng.choice((0, 100))}


def _destination(rng: Random, source: str) -> str:
    tokens = source.split(".")
    count = tokens.count("*")
    made = [_piece(rng, n) for n in range(1, count + 1) if rng.random() < 0.8]
    if rng.random() < 0.2 and not _hashes_by_chance(source):
        made.append("{{partition(3)}}")
    rng.shuffle(made)
    for token in rng.choices(TOKENS, k=rng.choice((1, 1, 2))):
        made.insert(rng.randint(0, len(made)), token)
    if tokens[-1] == ">":
        made.append(">")
    return ".".join(made)


def _piece(rng: Random, index: int) -> str:
    functions = (
        f"partition(2,{index})",
        f"splitFromLeft({index},1)",
        f"sliceFromRight({index},2)",
        f"split({index},a)",
        f"left({index},1)",
        f"wildcard({index})",
    )
    return rng.choice((f"${index}", f"${index}", "{{" + rng.choice(functions) + "}}"))


# -- users ------------------------------------------------------------------------------------------


@dataclass
class _Users:
    """Makes the users of one account; `subjects` grows by what their permissions speak of."""

    rng: Random
    prefix: str
    account: str
    subjects: list[str]
    logins: list[Login] = field(default_factory=list)
    defaults: Tree = field(default_factory=dict)

    def several(self, count: int) -> list[Tree]:
        if self.rng.random() < 0.12:
            self.defaults = self._permissions()
        return [self._user(n) for n in range(count)]

    def _user(self, number: int) -> Tree:
        rng = self.rng
        user = f"{self.prefix}-{number}"
        tree: Tree = {}
        permissions: Tree | None = self._permissions() if rng.random() < 0.3 else None
        if permissions is not None:
            tree["permissions"] = permissions
        effective = permissions if permissions is not None else self.defaults
        login = Login(
            self.account,
            answers=bool(effective.get("allow_responses")),
            allowed=_allowed(effective.get("subscribe")),
        )
        kind = rng.random()
        if kind < 0.15:
            key = KeyPair(USER, rng.randbytes(32))
            self.logins.append(replace(login, key=key))
            return {"nkey": key.public, **tree}
        password, stored = (HASHED_PASSWORD, HASHED) if kind > 0.97 else ("p", "p")
        self.logins.append(replace(login, user=user, password=password))
        return {"user": user, "password": stored, **tree}

    def _permissions(self) -> Tree:
        rng = self.rng
        tree: Tree = {}
        if rng.random() < 0.6:
            tree["publish"] = self._rules(with_queue=False)
        if rng.random() < 0.6:
            tree["subscribe"] = self._rules(with_queue=True)
        if rng.random() < 0.3:
            tree["allow_responses"] = rng.choice(
                (True, True, False, {"max": 2, "expires": "1m"}, {"max": -1, "expires": "1m"}, {"max": 1})
            )
        return tree

    def _rules(self, *, with_queue: bool) -> object:
        rng = self.rng
        kind = rng.random()
        if kind < 0.2:
            return self._rule(with_queue=with_queue)
        if kind < 0.5:
            return [self._rule(with_queue=with_queue) for _ in range(rng.choice((1, 2, 3)))]
        rules: Tree = {}
        for name in ("allow", "deny"):
            if rng.random() < 0.7:
                rules[name] = [self._rule(with_queue=with_queue) for _ in range(rng.choice((1, 2, 3)))]
        return rules

    def _rule(self, *, with_queue: bool) -> str:
        rng = self.rng
        of_account = [widened(rng, rng.choice(self.subjects)) for _ in range(6)]
        subject = rng.choice((*of_account, pattern(rng), pattern(rng), ">", "_INBOX.>"))
        self.subjects.append(subject)
        if with_queue and rng.random() < 0.2:
            return f"{subject} {rng.choice((*QUEUES, 'q.*', '>'))}"
        return subject


def _allowed(rules: object) -> tuple[str, ...]:
    if isinstance(rules, dict):
        rules = rules.get("allow", ())
    entries = [rules] if isinstance(rules, str) else rules or ()
    return tuple(entry.split()[0] for entry in entries)  # type: ignore[attr-defined]


# -- not generated ----------------------------------------------------------------------------------


def _is_apart(source: str, mappings: Tree) -> bool:
    """Overlapping mappings: the Go server takes one of them at random."""
    return not any(_meet(source, other) for other in mappings)


def _is_hidden(export: Tree, others: list[Tree]) -> bool:
    """Overlapping exports: the Go server asks one of those that contain an import's subject, at random."""
    return any(
        _meet(export[kind], other[kind])
        for other in others
        for kind in export.keys() & other.keys() & {"stream", "service"}
    )


def _is_hashed(login: Login) -> bool:
    """As `no_auth_user`: the Go server gives the hash for the password, and refuses it."""
    return login.password == HASHED_PASSWORD


def _hashes_by_chance(source: str) -> bool:
    """`{{partition(n)}}` of a literal source: the Go server hashes the subject, or nothing, by chance."""
    return grammar.is_literal(source.encode())


def has_bad_export(tree: Tree) -> bool:
    """An export that is no subject: the Go server takes it, and nobody can import it."""
    accounts = tree.get("accounts")
    return any(
        not grammar.is_valid_subject(entry[kind].encode())
        for account in (accounts.values() if isinstance(accounts, dict) else ())
        for entry in account.get("exports", ())
        for kind in entry.keys() & {"stream", "service"}
    )


def seems_otherwise(accounts: Tree) -> bool:
    """What the Go server finds in sound accounts, or not, by the order in which it looks at them."""
    exports = [tree.get("exports", []) for tree in accounts.values()]
    return _seems_circular(accounts) or any(
        _is_hidden(entry, [other for other in entries if other is not entry])
        for entries in exports
        for entry in entries
    )


@dataclass(frozen=True)
class _Edge:
    """An import: who of whom, and what it is called here and there."""

    importer: str
    exporter: str
    local: str
    remote: str


def _seems_circular(accounts: Tree) -> bool:
    """Imports that do not go round but may be taken for it: the Go server looks at less than all subjects."""
    for kind in ("stream", "service"):
        edges = [
            _Edge(name, entry[kind]["account"], local_pattern(entry), entry[kind]["subject"])
            for name, tree in accounts.items()
            for entry in tree.get("imports", ())
            if kind in entry
        ]
        if any(_leads_back(edge, edges, kind, {edge.importer}, set()) for edge in edges):
            return True
    return False


def _leads_back(edge: _Edge, edges: list[_Edge], kind: str, passed: set[str], names: set[str]) -> bool:
    names = names | ({edge.local} if kind == "service" else {edge.local, edge.remote})
    for other in edges:
        met = other.remote if kind == "service" else other.local
        if other.importer == edge.exporter and any(_meet(name, met) for name in names):
            if other.exporter in passed:
                return True
            passed.add(other.importer)
            if _leads_back(other, edges, kind, passed, names):
                return True
    return False


def leaks(login: Login, subscription: str) -> bool:
    """A subscription wider than an allow rule of the same depth: the Go server takes it."""
    wide = subscription.encode()
    if not subscription.endswith(">"):
        return False
    return any(
        grammar.matches(rule.encode(), wide) and not grammar.is_subset(wide, rule.encode())
        for rule in login.allowed
    )
