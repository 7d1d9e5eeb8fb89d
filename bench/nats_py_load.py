"""A publisher with nats-py and a window of unacknowledged messages, `python -m bench.nats_py_load`.

Prints a report of one line, as the generator in C does: messages that were acknowledged, latencies in µs.
Needs nats-py, as tests do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nats.js import JetStreamContext

NO_SUITABLE_PEERS: Final = 10005
"""The error code of servers that do not know each other well enough yet to place a stream."""
PEERS_LIMIT_S: Final = 30.0
_AGAIN_S: Final = 0.1


async def publish(options: argparse.Namespace) -> dict[str, float]:
    """Publish to a new stream as the options of `main` say; return the report."""
    import nats

    stream: str = options.stream
    client = await nats.connect(f"nats://127.0.0.1:{options.port}")
    js = client.jetstream(timeout=30, publish_async_max_pending=options.inflight + 1)
    await make_stream(js, stream, options.replicas)
    room, payload = asyncio.Semaphore(options.inflight), bytes(options.payload)
    latencies: list[float] = []

    def acknowledged(begun: float) -> Any:
        def note(answer: asyncio.Future[Any]) -> None:
            answer.result()  # an error ends the load
            latencies.append(time.perf_counter() - begun)
            room.release()

        return note

    end = time.perf_counter() + options.seconds
    while (begun := time.perf_counter()) < end:
        await room.acquire()
        (await js.publish_async(stream, payload)).add_done_callback(acknowledged(begun))
    await js.publish_async_completed()
    await client.close()
    return report(latencies)


async def make_stream(js: JetStreamContext, name: str, replicas: int) -> None:
    """Make a stream, as soon as the servers have peers for it.

    Raises: APIError, also if they have none within `PEERS_LIMIT_S`.
    """
    from nats.js.errors import APIError

    end = time.monotonic() + PEERS_LIMIT_S
    while True:
        try:
            await js.add_stream(name=name, subjects=[name], num_replicas=replicas)
        except APIError as error:
            if error.err_code != NO_SUITABLE_PEERS or time.monotonic() > end:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return


def report(latencies: Sequence[float]) -> dict[str, float]:
    """Return what is shown of latencies in seconds."""
    found = sorted(latencies)
    return {
        "published": len(found),
        "p50_us": found[len(found) // 2] * 1e6,
        "p99_us": found[int(len(found) * 0.99)] * 1e6,
    }


def main() -> None:
    """Publish, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.nats_py_load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--inflight", type=int, required=True, help="messages on their way at once")
    parser.add_argument("--payload", type=int, required=True, help="bytes of a message")
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--stream", required=True, help="its name, and its subject")
    print(json.dumps(asyncio.run(publish(parser.parse_args()))))


if __name__ == "__main__":
    main()
