"""What becomes of a tab of the console that stays open: its heap, elements and memory over an hour.

Most of the time the tab shows messages as they pass; every few minutes a person walks over the other pages
and scrolls through the long lists. Never here: the server (`bench.console_server`), what a page does in the
browser (`bench.console_pages`).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

from bench.console_pages import Browser
from bench.console_server import looked_at
from bench.errors import BenchError
from bench.progress import Progress
from bench.render import PAGE
from bench.section import Section

if TYPE_CHECKING:
    import argparse
    import subprocess

    from bench.console_pages import Page

RATE: Final = 2_000
"""Messages a second in the tail."""
BAR_MB: Final = 200
_EVERY_S: Final = 300.0
"""Between two measurements; after each a person walks over the pages."""
_TAIL: Final = "#/live?subject=load.%3E"
_ROWS: Final = "main tbody tr[data-key]"
_LISTS: Final = ("streams", "connections")
_PAGES: Final = (
    *("overview", "alerts", "consumers", "keyvalue", "objects", "services"),
    *("accounts", "map", "server"),
)
_LOOK_MS: Final = 2_000
"""So long a person looks at a page of a walk."""


def run_hour(options: argparse.Namespace, origin: dict[str, object]) -> int:
    """Measure, write the result file, fill the page; code 3 for a tab over its bar. Raises: BenchError."""
    progress = Progress(int(options.minutes * 60 // _EVERY_S) + 2)
    try:
        samples = _samples(options.minutes, options.many, progress)
    finally:
        progress.close()
    result = {**origin, "minutes": options.minutes, "many": options.many, "rate": RATE, "samples": samples}
    SECTION.publish(result, options.name)
    return 3 if _most(samples) > BAR_MB else 0


def _samples(minutes: float, many: int, progress: Progress) -> list[dict[str, float]]:
    """Measure a tab at its beginning, every five minutes and at its end."""
    load = ("--subjects", "20", "--rate", str(RATE), "--duration", f"{minutes + 30:.0f}m")
    with looked_at() as looked, Browser() as browser:
        looked.make_streams(many)
        with (
            looked.idle_connections(many),
            looked.loaded("pub", "load", *load) as loading,
            browser.page(looked.url, _TAIL) as page,
        ):
            return _watch(page, loading, minutes * 60, progress)


def _watch(
    page: Page, loading: subprocess.Popen[str], seconds: float, progress: Progress
) -> list[dict[str, float]]:
    page.wait_for(_ROWS)
    began = time.monotonic()
    samples = [_sample(page, 0, progress) | {"kept_heap_mib": page.kept_heap_mib()}]
    for due in _moments(seconds):
        _walk(page)
        page.rest(max(0.0, due - (time.monotonic() - began)) * 1e3)
        if loading.poll() is not None:
            raise BenchError(f"the load ended too early: {loading.communicate()[1][-500:]}")
        samples.append(_sample(page, (time.monotonic() - began) / 60, progress))
    samples[-1]["kept_heap_mib"] = page.kept_heap_mib()
    return samples


def _moments(seconds: float) -> list[float]:
    """When a tab is measured after its beginning, in seconds: every five minutes, and at its end."""
    return [*(place * _EVERY_S for place in range(1, math.ceil(seconds / _EVERY_S))), seconds]


def _sample(page: Page, minute: float, progress: Progress) -> dict[str, float]:
    page.wait_for(_ROWS)
    sample = {"minute": round(minute, 1), **page.memory()}
    progress.step(", ".join(f"{name} {value:,.0f}" for name, value in sample.items()))
    return sample


def _walk(page: Page) -> None:
    """Look at all pages, scroll through the long lists, and go back to the messages."""
    page.touch()
    for name in _LISTS:
        page.shown_after(f"#/{name}", f'[data-page="{name}"] tbody tr[data-key]')
        page.scroll(".table-box.windowed")
    for name in _PAGES:
        page.shown_after(f"#/{name}", f'[data-page="{name}"] h1')
        page.rest(_LOOK_MS)
    page.shown_after(_TAIL, f'[data-page="live"] {_ROWS.removeprefix("main ")}')


def _most(samples: list[dict[str, float]]) -> float:
    """The most memory that the tab had to itself, in MB."""
    return max(sample["private_mib"] for sample in samples) * (1 << 20) / 1e6


def _words(result: dict[str, Any]) -> str:
    samples = result["samples"]
    rows: list[tuple[str, ...]] = [
        ("minute", "heap of the tab", "nodes of documents", "listeners", "memory of its process")
    ]
    rows.append(("---",) * 5)
    rows += [
        (
            f"{sample['minute']:.0f}",
            f"{sample['heap_mib']:.1f} MiB",
            f"{sample['nodes']:,.0f}",
            f"{sample['listeners']:,.0f}",
            f"{sample['private_mib']:.0f} MiB",
        )
        for sample in samples
    ]
    first, last = (samples[place]["kept_heap_mib"] for place in (0, -1))
    most = _most(samples)
    verdict = f"under {BAR_MB} MB" if most < BAR_MB else f"**over {BAR_MB} MB**"
    note = (
        f"One tab with {result['rate']:,} messages a second in Live; after each line a walk over the other "
        f"pages, through {result['many']:,} streams and {result['many']:,} connections. Heap, nodes and "
        f"listeners are counted with what waits for the collector; after it {first:.1f} MiB of the heap were "
        f"left at the beginning, {last:.1f} MiB at the end. "
        f"Memory is what the tab's process has to itself, at most {most:.0f} MB: {verdict}. "
        f"`python -m bench console --minutes {result['minutes']:.0f}`"
    )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\n{note}\n"


SECTION: Final = Section("console-hour", PAGE, _words)
