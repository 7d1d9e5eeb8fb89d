"""Configurations in the documentation are good ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.certificates import Authority
from headrace.conf.binding import load_options

DOCS = Path(__file__).parents[3] / "docs"
SAMPLES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, text in enumerate(re.findall(r"```conf\n(.*?)```", page.read_text(), re.DOTALL))
]


def test_there_are_samples() -> None:
    assert SAMPLES


@pytest.mark.parametrize("text", SAMPLES)
def test_sample_is_accepted_without_a_warning(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server")
    pair.certificate.rename("cert.pem")
    pair.key.rename("key.pem")
    assert load_options(text=text).warnings == ()
