"""From the options of a bucket to its stores: what obstore is given, and one clear line for each mistake."""

from __future__ import annotations

import asyncio
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from harness.store_proxy import Fate, store_proxy
from headrace.bucket.errors import BucketError
from headrace.bucket.identity import IDENTITY_KEY, check_identity
from headrace.bucket.opening import open_bucket, store_options
from headrace.conf.bucket_options import BucketCredentials, BucketOptions
from headrace.errors import UnsupportedError
from headrace.objects.errors import AccessRefused, RequestRefused

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.objects.port import AsyncObjectStore

# What moto and its dependencies warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")

KEYS = BucketCredentials(access_key_id="key", secret_access_key="secret")


def options_of(url: str, endpoint: str, **more: Any) -> BucketOptions:
    return BucketOptions(url=url, endpoint=endpoint, region="us-east-1", credentials=KEYS, **more)


def given(**options: Any) -> dict[str, Any]:
    found = store_options(BucketOptions(**options))
    client = found.pop("client_options")
    del client["connect_timeout"]
    return found | client


def test_options_of_s3() -> None:
    assert given(url="s3://b/p") == {"virtual_hosted_style_request": False, "unsigned_payload": True}
    assert given(
        url="s3://b/p",
        endpoint="https://minio.example:9000/",
        region="eu-west-1",
        credentials=BucketCredentials(access_key_id="a", secret_access_key="s", session_token="t"),
        server_side_encryption="aws:kms",
        kms_key_id="k",
    ) == {
        "virtual_hosted_style_request": False,
        "endpoint": "https://minio.example:9000",
        "allow_http": False,
        "unsigned_payload": True,
        "region": "eu-west-1",
        "access_key_id": "a",
        "secret_access_key": "s",
        "session_token": "t",
        "server_side_encryption": "aws:kms",
        "sse_kms_key_id": "k",
    }


def test_bytes_are_signed_where_no_tls_protects_them_or_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_UNSIGNED_PAYLOAD", raising=False)
    http = {"url": "s3://b/p", "endpoint": "http://minio.example:9000"}
    assert "unsigned_payload" not in given(**http)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert "unsigned_payload" not in given(url="s3://b/p")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert given(url="s3://b/p")["unsigned_payload"] is True
    monkeypatch.setenv("AWS_UNSIGNED_PAYLOAD", "false")
    assert "unsigned_payload" not in given(url="s3://b/p")


def test_bucket_is_in_the_host_name_where_it_is_not_in_the_path() -> None:
    assert given(url="s3://b/p", endpoint="http://s3.example:80", path_style=False) == {
        "virtual_hosted_style_request": True,
        "endpoint": "http://b.s3.example:80",
        "allow_http": True,
    }


def test_options_of_azure_and_google() -> None:
    assert given(
        url="az://c/p", credentials=BucketCredentials(account_name="n", account_key="k"), endpoint="http://x"
    ) == {"account_name": "n", "account_key": "k", "endpoint": "http://x", "allow_http": True}
    assert given(url="gs://b/p", credentials=BucketCredentials(file="/key.json"), endpoint="https://x") == {
        "service_account": "/key.json",
        "base_url": "https://x",
        "allow_http": False,
    }


def test_authorities_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("a certificate")
    assert given(url="s3://b", ca_file=str(file))["root_certificate"] == "a certificate"
    with pytest.raises(BucketError, match=r"^the authorities of the bucket cannot be read: .*No such file"):
        open_bucket(BucketOptions(url="s3://b", ca_file=str(tmp_path / "none.pem")))


def test_authorities_that_are_none_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    file = tmp_path / "ca.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
    with pytest.raises(BucketError, match=r"^the bucket cannot be opened: s3://b: [^\n]+$"):
        open_bucket(BucketOptions(url="s3://b", ca_file=str(file), region="us-east-1", credentials=KEYS))


def test_bucket_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(
        UnsupportedError, match=r"^s3://b needs the package obstore: pip install 'headrace\[bucket\]'$"
    ):
        open_bucket(BucketOptions(url="s3://b"))


def test_directory_needs_no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    store, reads = open_bucket(BucketOptions(url=f"file://{tmp_path}/made%20here"))
    asyncio.run(check_identity(store, "east"))
    assert reads.get(IDENTITY_KEY)
    assert (tmp_path / "made here" / IDENTITY_KEY).exists()


def test_bucket_of_s3_is_read_and_written(s3: dict[str, Any], tmp_path: Path) -> None:
    options = BucketOptions(
        url=f"s3://archive/{tmp_path.name}", endpoint=s3["endpoint"], region="us-east-1", credentials=KEYS
    )
    store, reads = open_bucket(options)
    asyncio.run(check_identity(store, "east"))
    assert reads.get_range(IDENTITY_KEY, 0, 1) == asyncio.run(store.get(IDENTITY_KEY))[:1]


def test_bucket_that_is_not_there_is_one_line(s3: dict[str, Any]) -> None:
    options = BucketOptions(
        url="s3://nowhere/p", endpoint=s3["endpoint"], region="us-east-1", credentials=KEYS
    )
    with pytest.raises(RequestRefused, match=r"^cannot \w+ s3://nowhere/p\S*: there is no such bucket$"):
        asyncio.run(check_identity(open_bucket(options).store, "east"))


def test_container_of_azure_is_read_and_written_with_the_right_key_only(
    azure: dict[str, Any], tmp_path: Path
) -> None:
    def opened(container: str, key: str) -> AsyncObjectStore:
        credentials = BucketCredentials(account_name=azure["account_name"], account_key=key)
        url = f"az://{container}/{tmp_path.name}"
        return open_bucket(BucketOptions(url=url, endpoint=azure["endpoint"], credentials=credentials)).store

    key: str = azure["account_key"]
    asyncio.run(check_identity(opened("archive", key), "east"))
    assert asyncio.run(opened("archive", key).get(IDENTITY_KEY))
    with pytest.raises(RequestRefused, match=r"^cannot read az://nowhere/\S+: there is no such container$"):
        asyncio.run(check_identity(opened("nowhere", key), "east"))
    with pytest.raises(
        AccessRefused, match=r"^cannot read az://archive/\S+: 403 AuthorizationFailure \([^\n]+\)$"
    ):
        asyncio.run(check_identity(opened("archive", f"A{key[1:]}"), "east"))


def test_credentials_that_are_wrong_are_one_line(s3: dict[str, Any]) -> None:
    with store_proxy(s3["endpoint"]) as proxy:  # moto believes everybody
        proxy.default = lambda _request: Fate(
            status=403, code="InvalidAccessKeyId", message="No such access key."
        )
        options = BucketOptions(
            url="s3://archive/p", endpoint=proxy.url, region="us-east-1", credentials=KEYS
        )
        with pytest.raises(
            AccessRefused, match=r"^cannot read \S+: 403 InvalidAccessKeyId \(No such access key\.\)$"
        ):
            asyncio.run(check_identity(open_bucket(options).store, "east"))


def test_encryption_at_rest_is_asked_for(s3: dict[str, Any], tmp_path: Path) -> None:
    with store_proxy(s3["endpoint"]) as proxy:
        options = options_of(
            f"s3://archive/{tmp_path.name}", proxy.url, server_side_encryption="aws:kms", kms_key_id="k"
        )
        asyncio.run(open_bucket(options).store.create("a", b"x"))
        (request,) = proxy.requests
        assert request.headers["x-amz-server-side-encryption"] == "aws:kms"
        assert request.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "k"
        assert request.headers["if-none-match"] == "*"
        assert request.headers["x-amz-content-sha256"] == sha256(b"x").hexdigest()


def test_the_environment_says_that_an_endpoint_has_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    assert "allow_http" not in store_options(BucketOptions("s3://b/p"))["client_options"]
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert store_options(BucketOptions("s3://b/p"))["client_options"]["allow_http"] is True
    tls = BucketOptions("s3://b/p", endpoint="https://s3.example")
    assert store_options(tls)["client_options"]["allow_http"] is False
