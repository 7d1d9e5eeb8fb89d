"""Leaf links, line by line: interest that is told and taken in, messages that go and come, what ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from account_spaces import ImportedSubject
from engine_peers import NO_RESPONDERS, QUIET_WITH_HEADERS, WAYS
from leaf_peers import Hub, Leaf

from headrace.engine.memory import live_objects
from headrace.engine.reasons import CloseReason
from headrace.engine.stream_imports import StreamImport, change_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOP = b"$LDS.own"


@pytest.fixture(params=WAYS)
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    hub = Hub(request.param)
    yield hub
    hub.stop()


def lines(leaf: Leaf) -> list[bytes]:
    return sorted(leaf.heard().splitlines())


# -- what is told -------------------------------------------------------------------------------------


def test_interest_is_told_as_it_comes_and_goes(hub: Hub) -> None:
    leaf = hub.leaf()
    peer = hub.peer().send(b"SUB foo.* 1\r\nSUB foo.* 2\r\nSUB q g 3\r\nSUB q g 4\r\n")
    assert leaf.heard() == b"LS+ foo.*\r\nLS+ q g 1\r\nLS+ q g 2\r\n"
    peer.send(b"UNSUB 1\r\nUNSUB 3\r\n")
    assert leaf.heard() == b"LS+ q g 1\r\n"
    peer.send(b"UNSUB 2\r\nUNSUB 4\r\n")
    assert leaf.heard() == b"LS- foo.*\r\nLS- q g\r\n"


def test_what_is_wanted_already_is_told_at_once_with_the_loop_subject(hub: Hub) -> None:
    hub.peer().send(b"SUB a 1\r\nSUB a 2\r\nSUB b g 3\r\nSUB b g 4\r\nSUB b h 5\r\n")
    leaf = hub.leaf(loop=LOOP)
    assert lines(leaf) == [b"LS+ $LDS.own", b"LS+ a", b"LS+ b g 2", b"LS+ b h 1"]


def test_a_leaf_node_hears_of_others_but_not_of_itself_or_its_cluster(hub: Hub) -> None:
    own, same, other = hub.leaf(b"one"), hub.leaf(b"one"), hub.leaf(b"two")
    own.say(b"LS+ a\r\nLS+ q g 3\r\n")
    assert (own.heard(), same.heard()) == (b"", b"")
    assert other.heard() == b"LS+ a\r\nLS+ q g 3\r\n"
    own.say(b"LS+ q g 5\r\nLS- a\r\n")
    assert other.heard() == b"LS+ q g 5\r\nLS- a\r\n"
    own.link.detach()
    assert other.heard() == b"LS- q g\r\n"


def test_a_hub_hears_only_of_what_is_here_and_at_leaf_nodes_of_this_server(hub: Hub) -> None:
    up = hub.leaf(b"up", is_spoke=True)
    spoke, route = hub.leaf(b"down"), hub.route()
    route.say(b"RS+ $G far\r\nLS+ x $G far.too\r\n")
    assert up.heard() == b""
    spoke.say(b"LS+ near\r\n")
    assert up.heard() == b"LS+ near\r\n"
    up.say(b"LS+ wanted.up\r\n")
    assert b"wanted.up" not in route.heard()
    assert spoke.heard().splitlines() == [b"LS+ far", b"LS+ far.too", b"LS+ wanted.up"]


def test_subjects_that_find_circles_go_everywhere(hub: Hub) -> None:
    up, down = hub.leaf(b"up", is_spoke=True), hub.leaf(b"down")
    hub.route().say(b"LS+ elsewhere $G $LDS.other\r\n")
    assert (up.heard(), down.heard()) == (b"LS+ $LDS.other\r\n",) * 2


def test_isolated_leaf_nodes_do_not_hear_of_others(hub: Hub) -> None:
    alone, other = hub.leaf(b"one", isolated=True), hub.leaf(b"two")
    other.say(b"LS+ b\r\n")
    alone.say(b"LS+ a\r\n")
    assert (alone.heard(), other.heard()) == (b"", b"LS+ a\r\n")
    hub.peer().send(b"SUB c 1\r\n")
    assert alone.heard() == b"LS+ c\r\n"


def test_permissions_say_what_is_told(hub: Hub) -> None:
    leaf = Leaf(hub)
    leaf.link.restrict(lambda subject: subject.startswith(b"yes"), None, None)
    hub.peer().send(b"SUB yes.1 1\r\nSUB no.1 2\r\n")
    leaf.link.open(
        hub.interest, is_spoke=False, headers=True, loop=LOOP, always=[b"no.always", b"yes.always"]
    )
    assert lines(leaf) == [b"LS+ $LDS.own", b"LS+ yes.1", b"LS+ yes.always"]
    hub.peer().send(b"SUB yes.2 1\r\nSUB no.2 q 2\r\nUNSUB 1\r\n")
    assert leaf.heard() == b"LS+ yes.2\r\nLS- yes.2\r\n"


def test_what_is_always_wanted_stays_when_its_subscriptions_go(hub: Hub) -> None:
    leaf = hub.leaf(always=[b"kept", b"given.up"], loop=LOOP)
    peer = hub.peer().send(b"SUB kept 1\r\nSUB given.up 2\r\nUNSUB 1\r\n")
    assert lines(leaf) == [b"LS+ $LDS.own", b"LS+ given.up", b"LS+ kept"]
    leaf.link.wants([b"kept", b"new"])
    assert leaf.heard() == b"LS+ new\r\n"
    peer.send(b"UNSUB 2\r\n")
    assert leaf.heard() == b"LS- given.up\r\n"
    leaf.link.wants([])
    assert leaf.heard() == b"LS- kept\r\nLS- new\r\n"


# -- messages that go ---------------------------------------------------------------------------------


def test_messages_go_where_they_are_wanted(hub: Hub) -> None:
    leaf = hub.leaf().say(b"LS+ py.>\r\nLS+ w g 3\r\nLS+ w h 1\r\n")
    hub.peer(QUIET_WITH_HEADERS).send(
        b"PUB py.a 2\r\nhi\r\nPUB py.b rep 3\r\nabc\r\nPUB other 1\r\nx\r\n"
        b"HPUB py.h rep 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
    )
    assert leaf.heard() == (
        b"LMSG py.a 2\r\nhi\r\nLMSG py.b rep 3\r\nabc\r\nHMSG py.h rep 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
    )
    hub.peer().send(b"PUB w 1\r\nx\r\nPUB w r 1\r\ny\r\n")
    assert leaf.heard().replace(b"h g", b"g h") == b"LMSG w | g h 1\r\nx\r\nLMSG w + r g h 1\r\ny\r\n"


def test_nothing_comes_back_over_the_link_it_came_from(hub: Hub) -> None:
    leaf = hub.leaf().say(b"LS+ e\r\nLS+ e q 1\r\nLMSG e 1\r\nx\r\nLMSG e | q 1\r\nx\r\n")
    assert leaf.heard() == b""


def test_nothing_goes_to_the_cluster_it_came_from(hub: Hub) -> None:
    one, same, other = hub.leaf(b"c"), hub.leaf(b"c"), hub.leaf(b"d")
    for leaf in (one, same, other):
        leaf.say(b"LS+ t\r\n")
        leaf.heard()
    for leaf in (one, same, other):
        leaf.heard()
    one.say(b"LMSG t 1\r\nx\r\n")
    assert (one.heard(), same.heard(), other.heard()) == (b"", b"", b"LMSG t 1\r\nx\r\n")


def test_what_a_leaf_node_may_not_be_sent_is_not(hub: Hub) -> None:
    leaf = Leaf(hub)
    leaf.link.restrict(None, lambda subject: not subject.startswith(b"a.no"), None)
    leaf.link.open(hub.interest, is_spoke=False, headers=True)
    leaf.say(b"LS+ a.*\r\nLS+ a.no\r\nLS+ a.no q 1\r\n")
    assert leaf.session.called("interest_refused") == [(b"a.no",), (b"a.no",)]
    hub.peer().send(b"PUB a.no 1\r\nx\r\nPUB a.b 1\r\ny\r\n")
    assert leaf.heard() == b"LMSG a.b 1\r\ny\r\n"


def test_an_imported_stream_reaches_a_leaf_node(hub: Hub) -> None:
    account = hub.account(b"B")
    via = StreamImport(hub.interest, ImportedSubject(b"feed.>", b"from.a.>"))
    change_imports(account, (via,))
    leaf = hub.leaf(account=b"B").say(b"LS+ from.a.x\r\nLS+ from.a.y q 2\r\nLS+ other\r\n")
    hub.peer().send(b"PUB feed.x 1\r\n1\r\nPUB feed.y r 1\r\n2\r\nPUB other 1\r\n3\r\n")
    assert leaf.heard() == b"LMSG from.a.x 1\r\n1\r\nLMSG from.a.y + r q 1\r\n2\r\n"
    leaf.say(b"LS- from.a.x\r\nLS+ from.a.y q 0\r\n")
    hub.peer().send(b"PUB feed.x 1\r\n1\r\nPUB feed.y 1\r\n2\r\n")
    assert leaf.heard() == b""
    change_imports(account, ())


# -- messages that come -------------------------------------------------------------------------------


def test_messages_of_a_leaf_node_are_delivered_like_any(hub: Hub) -> None:
    peer = hub.peer(NO_RESPONDERS).send(b"SUB foo.* 1\r\nSUB q g 2\r\n")
    hub.leaf().say(
        b"LMSG foo.x 2\r\nyo\r\nLMSG foo.y rep 2\r\nyo\r\nHMSG foo.z 12 14\r\nNATS/1.0\r\n\r\nyo\r\n"
        b"LMSG q 2\r\nno\r\nLMSG q | g 2\r\nyo\r\nLMSG q + rq g 2\r\nyo\r\n"
    )
    assert peer.received() == (
        b"MSG foo.x 1 2\r\nyo\r\nMSG foo.y 1 rep 2\r\nyo\r\nHMSG foo.z 1 12 14\r\nNATS/1.0\r\n\r\nyo\r\n"
        b"MSG q 2 2\r\nyo\r\nMSG q 2 rq 2\r\nyo\r\n"
    )


def test_a_message_that_is_mapped_here_is_for_every_group(hub: Hub) -> None:
    hub.interest.mapper = lambda subject: (b"to", True) if subject == b"from" else None
    peer = hub.peer().send(b"SUB to 1\r\nSUB to g 2\r\n")
    hub.leaf().say(b"LMSG from 1\r\nx\r\nLMSG to 1\r\ny\r\n")
    assert sorted(peer.received().split(b"MSG ")[1:]) == [
        b"to 1 1\r\nx\r\n",
        b"to 1 1\r\ny\r\n",
        b"to 2 1\r\nx\r\n",
    ]
    hub.interest.mapper = None


def test_routes_get_what_came_from_a_leaf_node_with_its_cluster(hub: Hub) -> None:
    route = hub.route().say(b"RS+ $G a\r\nRS+ $G q g 1\r\n")
    leaf = hub.leaf(b"l5").say(b"LMSG a 1\r\nx\r\nLMSG q | g 1\r\ny\r\n")
    assert route.heard() == b"LMSG l5 $G a 0 1\r\nx\r\nLMSG l5 $G q | g 0 1\r\ny\r\n"
    leaf.say(b"LS+ lf\r\n")
    assert route.heard() == b"LS+ l5 $G lf\r\n"


def test_what_a_leaf_node_may_not_send_is_refused_unless_it_answers(hub: Hub) -> None:
    peer = hub.peer().send(b"SUB > 1\r\n")
    leaf = Leaf(hub)
    leaf.link.restrict(None, None, lambda subject: subject == b"may")
    leaf.session.responses.add(b"answer")
    leaf.link.open(hub.interest, is_spoke=False, headers=True)
    leaf.say(b"LMSG may 1\r\n1\r\nLMSG not 1\r\n2\r\nLMSG answer 1\r\n3\r\nLMSG _R_.x 1\r\n4\r\n")
    assert leaf.session.called("message_refused") == [(b"not",), (b"answer",)]
    assert peer.received() == b"MSG may 1 1\r\n1\r\nMSG answer 1 1\r\n3\r\nMSG _R_.x 1 1\r\n4\r\n"


def test_reply_subjects_are_told_of_where_that_is_asked_for(hub: Hub) -> None:
    leaf = hub.leaf().say(b"LS+ a\r\n")
    hub.peer().send(b"PUB a one 0\r\n\r\n")
    leaf.link.track_replies(True)
    hub.peer().send(b"PUB a two 0\r\n\r\nPUB a 0\r\n\r\n")
    assert leaf.session.called("note_reply") == [(b"two",)]


# -- what ends a link ---------------------------------------------------------------------------------


def test_its_own_loop_subject_is_a_circle(hub: Hub) -> None:
    leaf = hub.leaf(loop=LOOP)
    leaf.heard()
    leaf.say(b"LS+ $LDS.another\r\nLS+ $LDS.own\r\nLS+ never\r\n")
    assert leaf.session.called("loop_detected") == [()]
    assert leaf.reason is CloseReason.PROTOCOL_VIOLATION
    assert leaf.link.subscriptions_count == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"LS+ a b\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LS+ \r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LS+ a b 1 2\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LMSG a\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LMSG a x\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LMSG a * g 1\r\nx\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LMSG a -1\r\nx\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"HMSG a 1\r\nx\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"HMSG a 5 2\r\nxx\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"LMSG a 1\r\nxyz", CloseReason.PROTOCOL_VIOLATION),
        (b"LMSG a 1048577\r\n", CloseReason.MAX_PAYLOAD_EXCEEDED),
        (b"LS+ " + b"x" * 70000, CloseReason.MAX_CONTROL_LINE_EXCEEDED),
        (b"RS+ $G a\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"PUB a 1\r\nx\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"\x00\xff\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"-ERR 'enough'\r\n", CloseReason.PARSE_ERROR),
    ],
)
def test_bad_input_ends_the_link_for_a_reason(hub: Hub, said: bytes, reason: CloseReason) -> None:
    leaf = hub.leaf().say(said)
    assert leaf.reason is reason


def test_input_that_is_odd_but_harmless(hub: Hub) -> None:
    leaf = hub.leaf().say(
        b"LS- never\r\nLS- a b c\r\nLS+ a..b\r\nLS+ a\r\nls+ a\r\nLS+\ta \r\nLS+ q g x\r\n"
        b"PONG\r\n+OK\r\nPING\r\n"
    )
    assert leaf.reason is CloseReason.NONE
    assert leaf.heard() == b"-ERR 'Invalid Subscription'\r\nPONG\r\n"
    assert sorted(leaf.link.interest_rows()) == [(b"a", None, 1), (b"q", b"g", 0)]


def test_a_line_that_is_cut_off_is_nothing(hub: Hub) -> None:
    leaf = hub.leaf().say(b"LS+ a\r\nLS+ b")
    assert leaf.link.interest_rows() == [(b"a", None, 1)]
    leaf.link.detach()
    assert hub.interest.statistics()["subscriptions"] == 0


def test_more_subjects_than_allowed_are_refused(hub: Hub) -> None:
    leaf = hub.leaf()
    leaf.link.limit(max_payload=1 << 20, max_control_line=65536, max_subscriptions=2)
    leaf.say(b"LS+ a\r\nLS+ b\r\nLS+ a\r\nLS+ c\r\n")
    assert leaf.heard() == b"-ERR 'maximum subscriptions exceeded'\r\n"
    assert leaf.session.called("subscriptions_exceeded") == [()]
    assert leaf.link.subscriptions_count == 2


def test_nothing_passes_before_the_handshake(hub: Hub) -> None:
    for said, reason in (
        (b"LS+ a\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"CONNECT {}\r\nLMSG a 1\r\nx\r\n", CloseReason.PROTOCOL_VIOLATION),
    ):
        leaf = Leaf(hub, must_connect=True).say(said)
        assert leaf.reason is reason
    greeted = Leaf(hub, must_connect=True).say(b"INFO {}\r\nCONNECT {}\r\n")
    assert [call[0] for call in greeted.session.calls] == ["peer_info", "connect"]
    assert greeted.reason is CloseReason.NONE


def test_a_link_is_opened_once(hub: Hub) -> None:
    leaf = hub.leaf()
    with pytest.raises(ValueError, match="opened once"):
        leaf.link.open(hub.interest, is_spoke=False, headers=True)


def test_everything_is_given_back(hub: Hub) -> None:
    before = live_objects() | {"blocks": 0}
    leaf = Leaf(hub)
    leaf.link.open(hub.interest, is_spoke=False, headers=True, origin=b"o", loop=LOOP, always=[b"x"])
    leaf.say(b"LS+ a\r\nLS+ b g 3\r\nLMSG a 1\r\nx\r\n")
    leaf.link.detach()
    hub.others.remove(leaf)
    vars(leaf.session).clear()
    del leaf
    hub.end_tick()
    assert live_objects() | {"blocks": 0} == before  # what the interest remembers stays with that
