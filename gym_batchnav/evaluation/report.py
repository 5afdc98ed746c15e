"""The report of a comparison: statistics as JSON values, and the files that hold them.

``gym_batchnav.viz.report`` draws the pictures.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.comparison import POLICY, Comparison
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.evaluation.failures import CAUSES, COLLISION_SHARE, LOOP_STEPS, count_causes, failure_causes
from gym_batchnav.evaluation.intervals import CONFIDENCE, NUM_RESAMPLES, Estimate
from gym_batchnav.evaluation.shards import checksums_of
from gym_batchnav.evaluation.statistics import (
    DISTANCE_LIMITS,
    Group,
    by_category,
    by_distance,
    by_scene,
    improvement_estimate,
    iqm_estimate,
    profile_estimate,
    run_scores,
)
from gym_batchnav.system.nested import finite
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.task.measures import main_measures

NUM_THRESHOLDS = 51  # of profiles
SCORES_FORMAT = "gym-batchnav scores 1"
MAX_SCORES_BYTES = 2**26


def summary(comparison: Comparison) -> dict[str, Any]:
    """Return the figures of the policy, and those of all agents, as JSON values."""
    agents = {name: figures(found) for name, found in comparison.estimates().items()}
    library = comparison.env.library
    return {
        **agents[POLICY],
        "policies": _policies(comparison),
        "scenes": [library.name(slot) for slot in library.active.tolist()],
        "episodes": len(comparison.results[comparison.policies[0]]),
        "seed": comparison.asked.seed,
        "agents": agents,
        **statistics(comparison),
    }


def statistics(comparison: Comparison) -> dict[str, Any]:
    """Return statistics over runs and scenes, tables by scene and distance, and causes of failures, as JSON values."""
    seed = comparison.asked.seed
    measures = _measures_of(comparison)
    measure = measures[0]
    names = dict(enumerate(comparison.env.library.names))
    scores = {agent: run_scores(comparison.results_of(agent), measure) for agent in comparison.runs}
    policy = scores[POLICY]
    thresholds = np.linspace(0, max(1.0, *(float(one.cells.max()) for one in scores.values())), NUM_THRESHOLDS)
    found: dict[str, Any] = {"measure": measure, "iqm": {}, "improvement": {}, "by_scene": {}, "by_distance": {}}
    profiles: dict[str, Any] = {"thresholds": thresholds.tolist()}
    for agent, one in scores.items():
        runs = comparison.results_of(agent)
        found["iqm"][agent] = {
            **figures({"iqm": iqm_estimate(one, seed)}),
            "iqm_interval_in_these_scenes": _edges(iqm_estimate(one, seed, fixed_scenes=True)),
        }
        if agent != POLICY:
            found["improvement"][agent] = figures({"improvement": improvement_estimate(policy, one, seed)})
        shares = profile_estimate(one, thresholds, seed)
        profiles[agent] = {"share": [each.mean for each in shares], "interval": [_edges(each) for each in shares]}
        found["by_scene"][agent] = [_row("scene", group) for group in by_scene(runs, measures, names, seed)]
        found["by_distance"][agent] = [_row("distance", group) for group in by_distance(runs, measures, seed)]
    if categories := goal_categories(comparison.env, comparison.results_of(POLICY)[0]):
        found["by_category"] = {
            agent: [
                _row("category", group)
                for group in by_category(comparison.results_of(agent), measures, categories, seed)
            ]
            for agent in comparison.runs
        }
    if "success" in measures:
        found["failures"] = {
            agent: count_causes(np.concatenate([failure_causes(run) for run in comparison.results_of(agent)]))
            for agent in comparison.runs
        }
    return {**found, "profiles": profiles}


def _measures_of(comparison: Comparison) -> tuple[str, ...]:
    return main_measures(comparison.results[comparison.policies[0]].measures)


def protocol(comparison: Comparison) -> dict[str, Any]:
    """Return the protocol card with the agents and the rules of the evaluation, as JSON values."""
    asked = comparison.asked
    are_files = all(comparison.chosen[name].file is not None for name in comparison.policies)
    return {
        **comparison.protocol(),
        "evaluation": {
            "policies": _policies(comparison),
            "agents": checksums_of(comparison),
            "runs": len(comparison.policies),
            "episodes_per_scene": comparison.episodes_per_scene,
            "seed": asked.seed,
            "actions": "those of the agent" if not are_files else "sampled" if asked.sample else "most likely",
            "confidence": CONFIDENCE,
            "resamples": NUM_RESAMPLES,
            "resampled": "scenes, episodes in each scene, runs",
            "distance_limits": list(DISTANCE_LIMITS),
            "failures": {
                "order": list(CAUSES),
                "collision": f"obstacles stopped the agent in at least {COLLISION_SHARE:g} of its steps",
                "loop": f"at least {LOOP_STEPS} steps for each cell of 1 m that the agent visited",
            },
        },
    }


def write_report(comparison: Comparison, out: Path, found: Mapping[str, Any]) -> dict[Path, str]:
    """Write what ``summary`` found, episodes and scores into a folder; return a description of each file."""
    contents = {
        "results.json": (_json(finite(found)), "the figures, also by scene, category and distance"),
        "protocol.json": (
            _json(protocol(comparison)),
            "settings, checksums of scenes and episodes, versions, seeds and rules",
        ),
        "episodes.csv": (episode_table(comparison.env, comparison.results), "every episode of every agent"),
        "scores.json": (_scores(comparison), "means by run and scene, for rliable and others"),
    }
    for name, (text, _) in contents.items():
        write_atomically(out / name, text.encode())
    return {out / name: description for name, (_, description) in contents.items()}


def figures(found: Mapping[str, Estimate]) -> dict[str, float | list[float]]:
    """Convert estimates to JSON values: means by the names of measures, intervals by ``<name>_interval``."""
    result: dict[str, float | list[float]] = {}
    for name, estimate in found.items():
        result[name] = estimate.mean
        result[f"{name}_interval"] = [estimate.low, estimate.high]
    return result


def goal_categories(env: BatchNavEnv, episodes: EvaluatedEpisodes) -> list[str]:
    """Return the category of the goal of every episode; an empty list for a task without categories."""
    sets = [env.simulator.episode_set(slot) for slot in env.library.active.tolist()]
    if not any(one.categories for one in sets):
        return []
    slots, rows = env.simulator.schedule.locate(episodes.episode_index)
    found = zip(map(env.simulator.episode_set, slots.tolist()), rows.tolist(), strict=True)
    return [one.categories[one.category[row]] for one, row in found]


def episode_table(env: BatchNavEnv, results: Mapping[str, EvaluatedEpisodes]) -> str:
    """Format all episodes of all agents as CSV, with the names of agents, scenes, episodes and categories of goals."""
    text = io.StringIO()
    simulator = env.simulator
    categories = {agent: goal_categories(env, episodes) for agent, episodes in results.items()}
    measures = list(dict.fromkeys(name for episodes in results.values() for name in episodes.measures))
    columns = ["episode_index", *measures, "num_steps", "start_distance"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["agent", "scene", "episode", *(["category"] if any(categories.values()) else []), *columns])
    for agent, episodes in results.items():
        slots, rows = simulator.schedule.locate(episodes.episode_index)
        values = [getattr(episodes, name).tolist() for name in columns]
        for number, (slot, row, *numbers) in enumerate(zip(slots.tolist(), rows.tolist(), *values, strict=True)):
            names = [agent, env.library.name(slot), simulator.episode_set(slot).ids[row]]
            names += categories[agent][number : number + 1]
            writer.writerow([*names, *(int(one) if isinstance(one, int) else f"{one:.6g}" for one in numbers)])
    return text.getvalue()


def scores_json(scores: Mapping[str, Mapping[str, np.ndarray]], scenes: Sequence[str], episodes: Sequence[int]) -> str:
    """Return the content of a scores file: by measure and agent the mean of each run in each scene, [R, S] float64."""
    tables = {measure: {agent: table.tolist() for agent, table in one.items()} for measure, one in scores.items()}
    content = {"format": SCORES_FORMAT, "scenes": list(scenes), "episodes": list(episodes), "scores": tables}
    return _json(content)


def read_scores(path: Path | str, measure: str = "spl") -> dict[str, np.ndarray]:
    """Return the scores of every agent, [runs, scenes] float64: the dictionary that functions of rliable take.

    Raises:
        ValueError: The file is not a scores file, is damaged, or lacks the measure.
        FileNotFoundError: It does not exist.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': pass a scores.json that evaluate --out wrote")
    if path.stat().st_size > MAX_SCORES_BYTES:
        raise ValueError(f"'{path}' has more than {MAX_SCORES_BYTES >> 20} MiB: pass a scores.json that evaluate wrote")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged ({error}): run the evaluation again") from error
    if not isinstance(content, dict) or content.get("format") != SCORES_FORMAT:
        raise ValueError(f"the format of '{path}' is not {SCORES_FORMAT!r}: pass a scores.json that evaluate wrote")
    tables = content.get("scores")
    if not isinstance(tables, dict) or not isinstance(tables.get(measure), dict):
        known = ", ".join(map(str, tables)) if isinstance(tables, dict) else "none"
        raise ValueError(f"measure={measure!r} is not in '{path}'; available: {known[:200]}")
    return {agent: _table(table, agent, path) for agent, table in tables[measure].items()}


def _table(table: Any, agent: str, path: Path) -> np.ndarray:
    """Return scores as an array [R, S]; raise ValueError unless they are rows of numbers of one length."""
    try:
        found = np.array(table, float)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"'{path}' is damaged: scores of {agent[:80]!r} are not rows of numbers ({error})") from error
    if found.ndim != 2:
        raise ValueError(f"'{path}' is damaged: scores of {agent[:80]!r} are not rows of numbers")
    return found


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def _policies(comparison: Comparison) -> list[dict[str, Any]]:
    """Return what is known about every run of the policy, as JSON values."""
    described = []
    for name, asked in zip(comparison.policies, comparison.asked.policies, strict=True):
        about = comparison.chosen[name].about
        facts = {} if about is None else {one: getattr(about, one) for one in ("kind", "preset", "frames", "seed")}
        described.append({"policy": asked, **facts})
    return described


def _row(kind: str, group: Group) -> dict[str, Any]:
    return {kind: group.name, "episodes": group.num_episodes, **figures(group.estimates)}


def _edges(estimate: Estimate) -> list[float]:
    return [estimate.low, estimate.high]


def _scores(comparison: Comparison) -> str:
    runs = comparison.results_of(POLICY)
    scores = {
        measure: {agent: run_scores(comparison.results_of(agent), measure).cells for agent in comparison.runs}
        for measure in _measures_of(comparison)
    }
    rows, counts = np.unique(runs[0].scene_index, return_counts=True)
    return scores_json(scores, [comparison.env.library.names[row] for row in rows.tolist()], counts.tolist())
