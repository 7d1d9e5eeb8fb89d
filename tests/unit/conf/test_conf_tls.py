"""The tls block and the flags that replace its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization

from harness.certificates import Authority
from headrace.conf.binding import load_options
from headrace.conf.options import OCSPCacheOptions, Options
from headrace.conf.tls_options import CertificateFiles, OCSPPeerOptions, TLSOptions
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(tmp_path_factory.mktemp("authority"), "authority")
    pair, other = authority.issue("pair"), authority.issue("other")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    (directory / "cert").write_bytes(pair.certificate.read_bytes())
    (directory / "key").write_bytes(pair.key.read_bytes())
    (directory / "other_key").write_bytes(other.key.read_bytes())
    (directory / "secret_key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"phrase"),
        )
    )
    (directory / "junk").write_bytes(b"junk")
    return directory


@pytest.fixture(autouse=True)
def _in_directory(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)


def load(text: str, flags: dict[str, object] | None = None) -> Options:
    return load_options(text=text, overrides={"tls_flags": flags}, environ={})


def complaints(text: str, flags: dict[str, object] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, flags)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", TLSOptions("cert", "key")),
        ("ca_file: cert, verify: true", TLSOptions("cert", "key", "cert", verify=True)),
        ("timeout: 3", TLSOptions("cert", "key", timeout=3.0)),
        ("timeout: 0.5", TLSOptions("cert", "key", timeout=0.5)),
        ("timeout: '300ms'", TLSOptions("cert", "key", timeout=0.3)),
        ("timeout: 0", TLSOptions("cert", "key", timeout=2.0)),
        ("handshake_first: true", TLSOptions("cert", "key", handshake_first=0.0)),
        ("handshake_first: false", TLSOptions("cert", "key", handshake_first=None)),
        ("first: 'on'", TLSOptions("cert", "key", handshake_first=0.0)),
        ("immediate: AUTO", TLSOptions("cert", "key", handshake_first=0.05)),
        ("handshake_first: 'off'", TLSOptions("cert", "key", handshake_first=None)),
        ("handshake_first: '300ms'", TLSOptions("cert", "key", handshake_first=0.3)),
        ("min_version: '1.3'", TLSOptions("cert", "key", min_version="1.3")),
        ("verify_and_map: false", TLSOptions("cert", "key")),
        ("verify_and_map: true", TLSOptions("cert", "key", verify=True, verify_and_map=True)),
        ("connection_rate_limit: 5", TLSOptions("cert", "key", connection_rate_limit=5)),
        ("connection_rate_limit: -5", TLSOptions("cert", "key")),
        ("pinned_certs: []", TLSOptions("cert", "key")),
        (
            f"pinned_certs: ['{'Aa' * 32}', '{'aA' * 32}']",
            TLSOptions("cert", "key", pinned_certs=("aa" * 32,)),
        ),
        (
            "curve_preferences: [CurveP521, X25519]",
            TLSOptions("cert", "key", curve_preferences=("CurveP521", "X25519")),
        ),
        (
            "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]",
            TLSOptions(
                "cert",
                "key",
                cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            ),
        ),
        (
            "allow_insecure_cipher_suites: true, cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]",
            TLSOptions("cert", "key", cipher_suites=("TLS_RSA_WITH_AES_128_CBC_SHA",)),
        ),
    ],
)
def test_block_gives_options(text: str, expected: TLSOptions) -> None:
    assert load(f"tls {{ cert_file: cert, key_file: key, {text} }}".replace(", }", " }")).tls == expected


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("cert_file: none, key_file: key", "1:7", "open none: no such file or directory"),
        ("cert_file: cert, key_file: none", "1:24", "open none: no such file or directory"),
        ("cert_file: junk, key_file: key", "1:7", "cannot use certificate junk and key key"),
        ("cert_file: cert, key_file: junk", "1:7", "cannot use certificate cert and key junk"),
        ("cert_file: cert, key_file: other_key", "1:7", "key values mismatch"),
        ("cert_file: cert, key_file: secret_key", "1:7", "cannot use certificate cert and key secret_key"),
        ("cert_file: cert, key_file: key, ca_file: none", "1:39", "open none: no such file or directory"),
        ("cert_file: cert, key_file: key, ca_file: junk", "1:39", "holds no certificates"),
        ("cert_file: cert", "1:1", "missing key_file"),
        ("cert_file: cert, key_file: key, timeout: x", "1:48", "is not a duration"),
        ("certs: [{cert_file: cert, key_file: other_key}]", "1:7", "key values mismatch"),
        ("certs: [{cert_file: cert, key_file: key}, {cert_file: junk, key_file: key}]", "1:7", "cannot use"),
    ],
)
def test_block_that_cannot_be_used_says_where_and_why(text: str, place: str, reason: str) -> None:
    (found,) = complaints(f"tls {{ {text} }}")
    assert found.startswith(f"<text>:{place}: ")
    assert reason in found


TTL = "cache_ttl_when_next_update_unset"
FILES = "cert_file: cert, key_file: key, ca_file: cert, verify: true"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (": true", OCSPPeerOptions()),
        (": false", None),
        (" {}", None),
        (" { verify: false, warn_only: true }", None),
        (" { Verify: true }", OCSPPeerOptions()),
        (
            f" {{ verify: true, ca_timeout: 0.5, allowed_clockskew: '1m', {TTL}: 60 }}",
            OCSPPeerOptions(ca_timeout=0.5, allowed_clockskew=60.0, validity=60.0),
        ),
        (
            " { verify: true, ca_timeout: 0, allowed_clockskew: 0, cache_ttl_when_next_update_unset: 0 }",
            OCSPPeerOptions(allowed_clockskew=0.0, validity=0.0),
        ),
        (
            f" {{ verify: true, ca_timeout: -1, allowed_clockskew: -1, {TTL}: '-1s' }}",
            OCSPPeerOptions(),
        ),
        (
            " { verify: true, warn_only: true, unknown_is_good: true, allow_when_ca_unreachable: true }",
            OCSPPeerOptions(warn_only=True, unknown_is_good=True, allow_when_ca_unreachable=True),
        ),
    ],
)
def test_peers_that_are_to_be_checked_by_ocsp(value: str, expected: OCSPPeerOptions | None) -> None:
    options = load(
        f"tls {{ {FILES}, ocsp_peer{value} }}\n"
        f"websocket {{ port: -1, tls {{ {FILES}, ocsp_peer{value} }} }}\n"
        f"leafnodes {{ port: -1, tls {{ {FILES}, ocsp_peer{value} }}, "
        f"remotes: [{{ url: 'tls://127.0.0.1:1', tls {{ ca_file: cert, ocsp_peer{value} }} }}] }}"
    )
    assert options.tls is not None
    assert options.websocket is not None
    assert options.websocket.tls is not None
    assert options.leafnodes is not None
    assert options.leafnodes.tls is not None
    (remote,) = options.leafnodes.remotes
    assert remote.tls is not None
    assert remote.tls.files is not None
    blocks = (options.tls, options.websocket.tls, options.leafnodes.tls, remote.tls.files)
    assert [block.ocsp_peer for block in blocks] == [expected] * 4


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (": 1", 'field "ocsp_peer" must be a map'),
        (" { verify: 'yes' }", 'field "verify" must be true or false'),
        (" { verify: true, ca_timeout: x }", "not a duration"),
        (" { verify: true, ca_timeout: true }", "must be a duration"),
        (" { verify: true, warn: true }", 'unknown field "warn"'),
    ],
)
def test_mistakes_in_ocsp_peer(value: str, complaint: str) -> None:
    (found,) = complaints(f"tls {{ {FILES}, ocsp_peer{value} }}")
    assert complaint in found


@pytest.mark.parametrize(
    "block",
    [
        "cluster { port: -1, %s }",
        "gateway { name: G, port: -1, %s }",
        "gateway { name: G, port: -1, gateways: [{name: H, url: 'nats://127.0.0.1:1', %s}] }",
    ],
)
def test_routes_and_gateways_are_not_checked_by_ocsp_and_that_is_said(block: str) -> None:
    options = load(block % f"tls {{ {FILES}, ocsp_peer: true }}")
    (warning,) = options.warnings
    assert "ocsp_peer has no effect between servers" in warning
    assert load(block % f"tls {{ {FILES}, ocsp_peer: false }}").warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", OCSPCacheOptions()),
        ("ocsp_cache: true", OCSPCacheOptions()),
        ("ocsp_cache: false", OCSPCacheOptions(keeps=False)),
        ("ocsp_cache {}", OCSPCacheOptions()),
        ("ocsp_cache { type: None }", OCSPCacheOptions(keeps=False)),
        ("ocsp_cache { type: LOCAL, preserve_revoked: true }", OCSPCacheOptions(preserve_revoked=True)),
    ],
)
def test_ocsp_cache(text: str, expected: OCSPCacheOptions) -> None:
    assert load(text).ocsp_cache == expected


def test_ocsp_cache_on_disk_is_none() -> None:
    options = load("ocsp_cache { local_store: x, save_interval: '5m' }")
    assert [line.partition(" has no effect: ")[2] for line in options.remarks] == [
        "answers are kept in memory only, and asked for again after a start"
    ] * 2


@pytest.mark.parametrize("value", [": 1", " { type: x }", " { foo: 1 }", " { preserve_revoked: 1 }"])
def test_mistakes_in_ocsp_cache(value: str) -> None:
    assert len(complaints(f"ocsp_cache{value}")) == 1


def test_flags_give_options_without_a_file() -> None:
    flags = {"cert_file": "cert", "key_file": "key", "ca_file": "cert", "verify": True}
    assert load("", flags).tls == TLSOptions("cert", "key", "cert", verify=True)


def test_flags_replace_files_and_keep_the_rest() -> None:
    text = "tls { cert_file: cert, key_file: key, ca_file: cert, verify: true, timeout: 9, first: true }"
    flags = {"cert_file": "./cert", "key_file": "./key"}
    assert load(text, flags).tls == TLSOptions("./cert", "./key", timeout=9.0, handshake_first=0.0)


def test_flags_can_turn_tls_off() -> None:
    assert load("tls { cert_file: cert, key_file: key }", {"enabled": False}).tls is None


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({}, "TLS server certificate must be present and valid"),
        ({"cert_file": "cert"}, "TLS server private key must be present and valid"),
        ({"cert_file": "cert", "key_file": "none"}, "open none: no such file or directory"),
        ({"cert_file": "junk", "key_file": "key"}, "cannot use certificate junk and key key"),
    ],
)
def test_flags_that_cannot_be_used_are_refused(flags: dict[str, object], reason: str) -> None:
    (found,) = complaints("", flags)
    assert reason in found


def test_several_certificates() -> None:
    pairs = "[{cert_file: cert, key_file: key}, {cert_file: cert, key_file: key}]"
    expected = TLSOptions("cert", "key", more_certs=(CertificateFiles("cert", "key"),))
    assert load(f"tls {{ certs: {pairs} }}").tls == expected
    assert load(f"tls {{ certs: {pairs} }}", {"cert_file": "cert", "key_file": "key"}).tls == TLSOptions(
        "cert", "key"
    )


def test_insecure_is_warned_of_since_it_does_nothing() -> None:
    (warning,) = load("tls { cert_file: cert, key_file: key, insecure: true }").warnings
    assert "insecure has no effect" in warning


def test_websocket_has_tls_of_its_own_and_is_warned_of_what_does_nothing_there() -> None:
    text = "websocket { port: 1, tls { cert_file: cert, key_file: key, verify: true, timeout: 5 } }"
    options = load(text)
    assert options.websocket is not None
    assert options.websocket.tls == TLSOptions("cert", "key", verify=True, timeout=5.0)
    assert options.tls is None
    (warning,) = options.warnings
    assert "timeout has no effect in tls of websocket" in warning


def test_websocket_with_broken_tls_is_not_told_to_have_some() -> None:
    (found,) = complaints("websocket { port: 1, tls { cert_file: cert, key_file: junk } }")
    assert "cannot use certificate" in found
