"""The tables that ``gym-batchnav evaluate`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segments
from rich.table import Table

from gym_batchnav.system.wording import counted, measure_in_words

COLUMNS = {
    "spl": "SPL",
    "soft_spl": "SoftSPL",
    "success": "success",
    "collisions_count": "collisions",
    "num_steps": "steps",
}
_NAME_WIDTH = 9  # characters, at least
_MOST_SCENES = 10  # with a row each
_RARE = 0.05  # share of episodes that the policy ended by STOP, up to which a hint says so


def tables(found: Mapping[str, Any], policy: str) -> Iterator[Table]:
    """Yield the tables of an evaluation of a policy: what ``summary`` of ``gym_batchnav.evaluation.report`` found."""
    counts = f"{counted(found['episodes'], 'episode')} in {counted(len(found['scenes']), 'scene')}"
    yield _of_agents(found, f"{policy}: {counts}, 95% intervals")
    yield _of_statistics(found)
    yield _by_group(found, "distance", "geodesic distance from start to goal")
    if 1 < len(found["scenes"]) <= _MOST_SCENES:
        yield _by_group(found, "scene", "scene")
    if "by_category" in found:
        yield _by_group(found, "category", "category of the goal")


def print_tables(tables: Iterable[Table], console: Console) -> None:
    """Print tables without cutting off a figure: in their full width unless a terminal is narrower.

    In a narrow terminal names are broken into lines, and if that is not enough, the terminal breaks the rows.
    """
    for table in tables:
        needed = Measurement.get(console, console.options.update(max_width=10_000), table)
        width = max(needed.minimum, min(needed.maximum, console.width)) if console.is_terminal else needed.maximum
        rendered = console.render(table, console.options.update(width=width))
        console.print(Segments(rendered), crop=False, no_wrap=True, overflow="ignore", end="")


def stop_hint(found: Mapping[str, Any], sampled: bool) -> str | None:
    """Return what to do about a policy that hardly ever called STOP; None for any other."""
    share = 1 - found.get("timed_out", 0.0)
    if share > _RARE or found.get("success", 0.0) > _RARE:
        return None
    stops = "none" if share == 0 else f"only {share:.1%}"
    seen = f"The policy ended {stops} of its episodes by STOP, without which no episode succeeds."
    if "frames" not in found["policies"][0]:  # not the file of a training
        return seen
    advice = "train it longer" if sampled else "train it longer, or try --sample, which draws its actions"
    return f"{seen} It was probably trained too briefly: {advice}."


def _of_agents(found: Mapping[str, Any], title: str) -> Table:
    """Return the means of all agents: of the measures that a task has."""
    agents = found["agents"]
    names = {found["measure"]: measure_in_words(found["measure"]), **COLUMNS}
    names = {name: title for name, title in names.items() if any(name in figures for figures in agents.values())}
    table = _table(title, "agent", list(names.values()))
    for name, figures in agents.items():
        table.add_row(escape(name), *(_cell(figures, measure) for measure in names))
    return table


def _of_statistics(found: Mapping[str, Any]) -> Table:
    """Return interquartile means, probabilities of improvement and causes of failures."""
    from gym_batchnav.evaluation.failures import CAUSES  # loads the simulator

    measure = measure_in_words(found["measure"])
    failures = found.get("failures", {})
    title = f"IQM of {measure}; probability that the policy is better{'; failures by cause' if failures else ''}"
    causes_in_lines = [cause.replace(" ", "\n") for cause in CAUSES.values()]  # the table is narrow then
    table = _table(title, "agent", ["IQM", "better", *(causes_in_lines if failures else ())])
    for name, figures in found["iqm"].items():
        causes = [f"{failures[name][cause]:,}" for cause in CAUSES] if failures else []
        better = _cell(found["improvement"].get(name, {}), "improvement")
        table.add_row(escape(name), _cell(figures, "iqm"), better, *causes)
    if failures:
        table.caption = "The first cause that applies counts, from left to right."
    return table


def _by_group(found: Mapping[str, Any], group: str, meaning: str) -> Table:
    """Return the main measure of all agents in each group of episodes: by "distance", "scene" or "category"."""
    by_agent = found[f"by_{group}"]
    measure = found["measure"]
    table = _table(f"{measure_in_words(measure)} by {meaning}", group, ["episodes", *by_agent])
    for rows in zip(*by_agent.values(), strict=True):
        table.add_row(escape(rows[0][group]), f"{rows[0]['episodes']:,}", *(_cell(row, measure) for row in rows))
    return table


def _table(title: str, first: str, headings: list[str]) -> Table:
    table = Table(title=escape(title), box=SIMPLE, pad_edge=False, show_edge=False)
    table.add_column(first, style="bold", overflow="fold", min_width=_NAME_WIDTH)
    for heading in headings:
        table.add_column(escape(heading), justify="right", no_wrap=True)
    return table


def _cell(figures: Mapping[str, Any], name: str) -> str:
    """Format a value above its interval; values of at most 1 have more digits."""
    if name not in figures:
        return "-"
    low, high = figures[f"{name}_interval"]
    digits, edges = (3, 2) if high <= 1 else (1, 1)
    return f"{figures[name]:.{digits}f}\n[dim]{low:.{edges}f}-{high:.{edges}f}[/dim]"
