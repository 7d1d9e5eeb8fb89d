"""The builder of options: values of the file, values that replace them, and the rules between options.

Here lives the merging and the rules that concern several options; what holds for one alone is in its entry
(`keys`). Never lives here: reading of values (`fields`, `binding`).
Source: the Go server 2.15.1; where it takes zero for "the default", so do we.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from headrace.conf.account_options import GLOBAL_ACCOUNT, AuthorizationBlock, check_credentials
from headrace.conf.keys import NOT_NEGATIVE
from headrace.conf.options import Options
from headrace.conf.problems import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.accounts import AccountsBlock
    from headrace.conf.console_options import ConsoleOptions
    from headrace.conf.fields import Bound
    from headrace.conf.jetstream import JetStreamBlock
    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.leaf_options import LeafNodeOptions
    from headrace.conf.mqtt_options import MqttOptions
    from headrace.conf.peer_options import ClusterOptions, GatewayOptions
    from headrace.conf.problems import Problems
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.conf.streaming_rules import Setting, StreamingFlags
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.websocket_options import WebSocketOptions
    from headrace.errors import Position

_INT32_MAX: Final = (1 << 31) - 1
_UNLIMITED: Final = -1
_CREDENTIALS: Final = frozenset(("user", "password", "token"))
BOUND_PORTS: Final = "bound_ports"
"""An override: the ports of a server that is started again, by the name of their block."""

_FLAG_GROUPS: Final = frozenset(
    ("tls_flags", "streaming_flags", "jetstream_flags", "cluster_flags", "console_flags", BOUND_PORTS)
)
_DEFAULTS: Final = Options()


def check_names(overrides: Mapping[str, object]) -> None:
    """Check the names of overrides. Raises: TypeError if one names nothing that can be set."""
    known = Options.KEYS.keys() | _CREDENTIALS | _FLAG_GROUPS
    unknown = sorted(set(overrides) - known)
    if unknown:
        raise TypeError(f"unknown option: {', '.join(unknown)}")


class OptionsBuilder:
    """Options in the making: values by name, and where in the file each comes from."""

    __slots__ = (
        "_accounts",
        "_block",
        "_environ",
        "_failed",
        "_jetstream",
        "_jetstream_flags",
        "_operator",
        "_positions",
        "_problems",
        "_streaming",
        "_values",
    )

    def __init__(self, problems: Problems, environ: Mapping[str, str]) -> None:
        self._problems = problems
        self._environ = environ
        self._values: dict[str, object] = {}
        self._positions: dict[str, Position] = {}
        self._failed: set[str] = set()
        self._block = AuthorizationBlock()
        self._accounts: AccountsBlock | None = None
        self._operator: dict[str, object] = {}
        self._streaming: Mapping[str, Setting] | None = None
        self._jetstream: JetStreamBlock | None = None
        self._jetstream_flags: Mapping[str, object] | None = None

    def take(self, bound: Bound) -> None:
        """Start from what a file says."""
        from headrace.conf.toplevel import OPERATOR_OPTIONS

        self._positions = dict(bound.positions)
        self._failed = set(bound.failed)
        for option, value in bound.values.items():
            if isinstance(value, AuthorizationBlock):
                self._block = value
            elif option in OPERATOR_OPTIONS:
                self._operator[option] = value
            elif option == "streaming":
                self._streaming = cast("Mapping[str, Setting]", value)
            elif option == "jetstream":
                self._jetstream = cast("JetStreamBlock", value)
            elif option == "accounts":
                self._accounts = cast("AccountsBlock", value)
                self._values["accounts"] = self._accounts.accounts
            else:
                self._set(option, value)
        # Without a system account, unless one is named all the same.
        if self._values.pop("no_system_account", False):
            self._values.setdefault("system_account", None)

    def override(self, overrides: Mapping[str, object]) -> None:
        """Let overrides replace what the file says; a value of None says nothing."""
        given = {name: value for name, value in overrides.items() if value is not None}
        credentials = {name: cast("str", given.pop(name)) for name in _CREDENTIALS & set(given)}
        flags = given.pop("tls_flags", None)
        streaming = given.pop("streaming_flags", None)
        cluster = given.pop("cluster_flags", None)
        console = given.pop("console_flags", None)
        self._jetstream_flags = cast("Mapping[str, object] | None", given.pop("jetstream_flags", None))
        for option, value in given.items():
            self._positions.pop(option, None)
            self._failed.discard(option)
            self._set(option, value)
        if any(credentials.values()):
            self._override_credentials(credentials)
        if flags is not None:
            self._override_tls(cast("Mapping[str, object]", flags))
        if streaming is not None:
            self._override_streaming(cast("StreamingFlags", streaming))
        if cluster is not None:
            self._override_cluster(cast("Mapping[str, object]", cluster))
        if console is not None:
            self._override_console(cast("Mapping[str, str]", console))

    def check(self) -> None:
        """Apply the rules between options.

        Raises: ConfigError with these problems and all found before.
        """
        for option, key in Options.KEYS.items():
            value = self._values.get(option)
            if key.between is None or not isinstance(value, int | float):
                continue
            low, high = key.between
            if key.between == NOT_NEGATIVE and value < 0:
                self._report(f"{option} cannot be negative", option)
            elif not low <= value <= high:
                self._report(f"{option} must lie between {low} and {high}", option)
        self._check_sizes()
        self._check_monitoring()
        self._check_lame_duck()
        name = self._values.get("server_name")
        if isinstance(name, str) and " " in name:
            self._report("server name cannot contain spaces", "server_name")
        self._check_operator()
        self._check_no_auth_user("no_auth_user", self._values.get("no_auth_user"))
        self._check_websocket()
        self._check_credentials_of("mqtt")
        self._check_accounts()
        self._check_leafnodes()
        self._check_callout()
        self._check_gateway()
        if self._streaming is not None and "streaming" not in self._failed:
            from headrace.conf.streaming_rules import streaming_options

            self._values["streaming"] = streaming_options(self._streaming, self._problems, self._environ)
        self._check_jetstream()
        self._check_default_domains()
        self._check_mqtt()
        self._check_adopted()
        self._check_processes()
        self._problems.raise_any()

    def options(self) -> Options:
        """The finished options; call `check` before."""
        values = cast("dict[str, Any]", self._values)
        values.setdefault("authorization", self._block.options())
        return Options(
            **values,
            warnings=tuple(map(str, self._problems.warnings)),
            remarks=tuple(map(str, self._problems.remarks)),
        )

    def _set(self, option: str, value: object) -> None:
        key = Options.KEYS.get(option)
        if key is not None and key.zero_is_default and not value:
            self._values.pop(option, None)
        elif key is not None and key.normal is not None:
            self._values[option] = key.normal(value)
        else:
            self._values[option] = value

    def _get(self, option: str) -> Any:
        return self._values.get(option, getattr(_DEFAULTS, option))

    def _report(self, message: str, *options: str) -> None:
        positions = [self._positions[option] for option in options if option in self._positions]
        self._problems.add(message, positions[0] if positions else None)

    def _override_credentials(self, credentials: Mapping[str, str]) -> None:
        if self._block.lists_users:
            self._problems.add("credentials on the command line cannot replace a list of users", None)
            return
        block = replace(self._block, **cast("dict[str, Any]", credentials))
        if not credentials.get("token"):
            block = replace(block, token=None)
        elif not credentials.get("user"):
            block = replace(block, user=None, password=None)
        self._block = block
        check_credentials(block, self._problems, None)

    def _override_tls(self, flags: Mapping[str, object]) -> None:
        from headrace.conf import tls

        if flags.get("enabled") is False:
            self._values["tls"] = None
        elif not flags.get("cert_file"):
            self._problems.add("TLS server certificate must be present and valid", None)
        elif not flags.get("key_file"):
            self._problems.add("TLS server private key must be present and valid", None)
        else:
            options = tls.with_flags(cast("TLSOptions | None", self._values.get("tls")), flags)
            tls.check_files(options, self._problems)
            self._values["tls"] = options

    def _override_cluster(self, flags: Mapping[str, object]) -> None:
        from headrace.conf.cluster import with_flags

        before = cast("ClusterOptions | None", self._values.get("cluster"))
        self._values["cluster"] = with_flags(before, flags, self._problems)

    def _override_console(self, flags: Mapping[str, str]) -> None:
        """Let the WebSocket port have a console; without one there is one for this machine."""
        from headrace.conf.console_options import with_console

        before = cast("WebSocketOptions | None", self._values.get("websocket"))
        beside = cast("ConsoleOptions | None", self._values.pop("console", None))
        self._values["websocket"] = with_console(before, beside, flags.get("operator_secret", ""))

    def _check_gateway(self) -> None:
        """A cluster is called what its gateways are called."""
        gateway = cast("GatewayOptions | None", self._values.get("gateway"))
        cluster = cast("ClusterOptions | None", self._values.get("cluster"))
        if gateway is None or not gateway.name or cluster is None:
            return
        if not cluster.name:
            self._values["cluster"] = replace(cluster, name=gateway.name)
        elif cluster.name != gateway.name:
            self._report(
                "cluster name conflicts between cluster and gateway definitions", "cluster", "gateway"
            )

    def _check_leafnodes(self) -> None:
        options = cast("LeafNodeOptions | None", self._values.get("leafnodes"))
        if options is None or self._failed & {"leafnodes", "accounts"}:
            return
        from headrace.conf.leafnodes import leafnode_problems

        names = [account.name for account in self._get("accounts")]
        has_operator, system = self._get("operator") is not None, self._get("system_account")
        for message in leafnode_problems(options, names, has_operator=has_operator, system_account=system):
            self._report(message, "leafnodes")

    def _override_streaming(self, flags: StreamingFlags) -> None:
        if flags.enabled is False:
            self._streaming = None
        elif flags.enabled or self._streaming is not None:
            self._streaming = {**(self._streaming or {}), **flags.settings}

    def _check_sizes(self) -> None:
        if self._failed & {"max_payload", "max_pending"}:
            return
        most = self._get("max_pending")
        if self._get("max_payload") == _UNLIMITED:
            # A message that is larger could be delivered to nobody.
            self._values["max_payload"] = min(most, _INT32_MAX)
        elif self._get("max_payload") > most:
            message = f"max_payload ({self._get('max_payload')}) cannot be higher than max_pending ({most})"
            self._report(message, "max_payload", "max_pending")

    def _check_monitoring(self) -> None:
        plain, secured = self._get("http_port"), self._get("https_port")
        if plain is not None and secured is not None:
            message = f"can't specify both HTTP ({plain}) and HTTPs ({secured}) ports"
            self._report(message, "https_port", "http_port")
        elif secured is not None and self._get("tls") is None and "tls" not in self._failed:
            self._report("TLS cert and key required for HTTPS", "https_port")

    def _check_lame_duck(self) -> None:
        if self._failed & {"lame_duck_duration", "lame_duck_grace_period"}:
            return
        grace, whole_time = self._get("lame_duck_grace_period"), self._get("lame_duck_duration")
        if grace >= whole_time:
            from headrace.protocol.durations import format_duration

            message = (
                f"lame duck grace period ({format_duration(grace)}) should be strictly lower than"
                f" lame duck duration ({format_duration(whole_time)})"
            )
            self._report(message, "lame_duck_grace_period", "lame_duck_duration")

    def _check_operator(self) -> None:
        """Combine the keys of operator mode; without any, nothing of it is loaded."""
        if not self._operator:
            return
        from headrace.conf.operator import OperatorSurroundings, operator_options

        accounts, listed = self._get("accounts"), self._block.users
        around = OperatorSurroundings(
            system_account=cast("str | None", self._values.get("system_account")),
            has_accounts=bool(accounts),
            has_users=bool(listed or any(account.users for account in accounts)),
            has_no_auth_user="no_auth_user" in self._values,
            has_auth_callout=self._block.callout is not None,
        )
        found = operator_options(self._operator, self._positions, self._problems, around, self._failed)
        self._values["operator"] = found
        if found is not None and found.system_account is not None:
            self._values["system_account"] = found.system_account

    def _check_callout(self) -> None:
        """A callout listens in an account, and its own users are configured."""
        callout = self._block.callout
        if callout is None or "operator" in self._values or self._failed & {"authorization", "accounts"}:
            return
        accounts = self._get("accounts")
        known = {GLOBAL_ACCOUNT, self._get("system_account"), *(account.name for account in accounts)}
        for name in (callout.account, *callout.allowed_accounts):
            if name not in known:
                self._report(
                    f"auth_callout: account {shown(name)} is not among the accounts", "authorization"
                )
        users = [*(self._block.options().users), *(user for account in accounts for user in account.users)]
        names = {user.nkey or user.user for user in users}
        for name in callout.users:
            if name not in names:
                self._report(f"auth_callout: user {shown(name)} is not among the users", "authorization")

    def _check_adopted(self) -> None:
        """Channels that are streams too: of a server that has both, and puts both on disk in one way."""
        streaming = cast("StreamingOptions | None", self._values.get("streaming"))
        if streaming is None or not streaming.adopt or "jetstream" in self._failed:
            return
        jetstream = cast("JetStreamOptions | None", self._values.get("jetstream"))
        if jetstream is None:
            self._report("adopt needs JetStream, which is not enabled", "streaming")
        elif jetstream.bucket is not None and streaming.bucket is None:
            self._report("adopt: a stream that is in a bucket cannot be a channel, too", "streaming")
        elif jetstream.sync != streaming.sync:
            text = (
                f"adopt: streaming has sync {streaming.sync}, and JetStream {jetstream.sync}: name the same"
            )
            self._report(text, "streaming")

    def _check_processes(self) -> None:
        """A server of one process, as most are, loads nothing for it."""
        if self._get("processes") == 1 or "processes" in self._failed:
            return
        from headrace.conf.processes import conflicts

        for message, option in conflicts(self._values):
            self._report(message, option, "processes")

    def _check_jetstream(self) -> None:
        """Combine the JetStream settings of file and flags; without any, nothing of it is loaded."""
        store_dir = cast("str | None", self._values.pop("store_dir", None))
        if (self._jetstream is None and self._jetstream_flags is None) or "jetstream" in self._failed:
            return
        from headrace.conf.jetstream import jetstream_options

        found = jetstream_options(self._jetstream, self._jetstream_flags or {}, store_dir, self._problems)
        self._values["jetstream"] = found
        system = self._get("system_account")
        if found is None:
            return
        if any(a.name == system and a.jetstream for a in self._get("accounts")):
            self._report("JetStream cannot be enabled on the system account", "system_account")
        streaming = cast("StreamingOptions | None", self._values.get("streaming"))
        if streaming is not None and streaming.nats_server is not None:
            self._report("JetStream cannot be here: streaming uses a NATS server elsewhere", "jetstream")

    def _check_default_domains(self) -> None:
        """Accounts without JetStream get the mappings of the domain that they are to use."""
        domains = cast("dict[str, str] | None", self._values.pop("default_js_domain", None))
        if not domains or "accounts" in self._failed:
            return
        from headrace.conf import default_domains

        position = self._positions.get("default_js_domain")
        accounts, has_operator = self._get("accounts"), bool(self._operator)
        for message in default_domains.domain_problems(
            domains, accounts, self._get("system_account"), has_operator=has_operator
        ):
            self._report(message, "default_js_domain")
        self._open_api({name for name, domain in domains.items() if not domain}, position)
        if has_operator:
            if any(domains.values()):
                why = "accounts are known by their tokens"
                self._problems.remark(f"default_js_domain has no effect: {why}", position)
            return
        self._values["accounts"] = default_domains.with_domains(accounts, domains)
        of_all = domains.get(GLOBAL_ACCOUNT, "")
        if of_all and self._values.get("jetstream") is None:
            self._values["mappings"] = default_domains.joined(self._get("mappings"), of_all)
        elif of_all:
            self._problems.remark("default_js_domain of $G has no effect: it has JetStream", position)

    def _open_api(self, names: set[str], position: Position | None) -> None:
        """Accounts with an empty default domain."""
        leafnodes = cast("LeafNodeOptions | None", self._values.get("leafnodes"))
        if names and leafnodes is not None:
            self._values["leafnodes"] = replace(leafnodes, open_api=frozenset(names))
        elif names:
            listed = ", ".join(map(shown, sorted(names)))
            why = "an empty domain is about leaf nodes, and there are none"
            self._problems.remark(f"default_js_domain of {listed} has no effect: {why}", position)

    def _check_no_auth_user(self, option: str, name: object) -> None:
        if not isinstance(name, str) or self._failed & {"authorization", "accounts"} or self._operator:
            return
        names = self._user_names()
        if name not in names:
            reason = "is not among the users" if names else "is present, but no list of users is"
            self._report(f"no_auth_user: {shown(name)} {reason}", option)

    def _user_names(self) -> frozenset[str]:
        """Return the names of all listed users, of the server and of its accounts."""
        listed = self._values.get("authorization")
        names = self._block.names
        if listed is not None:
            names = frozenset(user.nkey or user.user for user in cast("Any", listed).users)
        for account in self._get("accounts"):
            names |= {user.nkey or user.user for user in account.users}
        return names

    def _check_console(self) -> None:
        """Put a console that stands beside `websocket` into it; check that the port can serve it."""
        beside = cast("ConsoleOptions | None", self._values.pop("console", None))
        options = cast("WebSocketOptions | None", self._values.get("websocket"))
        if beside is not None and "websocket" not in self._failed:
            if options is None:
                self._report("console needs a websocket block with a port, which serves it", "console")
            elif options.console is not None:
                self._report("console stands in websocket, and beside it", "console")
            else:
                self._values["websocket"] = options = replace(options, console=beside)
        if options is None or options.console is None:
            return
        from headrace.conf.console_options import console_problem

        problem = console_problem(options)
        if problem is not None:
            self._report(problem, "console", "websocket")

    def _check_websocket(self) -> None:
        self._check_console()
        options = cast("WebSocketOptions | None", self._get("websocket"))
        if options is None or self._failed & {"authorization", "accounts"}:
            return
        self._check_credentials_of("websocket")
        if options.jwt_cookie and self._values.get("operator") is None:
            message = (
                "trusted operators or trusted keys configuration is required for JWT authentication via "
                f"cookie {shown(options.jwt_cookie)}"
            )
            self._report(message, "websocket")

    def _check_credentials_of(self, block: str) -> None:
        """Check who may connect at a port with credentials of its own."""
        options = cast("WebSocketOptions | MqttOptions | None", self._get(block))
        if options is None or self._failed & {"authorization", "accounts"}:
            return
        self._check_no_auth_user(block, options.no_auth_user)
        if options.authorization.required and self._user_names():
            kind = "token" if options.authorization.token else "username"
            self._report(f"{block} authentication {kind} not compatible with presence of users/nkeys", block)

    def _check_mqtt(self) -> None:
        """Check that a server with an MQTT port has what its sessions need."""
        if self._get("mqtt") is None or self._failed & {"cluster", "gateway", "leafnodes", "jetstream"}:
            return
        from headrace.conf.mqtt import mqtt_problems

        for message, option in mqtt_problems(self._values):
            self._report(message, option)

    def _check_accounts(self) -> None:
        """Check the rules over several accounts; each problem has the position of its import, export or
        account.
        """
        accounts = self._get("accounts")
        if self._failed & {"authorization", "accounts"} or not (accounts or "system_account" in self._values):
            return
        if self._values.get("operator") is not None:  # accounts are in tokens then
            return
        from headrace.conf.account_rules import account_problems

        if accounts and self._block.user and not self._block.lists_users:
            self._report("a single user cannot stand together with accounts", "accounts")
        options = Options(
            accounts=accounts,
            authorization=cast("Any", self._values.get("authorization")) or self._block.options(),
            system_account=self._get("system_account"),
        )
        positions = self._accounts.positions if self._accounts else {}
        for message, place in account_problems(options):
            if place is not None and place in positions:
                self._problems.add(message, positions[place])
            else:
                option = "system_account" if message.startswith("the system account") else "accounts"
                self._report(message, option)
