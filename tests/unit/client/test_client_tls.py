"""The TLS context of a client, and files that it cannot use."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from headrace.client.errors import TLSFileError
from headrace.client.tls import client_context

if TYPE_CHECKING:
    from pathlib import Path


def test_servers_are_checked_unless_that_is_said() -> None:
    assert client_context().verify_mode is ssl.CERT_REQUIRED
    assert client_context().check_hostname
    unchecked = client_context(verify=False)
    assert unchecked.verify_mode is ssl.CERT_NONE
    assert not unchecked.check_hostname


@pytest.mark.parametrize("option", ["ca_file", "cert_file"])
def test_the_file_that_cannot_be_used_is_named(tmp_path: Path, option: str) -> None:
    nonsense = tmp_path / "x.pem"
    nonsense.write_text("nonsense")

    for path in (nonsense, tmp_path / "none.pem", "a\0b.pem"):
        with pytest.raises(TLSFileError) as caught:
            client_context(**{option: str(path)})
        assert caught.value.path == str(path)
        assert str(caught.value).startswith(f"{path}: ")
