"""Configurations of streams and consumers drawn at random: both servers say the same, word by word.

Compared are number and text of an error, or the whole configuration that comes of a move. Our rules play
alone first, then in a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from differential.jetstream_assets import Draw
from differential.jetstream_rules import Rules, heard
from harness import depth
from harness.jetstream import JetStreamWire
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings, Tiers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from differential.jetstream_assets import Move
    from differential.jetstream_rules import Verdict

    Player = Callable[[Move], Verdict]

pytestmark = pytest.mark.clients

SEEDS: Final = 10
MOVES: Final = 600
"""Drawn from one seed."""
_SECOND: Final = 1_000_000_000
_LIVES_ON: Final = 60 * _SECOND
"""ns; a consumer that goes earlier when nobody uses it is removed at once, so that time decides nothing."""
_PLAIN: Final = "jetstream {{ store_dir: {folder}, limits {{ default_max_consumers: 3 }} }}"
_PLAIN_SETTINGS: Final = ServerSettings(default_max_consumers=3)
_LIMITED: Final = """
jetstream {{ store_dir: {folder}, max_mem: 8MB, max_file: 8MB
    limits {{ max_ack_pending: 1500, max_request_batch: 500, duplicate_window: 90s }} }}
accounts {{ A {{ users: [{{user: a, password: a}}]
    jetstream {{ max_mem: 2MB, max_file: 4MB, max_streams: 2, max_consumers: 2, max_ack_pending: 1200
        max_bytes_required: {required}, memory_max_stream_bytes: 1MB, disk_max_stream_bytes: 1MB }} }} }}
"""
_LOGIN: Final = {"user": "a", "pass": "a"}
_LIMITS: Final = AccountLimits(
    max_memory=2 << 20,
    max_storage=4 << 20,
    max_streams=2,
    max_consumers=2,
    max_ack_pending=1200,
    memory_max_stream_bytes=1 << 20,
    storage_max_stream_bytes=1 << 20,
)
_SETTINGS: Final = ServerSettings(
    max_memory=8 << 20,
    max_storage=8 << 20,
    max_ack_pending=1500,
    max_request_batch=500,
    duplicate_window=90 * _SECOND,
)


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_rules_say_what_the_go_server_says(tmp_path: Path, seed: int) -> None:
    rules = Rules(_PLAIN_SETTINGS)
    config = _PLAIN.format(folder=tmp_path)
    with ServerProcess(NATS_SERVER, tmp_path, config=config) as server, JetStreamWire(server) as wire:
        play(rules, rules.judge, by_wire(wire), seed)


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
@pytest.mark.parametrize("required", [False, True])
def test_rules_know_limits_as_the_go_server_does(tmp_path: Path, seed: int, *, required: bool) -> None:
    rules = Rules(_SETTINGS, Tiers({UNTIERED: replace(_LIMITS, max_bytes_required=required)}))
    config = _LIMITED.format(folder=tmp_path, required=str(required).lower())
    with (
        ServerProcess(NATS_SERVER, tmp_path, config=config) as server,
        JetStreamWire(server, **_LOGIN) as wire,
    ):
        play(rules, rules.judge, by_wire(wire), seed)


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
@pytest.mark.parametrize("config", [_PLAIN, _LIMITED], ids=["plain", "limited"])
def test_server_says_what_the_go_server_says(tmp_path: Path, seed: int, config: str) -> None:
    """Our rules know what there is; both servers are asked."""
    limited = config is _LIMITED
    rules = Rules(_SETTINGS, Tiers({UNTIERED: _LIMITS})) if limited else Rules(_PLAIN_SETTINGS)
    login: dict[str, Any] = _LOGIN if limited else {}
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
    texts = [config.format(folder=folder, required="false") for folder in folders]
    with (
        ServerProcess(HEADRACES[0], folders[0], config=texts[0]) as ours,
        ServerProcess(NATS_SERVER, folders[1], config=texts[1]) as theirs,
        JetStreamWire(ours, **login) as our_wire,
        JetStreamWire(theirs, **login) as their_wire,
    ):

        def keep_in_mind(move: Move) -> Verdict:
            rules.judge(move)
            return by_wire(our_wire)(move)

        play(rules, keep_in_mind, by_wire(their_wire), seed)


def by_wire(wire: JetStreamWire) -> Player:
    def ask(move: Move) -> Verdict:
        verdict = heard(wire.api(move.verb, move.payload))
        if lives_briefly(move, verdict):
            wire.api(f"CONSUMER.DELETE.{move.stream}.{move.consumer}")
        return verdict

    return ask


def play(rules: Rules, ours: Player, theirs: Player, seed: int) -> None:
    draw = Draw(seed)
    for number in range(MOVES):
        move = draw.move(rules.names())
        mine, its = ours(move), theirs(move)
        if mine != its:
            pytest.fail(
                f"move {number} {move}\n  Go   {_differing(its, mine)}\n  ours {_differing(mine, its)}"
            )
        if lives_briefly(move, mine):
            rules.forget(move.stream, move.consumer)


def lives_briefly(move: Move, verdict: Verdict) -> bool:
    return (
        bool(move.consumer)
        and isinstance(verdict, dict)
        and 0 < verdict.get("inactive_threshold", 0) < _LIVES_ON
    )


def _differing(one: Verdict, other: Verdict) -> Verdict:
    """An error, or those fields of a configuration that are not the same in both."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one if not isinstance(one, dict) else {"ok": "..."}
    return {key: value for key, value in one.items() if other.get(key) != value}
