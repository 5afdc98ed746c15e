"""The scores file: the mean of every run in every scene, as rliable and others read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = "gym-batchnav scores 1"
MAX_BYTES = 2**26


def scores_json(scores: Mapping[str, Mapping[str, np.ndarray]], scenes: Sequence[str], episodes: Sequence[int]) -> str:
    """Return the content of a scores file.

    Args:
        scores: By measure and agent, [R, S] float64: the mean of each run in each scene.
        scenes: [S], names of the scenes.
        episodes: [S], the number of episodes in each scene.
    """
    tables = {measure: {agent: table.tolist() for agent, table in one.items()} for measure, one in scores.items()}
    content = {"format": FORMAT, "scenes": list(scenes), "episodes": list(episodes), "scores": tables}
    return json.dumps(content, indent=1) + "\n"


def read_scores(path: Path | str, measure: str = "spl") -> dict[str, np.ndarray]:
    """Return the scores of every agent, [runs, scenes] float64: the dictionary that functions of rliable take.

    Raises:
        ValueError: The file is not a scores file, is damaged, or has no such measure.
        FileNotFoundError: It does not exist.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': evaluate --out writes scores.json")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"'{path}' has more than {MAX_BYTES >> 20} MiB: pass a scores.json that evaluate wrote")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged ({error}): run the evaluation again") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"'{path}' is not {FORMAT!r}: pass a scores.json that evaluate wrote")
    tables = content.get("scores")
    if not isinstance(tables, dict) or not isinstance(tables.get(measure), dict):
        known = ", ".join(map(str, tables)) if isinstance(tables, dict) else "none"
        raise ValueError(f"measure={measure!r}: '{path}' has {known[:200]}")
    return {agent: _table(table, agent, path) for agent, table in tables[measure].items()}


def _table(table: Any, agent: str, path: Path) -> np.ndarray:
    """Return scores as an array [R, S].

    Raises:
        ValueError: They are not rows of numbers of one length.
    """
    try:
        found = np.array(table, float)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"'{path}': scores of {agent[:80]!r} are not rows of numbers ({error})") from error
    if found.ndim != 2:
        raise ValueError(f"'{path}': scores of {agent[:80]!r} are not rows of numbers")
    return found
