"""Two pictures of one page, compared: as a person would who stands too far away to read.

A picture is cut into cells; of each is known its colour and how much stands in it (ink: how much light
changes from one point to the next). Other times, ids and figures change a few cells a little; a column that
is elsewhere, or a style that is missing, changes many. Never here: how a picture is taken.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

CELL: Final = 40
"""Points on each side of a cell."""
COLOUR: Final = 20
"""Of 255: cells whose colours differ by more are different."""
INK: Final = 8
"""Of 255: cells are different whose neighbouring points differ, in the mean, by so much more or less."""
NOTHING: Final = 0.5
"""Of 255: the ink of a cell where nothing stands is less."""

_CELLS = """async ([picture, cell]) => {
  const image = await createImageBitmap(await (await fetch("data:image/png;base64," + picture)).blob());
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const light = (at) => (data[at] * 299 + data[at + 1] * 587 + data[at + 2] * 114) / 1000;
  const rows = [];
  for (let top = 0; top + cell <= height; top += cell) {
    const row = [];
    for (let left = 0; left + cell <= width; left += cell) {
      const sums = [0, 0, 0, 0];
      for (let y = top; y < top + cell; y += 1) {
        for (let x = left; x < left + cell; x += 1) {
          const at = (y * width + x) * 4;
          for (let colour = 0; colour < 3; colour += 1) sums[colour] += data[at + colour];
          if (x > left) sums[3] += Math.abs(light(at) - light(at - 4));
          if (y > top) sums[3] += Math.abs(light(at) - light(at - 4 * width));
        }
      }
      row.push(sums.map((sum) => sum / cell / cell));
    }
    rows.push(row);
  }
  return { width, height, rows };
}"""


@dataclass(frozen=True)
class Picture:
    """Size in points, and rows of cells: red, green, blue, ink."""

    width: int
    height: int
    rows: list[list[list[float]]]

    def difference(self, other: Picture) -> float:
        """The share of cells that differ, of those where one of both pictures has something."""
        pairs = [
            (mine, its)
            for my_row, its_row in zip_longest(self.rows, other.rows, fillvalue=[])
            for mine, its in zip_longest(my_row, its_row, fillvalue=None)
            if _has_something(mine) or _has_something(its)
        ]
        return sum(not _are_alike(*pair) for pair in pairs) / max(1, len(pairs))


def _has_something(cell: list[float] | None) -> bool:
    return cell is not None and cell[-1] >= NOTHING


def _are_alike(mine: list[float] | None, its: list[float] | None) -> bool:
    if mine is None or its is None:
        return False
    *colours, ink = (abs(a - b) for a, b in zip(mine, its, strict=True))
    return max(colours) <= COLOUR and ink <= INK


class Reader:
    """Reads pictures by a browser, of which an empty page is needed."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def read(self, png: bytes) -> Picture:
        """Raises: playwright's Error for bytes that are no picture."""
        told = self._page.evaluate(_CELLS, [base64.b64encode(png).decode(), CELL])
        return Picture(told["width"], told["height"], told["rows"])
