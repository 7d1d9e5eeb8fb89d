"""Random names and hashes of names."""

from __future__ import annotations

from headrace.protocol.nuid import new_nuid, random_name, short_hash


def test_random_names_are_of_letters_and_digits_and_differ() -> None:
    names = {random_name(8) for _ in range(100)}

    assert len(names) == 100
    assert all(len(name) == 8 and name.isascii() and name.isalnum() for name in names)
    assert len(new_nuid()) == 22


def test_hash_is_the_one_of_the_go_server() -> None:
    assert short_hash("A", 6) == "NUmM6c"
