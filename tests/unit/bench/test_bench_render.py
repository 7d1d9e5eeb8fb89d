"""The page: markers, tables and verdicts."""

import pytest
from bench.cases import CASES
from bench.errors import BenchError
from bench.render import CHARTS, PAGE, RESULTS, origin_text, render_page, replace_section, table, target_lines
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
    text = target_lines(make_run(server_cpu=50_000), whole=True)
    assert "no: publish-128; not yet measured: publish-16" in text
    assert "| not yet measured: replay |" in text


def test_target_lines_of_a_partial_run_leave_out_what_it_did_not_measure():
    assert len(target_lines(make_run(server_cpu=50_000)).splitlines()) == 3
    assert "replay" not in target_lines(make_run(server_cpu=50_000))


def test_table_of_two_peers_has_a_column_and_a_ratio_for_each():
    run = make_run(server_cpu=50_000)
    run.cases = {"durable-16": {"streaming": [], "jetstream": [], "jetstream-always": []}}
    for rate, side in ((600, "streaming"), (200, "jetstream"), (300, "jetstream-always")):
        numbers = {
            "published": rate,
            "seconds": 1.0,
            "server_cpu_ns": rate,
            "load_cpu_ns": 1,
            "fsync_us": 9.0,
        }
        run.cases["durable-16"][side].append({**numbers, "machine_cpu_ns": 1})
    assert "fsync of 4 KiB before each measurement, median 9 µs (9 to 9)" in origin_text(run)
    head, line, row = table(run).splitlines()
    assert head.split(" | ")[2:5] == ["Headrace", "JetStream", "JetStream, sync always"]
    assert head.count("|") == line.count("|") == row.count("|")
    assert "rate 3.00×, CPU 1.00× | rate 2.00×, CPU 1.00×" in row
    assert "rate ≥ 2×, CPU ≤ 0.5× ✗, rate ≥ 5× JetStream, sync always ✗" in row


def test_page_of_the_project_renders_without_any_result(tmp_path):
    page = render_page(PAGE.read_text(encoding="utf-8"), tmp_path, frozenset())
    for name in (
        "start",
        "stop",
        "config",
        "console",
        "console-hour",
    ):  # as Spark's they are filled by benches of their own
        page = replace_section(page, name, "")
    assert page.count("Not measured yet.") == 9
    assert page.count("| not yet measured: ") == len({case.line for case in CASES if case.line})
    assert all(f"--cases {case.name}`" in page for case in CASES)


def test_page_of_the_project_is_what_its_results_render(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    charts = frozenset(name for name, path in CHARTS.items() if f"]({path.name})" in page)
    assert render_page(page, RESULTS, charts) == page
