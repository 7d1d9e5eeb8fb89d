"""Lines that the documents of NATS and its command line tool show, through the link `nats`.

They are run in order against one server, as in the tutorials that have them. What differs on purpose is in
docs/from-nats-cli.md; what needs a cluster, keys of operators or an end by Ctrl-C is only read.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from harness.command_line import CommandLine, all_rows
from harness.processes import SIDES, ServerProcess
from headrace.cli.client.message_command import run_command
from headrace.cli.tree import call_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.cli.command_rows import CommandRow

CONFIG = """
accounts {
    A { users: [ {user: alice, password: secret} ], jetstream: enabled }
    SYS { users: [ {user: admin, password: secret} ] }
}
system_account: SYS
no_auth_user: alice
"""
SYSTEM = "--user admin --password secret"

# -- scripts that are run: a line, and the exit code where it is not 0

ORDERS = "--subjects ORDERS.* --max-msgs=-1 --max-bytes=-1 --storage file --retention limits --replicas 1"
SCRIPTS: dict[str, list[str | tuple[str, int]]] = {
    "streams": [
        f'str add ORDERS {ORDERS} --ack --max-age=1y --max-msg-size=-1 --discard old --dupe-window="0s"',
        f"stream add ORDERS {ORDERS} --ack --max-age=1y --max-msg-size=-1 --discard=old --dupe-window=0s",
        "str ls",
        "stream list",
        "stream list -n",
        "s report",
        "str info ORDERS",
        "stream info ORDERS",
        "str info ORDERS -j",
        "str state ORDERS --no-select",
        "str info ORDERS --no-select",
        "stream edit ORDERS --allow-fast --no-republish --no-transform -f",
        'str edit ORDERS --subjects "ORDERS.*"',
        'stream edit ORDERS --description "new description"',
        "str edit ORDERS --config {folder}/orders.json",
        'str cp ORDERS ARCHIVE --subjects "ORDERS_ARCHIVE.*" --max-age 2y',
        "s add MIRRORED --mirror ARCHIVE --allow-mirror-direct",
        "s add GATHERED --source ORDERS --source ARCHIVE",
        'req ORDERS.new "ORDER {{Count}}" --count 3',
        "req -H Nats-Msg-Id:1 ORDERS.new hello1",
        "req -H Nats-Msg-Id:1 ORDERS.new hello2",
        "pub ORDERS.scratch hello",
        "stream find --empty",
        "stream find --empty --invert",
        "stream subjects ORDERS --names",
        "stream gaps ORDERS -f",
        "stream get ORDERS 1",
        "stream view ORDERS",
        "stream view ORDERS --id 2",
        "stream view ORDERS --since 1h",
        "stream view ORDERS --subject ORDERS.new",
        "str rmm ORDERS 1 -f",
        "stream purge ORDERS --seq 3 -f",
        "stream purge ORDERS --keep 1 -f",
        "stream purge ORDERS --subject ORDERS.none -f",
        "str purge ORDERS -f",
        ("stream purge ORDERS", 2),
        "stream backup ORDERS {folder}/backup1 --no-progress",
        "str rm ORDERS -f",
        "stream restore {folder}/backup1 --no-progress",
        "stream seal ARCHIVE -f",
        "account info",
        "account report connections",
        "account report statistics",
        "account backup {folder}/all --check --no-progress -f",
        "stream rm -f GATHERED",
        "stream rm -f ORDERS",
    ],
    "requests to the API": [
        "str add ORDERS --subjects ORDERS.* --defaults",
        "pub ORDERS.new 1",
        "req '$JS.API.STREAM.INFO.nonexisting' ''",
        """req '$JS.API.STREAM.MSG.GET.ORDERS' '{"seq": 1}'""",
        ("req '$JS.STREAM.INFO.ORDERS' ''", 5),
        "con add ORDERS NEW --pull --filter ORDERS.new --defaults",
        "req '$JS.API.CONSUMER.MSG.NEXT.ORDERS.NEW' '1'",
        """req '$JS.API.CONSUMER.MSG.NEXT.ORDERS.NEW' '{"no_wait": true, "batch": 10}' --replies=0""",
        "str rm ORDERS -f",
    ],
    "consumers": [
        "str add ORDERS --subjects ORDERS.* --defaults",
        "consumer add ORDERS NEW --filter ORDERS.received --ack explicit --pull --deliver all "
        "--max-deliver=-1 --sample 100 --defaults",
        "con add ORDERS DISPATCH --filter ORDERS.processed --ack explicit --pull --deliver all --sample 100 "
        "--max-deliver 20 --defaults",
        "consumer add ORDERS MONITOR --filter '' --ack none --target monitor.ORDERS --deliver last "
        "--replay instant --defaults",
        "consumer add ORDERS --filter '' --ack none --target 'my.monitor' --deliver last --replay instant "
        "--ephemeral --defaults",
        "consumer add ORDERS ALL --pull --filter ORDERS.processed --ack none --replay instant --deliver all "
        "--defaults",
        "consumer add ORDERS TEN --pull --filter ORDERS.processed --ack none --replay instant --deliver 10 "
        "--defaults",
        "consumer add ORDERS LAST --pull --filter ORDERS.processed --ack none --replay instant "
        "--deliver last --defaults",
        "consumer add ORDERS 2MIN --pull --filter ORDERS.processed --ack none --replay instant --deliver 2m "
        "--defaults",
        "consumer add ORDERS REPLAY --target out.original --filter ORDERS.processed --ack none --deliver all "
        "--sample 100 --replay original --defaults",
        'pub ORDERS.processed "order 1"',
        'pub ORDERS.processed "order 2"',
        'pub ORDERS.received --count 3 "order {{.Count}}"',
        "con ls ORDERS --no-select",
        "con info ORDERS DISPATCH",
        "consumer info ORDERS MONITOR",
        "con next ORDERS DISPATCH",
        "consumer next ORDERS DISPATCH --no-ack",
        "consumer next ORDERS NEW --ack",
        "consumer next ORDERS NEW --count 2",
        "consumer next ORDERS LAST",
        "consumer next ORDERS ALL --raw",
        ("consumer next ORDERS TEN --timeout 200ms", 8),
        "consumer sub ORDERS NEW --ack --idle 100ms",
        "consumer report ORDERS",
        'consumer edit ORDERS NEW --description "new description" -f',
        "consumer pause ORDERS NEW 1h -f",
        "consumer resume ORDERS NEW -f",
        "con add ORDERS COPIED --config {folder}/consumer.json",
        "consumer rm ORDERS NEW -f",
        "str rm ORDERS -f",
    ],
    "messages": [
        'pub cli.demo "hello world"',
        'pub cli.demo "message {{.Count}} @ {{.TimeStamp}}" --count=5',
        "pub cli.demo 'hello headers' -H Header1:One -H Header2:Two",
        'pub test --count 10 "Message {{Count}} @ {{Time}}"',
        'pub test --count 10 "Message {{Count}}: {{ Random 10 100 }}"',
        """pub foo --count=2 --sleep 1ms "publication #{{.Count}} @ {{.TimeStamp}}" """,
        'pub destination.subject "{{ Random 100 1000 }}" -H "Count:{{ Count }}" --count 3',
        """pub cli.json '{"task":"demo","duration":60}'""",
        "publish hello world -s {url}",
        'sub --for 50ms "msg.*"',
        'subscribe ">" -s {url} --for 50ms',
        "sub cli.demo --queue=Q1 --for 50ms",
        "sub --match-replies cli.demo --for 50ms",
        "sub --translate 'jq .' cli.json --wait 50ms",
        "sub --inbox --for 50ms",
        "sub --inbox --dump {folder}/archive --for 50ms",
        'sub ">" --report-subjects --report-top=20 --for 50ms',
        "sub -t out.original --for 50ms",
        ("request help.please 'I need help!'", 5),
        ('request destination.subject "hello world" -H "Content-type:text/plain" --raw', 5),
        ("request nobody.there --force-stdin", 5),
        "rtt",
        "rtt 2 --json",
    ],
    "streams read by sub": [
        "str add READ --subjects read.> --defaults",
        "pub read.1 one -J",
        "pub read.2 two -J",
        "sub --stream READ --all --terminate-at-end",
        "sub read.1 --stream READ --last --count 1",
        "sub read.> --stream READ --start-sequence 2 --count 1 -r",
        "sub read.> --stream READ --direct -T",
        "str rm READ -f",
    ],
    "keys": [
        "kv add my-kv",
        "kv put my-kv Key1 Value1",
        "kv get my-kv Key1",
        "kv get my-kv Key1 --raw",
        "kv put my-kv Key1 Value2",
        "kv create my-kv Semaphore1 Value1",
        ("kv create my-kv Semaphore1 Value1", 10),
        "kv update my-kv Semaphore1 Value2 3",
        ("kv update my-kv Semaphore1 Value2 3", 10),
        "kv history my-kv Key1",
        "kv status my-kv",
        "kv ls",
        "kv ls my-kv",
        "kv del my-kv Key1 -f",
        "kv purge my-kv Semaphore1 -f",
        "kv rm my-kv -f",
    ],
    "objects": [
        "object add myobjbucket",
        "object put myobjbucket {folder}/logo.mov --no-progress",
        "object put --name /Movies/logo.mov myobjbucket {folder}/logo.mov --no-progress",
        "object ls myobjbucket",
        "obj ls",
        "object info myobjbucket",
        "obj status myobjbucket",
        "object info myobjbucket /Movies/logo.mov",
        "object get myobjbucket --output {folder}/out.mov /Movies/logo.mov --no-progress",
        "obj get myobjbucket {folder}/logo.mov -O {folder}/out2.mov --no-progress",
        "object rm myobjbucket /Movies/logo.mov -f",
        "object seal myobjbucket -f",
        "obj del myobjbucket -f",
    ],
    "contexts": [
        'context add localhost --description "Localhost"',
        'context add nats --server {url} --description "NATS Demo" --select',
        "context save local --server {url} --description 'Local Host' --select",
        "context ls --names",
        "ctx select localhost",
        "ctx -- -",
        "context info local --json",
        "context validate --connect local",
        "rtt --context local",
        "pub --context local subject body",
        ("context select", 2),
        "context rm localhost -f",
    ],
    "servers": [
        f"server ping {SYSTEM} --expect 1",
        f"server list 1 {SYSTEM}",
        f"server info {SYSTEM}",
        f"server report connections {SYSTEM} --expect 1",
        f"server report connz --account A {SYSTEM} --expect 1",
        f"server report connz --top 10 --sort in-msgs {SYSTEM} --expect 1",
        f"server report accounts --account A --sort in-msgs --top 10 {SYSTEM} --expect 1",
        f"server report jetstream {SYSTEM} --expect 1",
        f"server report jetstream --account A --sort cluster {SYSTEM} --expect 1",
        f"server req jetstream --leader {SYSTEM} --expect 1 -j",
        f"server req variables {SYSTEM} --expect 1",
        f"server req connections --filter-state open {SYSTEM} --expect 1",
        f"server req connz --subscriptions {SYSTEM} --expect 1",
        f"server request subscriptions --detail --filter-account A {SYSTEM} --expect 1",
        f"server req gateways --filter-name EAST {SYSTEM} --expect 1",
        f"server req leafnodes --subscriptions {SYSTEM} --expect 1",
        f"server req accounts --account A {SYSTEM} --expect 1",
        "server check connection -s {url}",
        "server check jetstream",
        "server mapping foo bar foo",
        "server mapping foo bar",
        'server mapping "bar.*.*"  "baz.{{wildcard(2)}}.{{wildcard(1)}}" bar.a.b',
        'server mapping "orders.*.*" "foo.{{wildcard(2)}}" orders.local.order1',
        'server mapping "foo.*.*" "foo.{{wildcard(1)}}.{{wildcard(2)}}.{{partition(5,1,2)}}" foo.us.id',
        "server pass -p 'W#OZwVN-UjMb8nszwvT2LQ' -c 4",
        "server password -g -c 4",
        "events --for 50ms",
        "events --no-srv-advisory --js-metric --js-advisory --for 50ms",
        f"events --short --all --for 50ms {SYSTEM}",
        f"request '$SYS.REQ.USER.INFO' '' {SYSTEM}",
        f"request '$SYS.REQ.SERVER.PING' '' {SYSTEM}",
        f"request '$SYS.REQ.SERVER.PING.IDZ' '' {SYSTEM}",
        "cheat",
        "errors ls",
        "errors lookup 10059",
    ],
    "bench": [
        "bench pub foo --size 16 --msgs 100 --no-progress",
        "bench pub foo --msgs 100 --clients 1 --throughput 50000 --no-progress",
        "bench js pub async jsfoo --create --msgs 100 --no-progress",
        "bench js pub sync jsfoo --size 16 --msgs 10 --storage memory --no-progress",
        "bench js pub batch jsbar --stream other --create --size 16 --batch 10 --msgs 100 --purge",
        "bench js ordered --msgs 100 --no-progress",
        "bench js fetch --acks none --msgs 100 --no-progress",
        "bench js get batch --msgs 10 --no-progress",
        "bench kv put --msgs 10 --no-progress",
        "bench kv get --msgs 10 --randomize 10 --no-progress",
        "stream rm -f benchstream other",
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all scripts."""
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(SIDES["headrace"], folder, "-js", "-sd", str(folder), config=CONFIG) as running:
        yield running


@pytest.fixture
def nats(server: ServerProcess, tmp_path: Path) -> CommandLine:
    """The link `nats`, in a folder with the files that scripts name."""
    found = CommandLine(tmp_path, server.url, program="nats")
    (tmp_path / "orders.json").write_text(json.dumps({"name": "ORDERS", "subjects": ["ORDERS.*"]}))
    (tmp_path / "consumer.json").write_text(json.dumps({"ack_policy": "explicit", "deliver_policy": "all"}))
    (tmp_path / "logo.mov").write_bytes(b"moving")
    return found


@pytest.mark.parametrize("script", list(SCRIPTS))
def test_scripts_of_the_documents_run(script: str, nats: CommandLine) -> None:
    for each in SCRIPTS[script]:
        line, code = each if isinstance(each, tuple) else (each, 0)
        filled = line.replace("{url}", nats.url).replace("{folder}", str(nats.folder))

        ran = nats(*shlex.split(filled))

        assert ran.code == code, (line, ran.err)


def test_templates_are_filled_in_requests(nats: CommandLine) -> None:
    nats(*shlex.split("str add FILLED --subjects filled.* --defaults")).ok()
    nats("req", "filled.a", "ORDER {{Count}}", "--count", "2").ok()

    assert nats("stream", "get", "FILLED", "2", "--raw").ok().out == "ORDER 2\n"
    nats(*shlex.split("str rm FILLED -f")).ok()


def test_a_command_gets_subject_and_body_as_with_that_tool() -> None:
    text = 'sh -c \'printf "%s|%s|%s|%s" "$NATS_REQUEST_BODY" $0 $1 $2\' {{1}} {{Subject}} {0}'

    end = run_command(text, "a.b", {}, b"two words", has_body_variable=True)
    without = run_command(text, "a.b", {}, b"two words")

    assert end.output == b"two words|b|a.b|a"
    assert without.output == b"|b|a.b|a"


def test_a_user_without_a_password_is_a_token(tmp_path: Path) -> None:
    config = "authorization { token: s3cr3t }"
    with ServerProcess(SIDES["headrace"], tmp_path, config=config) as locked:
        nats = CommandLine(tmp_path, locked.url, program="nats")

        assert nats("rtt", "1", "--user", "s3cr3t").ok().out
        assert CommandLine(tmp_path, locked.url)("rtt", "1", "--user", "s3cr3t").code == 7


def test_a_context_is_added_over_another(nats: CommandLine) -> None:
    nats("context", "add", "mine", "-s", "nats://a", "--description", "first").ok()
    nats("context", "add", "mine", "-s", "nats://b").ok()

    fields = nats("context", "info", "mine", "--json").ok().json["fields"]
    assert (fields["url"], fields["description"]) == ("nats://b", "first")


def test_reply_echoes_where_nothing_else_is_said(alone: CommandLine) -> None:
    assert alone("reply", "foo").code == 2
    alone.program = "nats"
    assert alone("reply", "foo").code == 7


READ = [
    "stream add ORDERS --replicas 3",
    "stream add --replicas 3 --tag sync:always TAGGED",
    "stream add NEAR --cluster aws-us-east1-c1 --js-domain leaf",
    "stream add HUB --mirror test --js-domain hub",
    "stream report --js-domain hub",
    "stream cluster step-down ORDERS",
    "stream cluster peer-remove ORDERS n4-c1",
    "consumer next aggregate-test-leaf dur --js-api-prefix JS.acc@hub.API",
    "server cluster step-down --user admin --password s3cr3t!",
    "server cluster peer-remove n4-c1 --user admin --password s3cr3t!",
    "server info nats1.example.net --user system",
    "account restore /data/js-backup",
    "kv add CONFIG --replicas 3",
    "kv watch my-kv",
    "kv watch CONFIG 'users.>'",
    "object watch myobjbucket",
    "sub source.subject --queue work --ack",
    "sub ORDERS.new --count 1",
    "events --no-srv-advisory --subjects service.latency.weather",
    "reply help.please 'OK, I CAN HELP!!!'",
    'reply foo "service instance A Reply# {{Count}}"',
    """reply 'cli.weather.>' --command "curl -s wttr.in/{{2}}?format=3" """,
    'reply service.requests "Message {{Count}} @ {{Time}}"',
    "pub hello world --creds /DEMO/TEST/foo.creds",
    "pub destination.subject --send-on=newline",
    "context add sysadmin --description 'System Account' --server nats://localhost:4222 --creds sys.cred",
    "bench sub foo --clients 5 --msgs 10000",
    "bench service serve --clients 4 testservice",
    "bench service request --clients 4 testservice --msgs 20000",
    "bench js consume --clients 4",
    "bench kv put --clients 10",
    "trace orders.device1.order1",
    "top",
]
"""Lines that need more than one server, or end with Ctrl-C."""


@pytest.mark.parametrize("line", READ)
def test_other_lines_of_the_documents_are_taken(line: str) -> None:
    words = shlex.split(line)
    row = max((row for row in all_rows() if is_of(row, words)), key=lambda row: len(row.words))

    assert call_of(row, words[len(row.words) :], "nats", is_nats=True).is_nats


def is_of(row: CommandRow, words: list[str]) -> bool:
    return tuple(words[: len(row.words)]) == row.words


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("context add ngs --nsc nsc://acme/orders/new", "--nsc"),
        ("auth account add MyAccount", "unknown command 'auth'"),
        ("governor view cron", "unknown command 'governor'"),
        ("server generate server.conf", "unknown command 'generate'"),
        ("server request profile cpu", "unknown command 'profile'"),
        ("stream report --dot replication.dot", "--dot"),
        ("stream cluster peer-remove ORDERS", "required: PEER"),
        ("consumer cluster step-down ORDERS NEW", "unknown command 'cluster'"),
        ("reply service.requests --echo --sleep 10", "its unit is missing"),
        ("server ping --graph", "--graph"),
        ("errors edit errors.json 10013", "unknown command 'edit'"),
    ],
)
def test_what_is_not_taken_says_so_at_once(line: str, text: str, alone: CommandLine) -> None:
    alone.program = "nats"

    ran = alone(*shlex.split(line))

    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err
