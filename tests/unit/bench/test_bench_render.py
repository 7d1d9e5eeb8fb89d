"""The page: markers, tables and verdicts."""

import pytest
from bench.cases import CASES
from bench.errors import BenchError
from bench.render import PAGE, RESULTS, render_page, replace_section, table, target_lines
from bench.results import Origin, Run, SideInfo


def make_run(server_cpu):
    def reports(cpu):
        return [
            {"published": 1000, "seconds": 1.0, "server_cpu_ns": cpu, "load_cpu_ns": 1, "machine_cpu_ns": cpu}
        ]

    machine = {"cpu": "x", "cores": 2, "memory_gib": 4, "system": "Linux", "kernel": "6", "tcp": "cubic"}
    origin = Origin("2026-01-01 00:00 UTC", None, False, "3.11", machine, "python -m bench run")
    info = SideInfo("nats-server -p {port}", "nats-server 2")
    cases = {"publish-128": {"server": reports(server_cpu), "peer": reports(100_000)}}
    return Run(origin, "epoll", True, 1, 0.5, {"server": info, "peer": info}, cases)


def test_replace_section_keeps_everything_outside_the_markers():
    page = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n"
    assert replace_section(page, "x", "new\n") == "a\n<!-- bench:x -->\nnew\n<!-- /bench:x -->\nb\n"


def test_replace_section_twice_gives_the_same_page():
    page = replace_section("<!-- bench:x -->\n<!-- /bench:x -->\n", "x", r"\1 new")
    assert replace_section(page, "x", r"\1 new") == page


@pytest.mark.parametrize("page", ["", "<!-- bench:x -->\n", "<!-- bench:x -->\n<!-- /bench:x -->\n" * 2])
def test_replace_section_without_one_pair_of_markers_raises(page):
    with pytest.raises(BenchError, match="bench:x"):
        replace_section(page, "x", "new")


def test_table_says_which_bound_was_missed():
    row = table(make_run(server_cpu=50_000)).splitlines()[2]
    assert "**missed**: rate ≥ 2× ✗, CPU ≤ 0.4× ✗" in row
    assert "rate 1.00×, CPU 0.50×" in row


def test_table_cost_within_its_bound_is_not_marked():
    assert "CPU ≤ 0.4× |" in table(make_run(server_cpu=20_000))


def test_target_lines_name_what_cannot_be_measured_yet():
    text = target_lines(make_run(server_cpu=50_000))
    assert "no: publish-128" in text
    assert "not yet measured" in text


def test_page_of_the_project_renders_without_any_result(tmp_path):
    page = render_page(PAGE.read_text(encoding="utf-8"), tmp_path, chart=False)
    assert page.count("Not measured yet.") == 4
    assert all(f"--cases {case.name}`" in page for case in CASES)


def test_page_of_the_project_is_what_its_results_render(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    assert render_page(page, RESULTS, chart="](performance.png)" in page) == page
