"""Publish, listen and ask with the blocking client: no asyncio, fit for a notebook cell.

python examples/notebook_client.py nats://127.0.0.1:4222
"""

import sys

from headrace.client.blocking import connect
from headrace.client.errors import NoRespondersError


def walk(url: str) -> list[str]:
    """What happened, line by line."""
    lines = []
    with connect(url) as nc:
        nc.subscribe("greet.*")
        for name in ("joe", "sue"):
            nc.publish(f"greet.{name}", b"hello", headers={"Lang": "en"})
        nc.flush()
        lines += [f"{message.subject}: {message.data.decode()}" for message in nc.messages(timeout=0.2)]
        try:
            nc.request("time.now")
        except NoRespondersError as error:
            lines.append(str(error))
    return lines


if __name__ == "__main__":
    print(*walk(*sys.argv[1:2] or ["nats://127.0.0.1:4222"]), sep="\n")
