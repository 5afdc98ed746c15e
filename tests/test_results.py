"""The page of results is made from its file, figures of benchmarks find their place in it, and a benchmark runs."""

import json
import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"
RESULTS = runpy.run_path(str(FOLDER / "results.py"))
LINES = [json.loads(line) for line in (FOLDER / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_page_is_current_and_short():
    page = RESULTS["markdown"](LINES)
    assert page == (FOLDER / "RESULTS.md").read_text(encoding="utf-8"), "run python benchmarks/results.py"
    assert len(page.splitlines()) <= 250


def test_new_figures_replace_those_of_the_same_command_and_machine():
    table = [RESULTS["COLUMNS"], ["depth", "`run`", "1", "A, 21"], ["depth", "`run`", "3", "B, 21"]]
    lines = ["## Speed", "Text.", *table, "End."]
    found = RESULTS["figures"]({"depth": 2000.0, "rgb": 1, "name": "x"})
    RESULTS["add"](lines, "Speed", "run", "A", found, "22")
    assert lines[3:-1] == [
        ["depth", "`run`", "3", "B, 21"],
        ["depth", "`run`", "2,000", "A, 22"],
        ["rgb", "`run`", "1", "A, 22"],
    ]


def test_rows_of_a_benchmark_have_their_numbers():
    rows = {"rows": [{"what": "noise", "ratio": 0.9, "bar": 0.8, "met": True, "note": "text"}]}
    assert RESULTS["figures"](rows) == {"noise": "ratio 0.9; bar 0.8"}


def test_the_benchmark_of_navigation_runs():
    benchmark = runpy.run_path(str(FOLDER / "navigation.py"))
    assert benchmark["bench_navigation"](benchmark["furnished_plan"](1), 8, seconds=1e-9)["agent_steps_per_second"] > 0
