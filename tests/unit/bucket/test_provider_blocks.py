"""The blocks of docs/bucket.md for each provider: read by `headrace serve -t`, taken by obstore, and used."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from harness.bucket_servers import create, fill
from harness.certificates import Authority
from headrace.bucket.opening import open_bucket
from headrace.cli import serve
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.binding import load_options
from headrace.testing import Server

if TYPE_CHECKING:
    from headrace.conf.bucket_options import BucketOptions

PAGE: Final = (Path(__file__).parents[3] / "docs/bucket.md").read_text(encoding="utf-8")
PROVIDERS: Final = {
    "Amazon S3": "s3://my-bucket/streams",
    "With a key of KMS": "s3://my-bucket/streams",
    "MinIO": "s3://streams/prod",
    "Cloudflare R2": "s3://my-bucket/streams",
    "Google Cloud Storage": "gs://my-bucket/streams",
    "Azure Blob Storage": "az://my-container/streams",
}
"""The URL of each block, by the words that its paragraph begins with."""
KEY: Final = "c2VjcmV0"
"""For every provider: base64, as Azure wants it."""


def block_of(provider: str) -> str:
    """The first block behind the words."""
    found = re.search(rf"^(?:\*\*)?{provider}.*?^```(?:conf)?\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/bucket.md has no block for {provider}"
    return found[1]


@cache
def service_account() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {"client_email": "a@example.com", "client_id": "1", "private_key_id": "k", "private_key": text}
    return json.dumps({"type": "service_account", **account})


@pytest.fixture(name="file_of")
def files_of_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a configuration with the files and the environment that a reader has."""
    for name in ("MINIO_KEY", "MINIO_SECRET", "R2_KEY", "R2_SECRET", "AZURE_KEY"):
        monkeypatch.setenv(name, KEY)
    Authority(tmp_path, "ca")
    (tmp_path / "service-account.json").write_text(service_account())

    def write(block: str) -> Path:
        file = tmp_path / "server.conf"
        file.write_text(block.replace("/etc/headrace", str(tmp_path)))
        return file

    return write


def bucket_of(file: Path) -> BucketOptions:
    jetstream = load_options(str(file)).jetstream
    assert jetstream is not None
    assert jetstream.bucket is not None
    return jetstream.bucket


def test_every_provider_has_a_block() -> None:
    """One that comes to the page has a row here."""
    section = PAGE.partition("## Set-up")[2].partition("\n## ")[0]
    named = re.findall(r"^\*\*(.+?)[.,]?[*,]", section, re.MULTILINE)
    assert sorted(named) == sorted({*PROVIDERS, "A directory"} - {"With a key of KMS"})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_block_is_read_and_taken_by_obstore(
    provider: str, file_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("obstore")
    file = file_of(block_of(provider))
    assert serve.run(["-t", "-c", str(file)]) == 0
    assert "is valid" in capsys.readouterr().err
    bucket = bucket_of(file)
    assert bucket.url == PROVIDERS[provider]
    assert open_bucket(bucket).store.location == bucket.url


def test_server_with_the_block_of_azure_keeps_its_streams_in_azurite(
    file_of: Any, tmp_path: Path, azure: dict[str, Any]
) -> None:
    """The block as it stands, with another account, container and endpoint."""
    block = block_of("Azure Blob Storage")
    for shown, real in (
        ("my-container/streams", f"archive/{tmp_path.name}"),
        ("myaccount", azure["account_name"]),
        ("$AZURE_KEY", f'"{azure["account_key"]}"'),
        ("credentials", f'endpoint: "{azure["endpoint"]}", credentials'),
    ):
        assert shown in block
        block = block.replace(shown, real)
    file = file_of(block)
    for number in (0, 1):
        text = file.read_text().replace("bucket {", f'store_dir: "{tmp_path}/disk{number}", bucket {{', 1)
        (tmp_path / f"{number}.conf").write_text(text)
        with Server(config=tmp_path / f"{number}.conf") as server:
            create(server.url) if number == 0 else create(server.url, "OTHER")
            if number == 0:
                fill(server.url, 1, 20)
            with connect(server.url) as connection:
                info = JetStreamApi(connection, "$JS.API").ask("STREAM.INFO.ORDERS")
            assert info["state"]["messages"] == 20, f"on disk {number}"
