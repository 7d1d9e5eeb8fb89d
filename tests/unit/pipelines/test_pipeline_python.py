"""Specifications in Python: the same as in YAML, functions by name, and problems at the lines of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_pipeline_sql import YAML, without_places

from headrace.errors import ConfigError
from headrace.pipelines.functions import FunctionError, find_function
from headrace.pipelines.reading import load_spec, read_spec

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = '''\
from headrace.pipelines import Pipeline

orders = Pipeline(
    "orders", trigger="500ms", parameters={"channel": "orders", "limit": 10},
    nats={"url": "nats://127.0.0.1:4222"}, spark={"spark.sql.shuffle.partitions": 4},
)
orders.source("orders", format="nats", watermark={"column": "timestamp", "delay": "1m"},
    options={"channel": "${channel}", "maxOffsetsPerTrigger": "${limit}", "failOnDataLoss": False})
orders.source("customers", stream=False, schema="id INT, name STRING", format="csv", path="customers",
    options={"header": True, "sep": ";"})
orders.sql("typed", """SELECT ';' AS semi, "it''s" AS its, /* ; */ * FROM orders -- to the end
  WHERE (id > 0)""")

@orders.transform("typed", "customers", options={"half": 1.5, "on": True, "name": "007"})
def scored(typed, customers, half, on, name):
    return typed

orders.expect("positive", "typed", "amount > (0)")
orders.expect("known", "typed", "id IS NOT NULL", otherwise="drop")
orders.dead_letters(format="parquet", path="dead")
orders.sink("out-1", "scored", format="parquet", path="out", mode="append", partition_by=["day", "hour"],
    trigger="once")
'''


def write(folder: Path, text: str, name: str = "orders_spec") -> Path:
    file = folder / f"{name}.py"
    file.write_text(text)
    return file


def problems(folder: Path, text: str, name: str = "orders_spec") -> list[str]:
    file = write(folder, text, name)
    with pytest.raises(ConfigError) as caught:
        load_spec(file)
    return [str(one).replace(f"{file}:", "") for one in caught.value.problems]


def test_python_says_what_yaml_says(tmp_path: Path) -> None:
    file = write(tmp_path, PYTHON)
    spec = load_spec(file, {"channel": "bills"})
    expected = YAML.replace("mine:score", "orders_spec:scored")
    yaml = read_spec(expected, tmp_path / "orders.yaml", {"channel": "bills"})
    assert without_places(spec) == without_places(yaml)
    assert spec.steps[0].position.line == 11
    assert find_function("orders_spec:scored", tmp_path)(1, 2, 3, 4, 5) == 1


def test_a_file_that_was_edited_or_is_of_another_folder_is_loaded_anew(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write(tmp_path, PYTHON)
    assert load_spec(tmp_path / "orders_spec.py").name == "orders"
    write(tmp_path, PYTHON.replace('"orders", trigger', '"changed", trigger'))
    assert load_spec(tmp_path / "orders_spec.py").name == "changed"
    write(tmp_path / "other", PYTHON.replace('"orders", trigger', '"others", trigger'))
    assert load_spec(tmp_path / "other" / "orders_spec.py").name == "others"
    assert load_spec(tmp_path / "orders_spec.py").name == "changed"


START = 'from headrace.pipelines import Pipeline\np = Pipeline("p")\n'
GOOD = START + 'p.source("a", format="rate")\np.sink("out", "a", format="console")\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", "1:1: makes no pipelines: a file holds one headrace.pipelines.Pipeline"),
        (START + 'q = Pipeline("q")\n', "1:1: makes 2 pipelines"),
        ("x = (\n", "1:5: module orders_spec: SyntaxError: '(' was never closed"),
        ("\n\n1 / 0\n", "3:1: module orders_spec: ZeroDivisionError: division by zero"),
        (START + "import no_such_module_at_all\n", "3:1: module orders_spec: ModuleNotFoundError"),
        (GOOD + 'p.sink("two", "b", format="console")', '5:1: sink "two" is from "b", which is not there'),
        (
            GOOD + 'p.sink("two", "a", fromat="console")',
            '5:1: unknown field "fromat" (did you mean "format"?)',
        ),
        (GOOD + 'p.sink("out", "a", format="console")', '5:1: "out" is there twice: first in line 4'),
        (GOOD + 'p.sink("two", "a", format=print)', "5:1: builtin_function_or_method is no value here"),
        (
            GOOD + 'class C:\n    @p.transform("a")\n    def f(a): ...\n',
            "6:1: C.f is inside something: it must be the file's own",
        ),
    ],
)
def test_what_is_wrong_is_told_at_its_line(tmp_path: Path, text: str, expected: str) -> None:
    found = problems(tmp_path, text)
    assert found[0].startswith(expected), found


def test_a_name_that_python_knows_already_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD, "json")[0].startswith("1:1: module json is another one that is loaded")
    assert problems(tmp_path, GOOD, "no-module")[0].startswith("1:1: no-module.py cannot be imported")
    with pytest.raises(FunctionError, match="json:loads: module json is another one"):
        find_function("json:loads", tmp_path)
    with pytest.raises(FileNotFoundError):
        load_spec(tmp_path / "none.py")
