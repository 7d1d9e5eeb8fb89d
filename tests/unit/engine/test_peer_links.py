"""What links to servers of all kinds have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.engine.gateway import GatewayLink
from headrace.engine.leaf import LeafLink
from headrace.engine.legacy_route import LegacyRouteLink
from headrace.engine.link import Router
from headrace.engine.route import RouteLink

if TYPE_CHECKING:
    from headrace.engine.peer import PeerLink


@pytest.mark.parametrize("kind", [RouteLink, LegacyRouteLink, LeafLink, GatewayLink])
def test_an_option_that_is_not_there_is_an_error(kind: type[PeerLink]) -> None:
    with pytest.raises(TypeError, match="max_paylod"):
        kind(Router(), None, max_paylod=1)  # type: ignore[call-arg]
