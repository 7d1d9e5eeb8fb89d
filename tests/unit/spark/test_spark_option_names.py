"""Names that are no options: those of Kafka's source and of other programs are answered with ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.spark.errors import OptionError
from headrace.spark.options import OPTIONS, read_options
from headrace.spark.sink_options import SINK_OPTIONS, read_sink_options

PAGE = (Path(__file__).parents[3] / "docs" / "kafka.md").read_text()


def answer(name: str, *, writing: bool = False) -> str:
    read = read_sink_options if writing else read_options
    with pytest.raises(OptionError) as found:
        read({"stream": "ORDERS", name: "orders"})
    return str(found.value)


def rows(section: str) -> list[tuple[str, list[str], list[str]]]:
    """The rows of docs/kafka.md about options: the title of each, Kafka's names and ours."""
    table = PAGE.split(f"\n### {section}\n")[1].split("\n### ")[0]
    found = []
    for line in re.findall(r"^\| (?!Kafka|---)(.*) \|$", table, re.MULTILINE):
        theirs, ours = line.split(" | ")[:2]
        if theirs != "–" and ours != "the same" and "column" not in theirs.replace("option or column", ""):
            found.append((theirs, re.findall(r"`([\w.*]+)`", theirs), re.findall(r"`(\w+)`", ours)))
    return found


@pytest.mark.parametrize(
    ("theirs", "ours"), [(name, ours) for _, names, ours in rows("Reading") for name in names]
)
def test_each_name_of_kafkas_source_is_answered_as_the_page_says(theirs: str, ours: list[str]) -> None:
    text = answer(theirs.replace(".*", ".anything"))
    assert 'is not known to format("nats")' in text
    assert "did you mean" not in text
    assert "options are" not in text
    for name in ours:
        assert re.search(rf"\b{name}\b", text), f"{text} does not say {name}"


def test_each_option_of_kafkas_sink_is_answered_as_the_page_says() -> None:
    [(_, names, ours)] = [row for row in rows("Writing") if row[0].startswith("`topic`")]
    assert names == ["topic"]
    text = answer("topic", writing=True)
    assert text.startswith('option topic is not known to format("nats") for writing: here it is ')
    for name in ours:
        assert re.search(rf"\b{name}\b", text)
    assert "maxInFlight" in answer("kafka.batch.size", writing=True)
    assert "deliveryGuarantee" in answer("kafka.acks", writing=True)
    assert "there is no client of Kafka to tune" in answer("kafka.buffer.memory", writing=True)


@pytest.mark.parametrize("writing", [False, True])
def test_every_name_that_an_entry_lists_is_answered_with_its_option(writing: bool) -> None:
    entries = SINK_OPTIONS if writing else OPTIONS
    for entry in entries:
        for name in entry.elsewhere:
            text = answer(name, writing=writing)
            assert text.startswith(f"option {name} is not known"), "not as others write it"
            assert f"{entry.name} (" in text


def test_no_name_elsewhere_is_an_option_here() -> None:
    reading = {entry.name.lower() for entry in OPTIONS}
    writing = {entry.name.lower() for entry in SINK_OPTIONS} | {
        entry.name.lower() for entry in OPTIONS if entry.writes
    }
    assert not {name.lower() for entry in OPTIONS for name in entry.elsewhere} & reading
    assert not {name.lower() for entry in SINK_OPTIONS for name in entry.elsewhere} & writing


def test_a_job_of_kafkas_is_answered_at_once_and_whole() -> None:
    with pytest.raises(OptionError) as found:
        read_options(
            {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders", "startingOffsets": "x"}
        )
    several = "; several with commas between them"
    assert str(found.value) == (
        'option kafka.bootstrap.servers is not known to format("nats"): here it is url (Server URL'
        f'{several}); option subscribe is not known to format("nats"): here it is subject (Core subjects to '
        f"read, with wildcards{several}) or channel (STAN channels to read, with wildcards{several}) or "
        f"stream (JetStream streams to read, * for any text{several})"
    )
