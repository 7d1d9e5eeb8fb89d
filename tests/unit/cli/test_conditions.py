"""Conditions of `--where`."""

from __future__ import annotations

import pytest

from headrace.cli.conditions import FieldCondition
from headrace.cli.outcomes import CommandError, ExitCode

DOCUMENT = {
    "name": "ORDERS",
    "count": 20,
    "share": 0.5,
    "sealed": True,
    "mirror": None,
    "config": {"subjects": ["a", "b"], "limits": {}},
}
TRUE = [
    "name=ORDERS", "name!=X", "name>A", "name<=ORDERS", " name = ORDERS",
    "count=20", "count>=20", "count<100", "count!=21", "count!=many", "share=0.5", "share<0.75",
    "sealed=true", "sealed!=false", "mirror=null", "none!=1", "config.none.x!=1",
    "config.limits!=x", "config.subjects=a", "config.subjects!=c", "config.subjects.1=b",
]  # fmt: skip
FALSE = [
    "name=orders", "name!=ORDERS", "count>20", "count=many", "count>many", "sealed=false", "none=1", "none<1",
    "config.limits=x", "config.subjects=c", "config.subjects!=a", "config.subjects>a", "config.subjects.7=b",
]  # fmt: skip


@pytest.mark.parametrize("text", TRUE)
def test_it_holds(text: str) -> None:
    assert FieldCondition(text).holds(DOCUMENT)


@pytest.mark.parametrize("text", FALSE)
def test_it_does_not_hold(text: str) -> None:
    assert not FieldCondition(text).holds(DOCUMENT)


def test_documents_of_other_shapes_have_no_fields() -> None:
    assert not FieldCondition("a=1").holds([1])
    assert not FieldCondition("a=1").holds("a")


@pytest.mark.parametrize("text", ["", "name", "=x", "!=x", ">3"])
def test_what_is_no_condition_is_wrong_use(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        FieldCondition(text)
    assert caught.value.exit_code is ExitCode.WRONG_USE
