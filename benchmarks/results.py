"""Make RESULTS.md from results.jsonl, and add the figures that a benchmark prints with --json.

python benchmarks/results.py        # writes RESULTS.md
python benchmarks/worlds.py --json | python benchmarks/results.py "Speed of whole steps" "python benchmarks/worlds.py" A

The second form takes the area, the command and the machine. It replaces rows of the same three and the same what, and
notes the date and the commit. A line of results.jsonl is a text or a table's row; "" parts two tables.
"""

import datetime
import json
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
COLUMNS = ["what", "command", "figure", "machine, date"]  # of the tables that the second form adds to
Lines = list[Any]  # texts, and rows of strings


def markdown(lines: Lines) -> str:
    """Return the page."""
    blocks = []
    for kind, group in groupby(lines, type):
        if kind is list:
            head, *rows = ["|".join(["", *(f" {cell} " if cell else " " for cell in row), ""]) for row in group]
            blocks.append("\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows]))
        else:
            blocks += filter(None, group)
    return "\n\n".join(blocks) + "\n"


def figures(found: Any) -> dict[str, str]:
    """Return the figures by name in a benchmark's JSON: numbers by name, or rows that have a "what" and numbers."""
    named = {row["what"]: row for row in found["rows"]} if "rows" in found else {k: {"": v} for k, v in found.items()}
    texts = {}
    for what, row in named.items():
        numbers = [f"{name} {value:,.4g}".strip() for name, value in row.items() if type(value) in (int, float)]
        texts |= {what: "; ".join(numbers)} if numbers else {}
    return texts


def add(lines: Lines, area: str, command: str, machine: str, found: dict[str, str], when: str) -> None:
    """Put figures into the first table of an area that has COLUMNS; ValueError if there is none."""
    begin = lines.index(COLUMNS, lines.index(f"## {area}")) + 1
    end = next(row for row in range(begin, len(lines)) if isinstance(lines[row], str))
    new = [[what, f"`{command}`", text, f"{machine}, {when}"] for what, text in found.items()]
    replaced = [(row[0], row[1], machine) for row in new]
    lines[begin:end] = [row for row in lines[begin:end] if (row[0], row[1], row[3].split(",")[0]) not in replaced] + new


if __name__ == "__main__":
    lines = [json.loads(line) for line in (FOLDER / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    if sys.argv[1:]:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
        add(
            lines,
            *sys.argv[1:4],
            figures(json.loads(sys.stdin.read().splitlines()[-1])),
            f"{datetime.date.today()}, {commit.stdout.strip()}",
        )
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (FOLDER / "results.jsonl").write_text(text, encoding="utf-8")
    (FOLDER / "RESULTS.md").write_text(markdown(lines), encoding="utf-8")
