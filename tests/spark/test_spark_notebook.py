"""The example notebook, executed as Jupyter would."""

from __future__ import annotations

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

import headrace
from harness.dearest import in_turn
from harness.waiting import LONG
from headrace.spark.session import QUICK_START_FLAGS

pytestmark = [
    pytest.mark.spark,
    in_turn("notebook"),
    # of the libraries that run a notebook, not of ours
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pipeline.ipynb"


def test_example_notebook_runs_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(Path(headrace.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", QUICK_START_FLAGS)  # of the JVM, whose options are the notebook's
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs of a run are not committed"
    nbclient.NotebookClient(
        notebook, timeout=int(LONG), kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = "".join(
        output.get("data", {}).get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    )
    assert "<th>messages</th><td>1,000</td>" in shown  # the stream
    assert "is_an_order" in shown  # the dead letters
