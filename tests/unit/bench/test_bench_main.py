"""The command line: which result file a run writes."""

import pytest
from bench.__main__ import parse_arguments, result_name
from bench.cases import select_cases


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "epoll"),
        (["--transport", "asyncio"], "asyncio"),
        (["--suite", "durable"], "durable"),
        (["--suite", "durable", "--transport", "asyncio"], "local/durable"),
        (["--suite", "durable", "--count", "1000"], "local/durable"),
        (["--cases", "replay"], "local/durable"),
        (["--cases", "publish-16"], "local/epoll"),
        (["--suite", "jetstream"], "jetstream"),
        (["--suite", "cluster"], "cluster"),
        (["--cases", "js-memory"], "local/jetstream"),
        (["--quick"], "local/epoll"),
        (["--cases", "replay", "--name", "durable"], "durable"),
    ],
)
def test_result_name_only_a_complete_run_is_published(words, name):
    options = parse_arguments(["run", *words])
    assert result_name(options, select_cases(options.cases, options.suite)) == name
