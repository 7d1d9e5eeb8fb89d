"""Encryption at rest: what the raw files show, other keys, damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock, is_sound

from headrace.errors import StorageError
from headrace.log.encryption import OVERHEAD, Algorithm, Cipher
from headrace.log.file import FileLog
from headrace.log.port import Limits, NewMessage

if TYPE_CHECKING:
    from pathlib import Path

KEY: Final = bytes(range(32))
SECRETS: Final = [b"secret.subject", b"secret payload", b"_INBOX.secret", b"NATS/1.0\r\nSecret: 1\r\n\r\n"]


def open_log(directory: Path, cipher: Cipher | None, limits: Limits | None = None) -> FileLog:
    return FileLog(directory, limits=limits or Limits(), clock=Clock(), segment_bytes=2_000, cipher=cipher)


def fill(log: FileLog, count: int = 30) -> None:
    for _ in range(count):
        log.append([NewMessage(*SECRETS), NewMessage(b"other", b"", ttl_ns=10**18)])


@pytest.mark.parametrize("algorithm", ["aes-gcm", "chacha20-poly1305"])
def test_raw_files_show_nothing_and_the_key_everything(tmp_path: Path, algorithm: Algorithm) -> None:
    cipher = Cipher(KEY, algorithm)
    log = open_log(tmp_path, cipher)
    fill(log)
    log.delete(3)
    log.delete(5, erase=True)
    log.close()

    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"ecret" not in raw
    assert b"other" not in raw
    for with_checkpoint in (True, False):
        log = open_log(tmp_path, Cipher(KEY, algorithm))
        assert log.opened_from_checkpoint == with_checkpoint
        message = log.read(1)
        assert message is not None
        assert [message.subject, message.payload, message.reply, message.headers] == SECRETS
        assert log.state().messages == 58
        assert [m.sequence for m in log.read_from(1, filters=[b"secret.*"]).messages][:3] == [1, 7, 9]
        is_sound(log)
        log.close()
        (tmp_path / "checkpoint").unlink()


def test_the_same_message_twice_is_not_the_same_bytes() -> None:
    sealer = Cipher(KEY).segment(1, 1)
    one, two = sealer.seal(b"plain", b"head"), sealer.seal(b"plain", b"head")
    assert one != two
    assert len(one) == len(b"plain") + OVERHEAD
    assert sealer.open(one, b"head") == b"plain"
    assert sealer.open(one, b"haed") is None
    assert sealer.open(one[:-1], b"head") is None
    assert sealer.open(b"", b"head") is None
    assert Cipher(KEY).segment(1, 2).open(one, b"head") is None
    assert Cipher(KEY).segment(2, 1).open(one, b"head") is None


@pytest.mark.parametrize(
    "cipher", [None, Cipher(bytes(32)), Cipher(KEY, "chacha20-poly1305")], ids=["none", "key", "algorithm"]
)
def test_another_key_is_refused_and_harms_nothing(tmp_path: Path, cipher: Cipher | None) -> None:
    log = open_log(tmp_path, Cipher(KEY))
    fill(log)
    log.close()

    with pytest.raises(StorageError, match="encrypted"):
        open_log(tmp_path, cipher)

    assert open_log(tmp_path, Cipher(KEY)).state().messages == 60


def test_a_plain_log_goes_on_sealed(tmp_path: Path) -> None:
    log = open_log(tmp_path, None)
    log.append([NewMessage(b"a", b"plain")])
    log.close()

    log = open_log(tmp_path, Cipher(KEY))
    log.append([NewMessage(b"a", b"sealed")])
    log.close()

    log = open_log(tmp_path, Cipher(KEY))
    assert [m.payload for m in log.read_from(1).messages] == [b"plain", b"sealed"]
    assert b"sealed" not in b"".join(path.read_bytes() for path in tmp_path.glob("*.log"))


def test_an_emptied_plain_log_goes_on_sealed(tmp_path: Path) -> None:
    """Its last segment has no message yet; no message goes into it."""
    log = open_log(tmp_path, None)
    log.close()

    log = open_log(tmp_path, Cipher(KEY))
    first = log.append([NewMessage(b"a", b"sealed")])
    log.close()

    log = open_log(tmp_path, Cipher(KEY))
    assert [m.sequence for m in log.read_from(1).messages] == [first]
    assert b"sealed" not in b"".join(path.read_bytes() for path in tmp_path.glob("*.log"))
    is_sound(log)


def test_damage_costs_one_message(tmp_path: Path) -> None:
    log = FileLog(tmp_path, clock=Clock(), cipher=Cipher(KEY))
    log.append([NewMessage(b"a", b"x" * 100)] * 3)
    log.close()
    (path,) = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes())
    data[64 + 300] ^= 1
    path.write_bytes(data)
    (tmp_path / "checkpoint").unlink()

    page = FileLog(tmp_path, clock=Clock(), cipher=Cipher(KEY)).read_from(1)

    assert ([m.sequence for m in page.messages], page.damaged) == ([1, 3], [2])


def test_keys_that_are_none() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Cipher(b"short")
    with pytest.raises(ValueError, match="unknown encryption"):
        Cipher(KEY, "rot13")  # type: ignore[arg-type]
