"""The table of JetStream's errors: every text can be filled, and what is missing is noticed."""

from __future__ import annotations

import string

import pytest

from headrace.protocol.jetstream.errors import ERRORS, ApiError


def test_every_error_says_what_it_was_given() -> None:
    for number, (code, text) in ERRORS.items():
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name]
        error = ApiError(number, **{name: f"<{name}>" for name in names})
        assert error.body()["code"] == code
        assert all(f"<{name}>" in error.description for name in names)
        assert "{" not in error.description


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError):
        ApiError(10043)
    assert ApiError(10043, seq=7).description == "sequence 7 not found"
