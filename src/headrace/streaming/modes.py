"""The ways of having channels, alone or as one of several servers: the words of monitoring and logs for each.

Only values live here. Source: states, roles and log lines are nats-streaming-server's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headrace.conf.streaming_options import StreamingOptions


class Mode(NamedTuple):
    """The words of one way: states and roles while a server has the channels and while another one does.

    The rest are log lines: at the start, before and after it gets the channels, before and after it loses
    them.
    """

    active: str
    inactive: str
    leads: str = ""
    follows: str = ""
    stands_by: str = ""
    gaining: str = ""
    gained: str = ""
    losing: str = ""
    lost: str = ""


STANDALONE: Final = Mode("STANDALONE", "SHUTDOWN")
FAULT_TOLERANT: Final = Mode(
    "FT_ACTIVE",
    "FT_STANDBY",
    stands_by="Starting in standby mode",
    gaining="Server is active",
    lost="Server is in standby mode",
)
CLUSTERED: Final = Mode(
    "CLUSTERED",
    "CLUSTERED",
    leads="Leader",
    follows="Follower",
    gaining="server became leader, performing leader promotion actions",
    gained="finished leader promotion actions",
    losing="server lost leadership, performing leader stepdown actions",
    lost="finished leader stepdown actions",
)


def mode_of(options: StreamingOptions) -> Mode:
    """Return the way in which a server with these options has its channels."""
    if options.clustered:
        return CLUSTERED
    if options.ft_group or options.bucket is not None:
        return FAULT_TOLERANT
    return STANDALONE
