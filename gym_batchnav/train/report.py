"""The report of a comparison: statistics as JSON values, and the files of a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav import viz
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.failures import CAUSES, COLLISION_SHARE, LOOP_STEPS, count_causes, failure_causes
from gym_batchnav.evaluation.intervals import CONFIDENCE, NUM_RESAMPLES, Estimate
from gym_batchnav.evaluation.scores import scores_json
from gym_batchnav.evaluation.statistics import (
    DISTANCE_LIMITS,
    Group,
    by_distance,
    by_scene,
    improvement_estimate,
    iqm_estimate,
    profile_estimate,
    run_scores,
)
from gym_batchnav.evaluation.tables import episode_table, figures, longest_episodes, spread_episodes
from gym_batchnav.system.nested import finite
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.task.measures import main_measures
from gym_batchnav.train.chosen_agents import POLICY
from gym_batchnav.train.comparison import Comparison
from gym_batchnav.train.comparison_shards import checksums_of
from gym_batchnav.viz.profiles import check_figures, profiles_png

SHOWN_SCENES = 6  # on the maps
SHOWN_EPISODES = 4  # per scene; those of the first scene are filmed
SHOWN_FAILURES = 3  # of each cause, on the contact sheet
NUM_THRESHOLDS = 51  # of profiles
MIN_SCORES = 3  # runs times scenes, from which profiles are drawn


def summary(comparison: Comparison, seed: int = 0) -> dict[str, Any]:
    """Return the figures of the policy, and those of all agents, as JSON values."""
    agents = {name: figures(found) for name, found in comparison.estimates(seed).items()}
    library = comparison.env.library
    return {
        **agents[POLICY],
        "policies": _policies(comparison),
        "scenes": [library.name(slot) for slot in library.active.tolist()],
        "episodes": len(comparison.results[comparison.policies[0]]),
        "seed": seed,
        "agents": agents,
        **statistics(comparison, seed),
    }


def statistics(comparison: Comparison, seed: int = 0) -> dict[str, Any]:
    """Return statistics over runs and scenes, tables by scene and distance, and causes of failures, as JSON values."""
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
        found["by_distance"][agent] = [_row("distance", group) for group in by_distance(runs, measures, seed=seed)]
    if "success" in measures:
        found["failures"] = {
            agent: count_causes(np.concatenate([failure_causes(run) for run in comparison.results_of(agent)]))
            for agent in comparison.runs
        }
    return {**found, "profiles": profiles}


def _measures_of(comparison: Comparison) -> tuple[str, ...]:
    """Return the names of the measures that the tables show."""
    return main_measures(comparison.results[comparison.policies[0]].measures)


def protocol(comparison: Comparison) -> dict[str, Any]:
    """Return the protocol card with the agents and the rules of the evaluation, as JSON values."""
    asked = comparison.asked
    return {
        **comparison.protocol(),
        "evaluation": {
            "policies": _policies(comparison),
            "agents": checksums_of(comparison),
            "runs": len(comparison.policies),
            "episodes_per_scene": comparison.episodes_per_scene,
            "seed": asked.seed,
            "actions": "sampled" if asked.sample else "most likely",
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


def check_report() -> None:
    """Raise an error unless ``write_report`` can draw; call it before an evaluation.

    Raises:
        MissingExtraError: The extra ``[viz]`` is not installed.
    """
    check_figures()


def write_report(comparison: Comparison, out: Path, found: Mapping[str, Any]) -> dict[Path, str]:
    """Write figures, episodes, scores, maps, a clip and failures into a folder; return a description of each file.

    Args:
        comparison: The comparison, with results.
        out: The folder, which must exist.
        found: What ``summary`` returned.
    """
    write_atomically(out / "results.json", (json.dumps(finite(found), indent=1) + "\n").encode())
    write_atomically(out / "protocol.json", (json.dumps(protocol(comparison), indent=1) + "\n").encode())
    write_atomically(out / "episodes.csv", episode_table(comparison.env, comparison.results).encode())
    write_atomically(out / "scores.json", _scores(comparison).encode())
    files = {
        "results.json": "the figures, also by scene and by distance",
        "protocol.json": "settings, checksums of scenes and episodes, versions, seeds and rules",
        "episodes.csv": "every episode of every agent",
        "scores.json": "means by run and scene, for rliable and others",
        "trajectories.png": "trajectories from above, the shortest paths in grey",
        "clip.gif": "the longest episodes of the first scene",
    }
    _draw_longest(comparison, out)
    for name in ("profiles.png", "failures.png"):
        (out / name).unlink(missing_ok=True)  # of an evaluation before this one
    if len(comparison.policies) * len(found["scenes"]) >= MIN_SCORES:
        write_atomically(out / "profiles.png", profiles_png(found["profiles"], found["measure"]))
        files["profiles.png"] = "performance profiles: the share of scores above each threshold"
    if "failures" in found and _draw_failures(comparison, out):
        files["failures.png"] = "failures by cause: map, first, middle and last views"
    return {out / name: description for name, description in files.items()}


def _policies(comparison: Comparison) -> list[dict[str, Any]]:
    """Return what is known about every run of the policy, as JSON values."""
    described = []
    for name, asked in zip(comparison.policies, comparison.asked.policies, strict=True):
        about = comparison.chosen[name].about
        facts = {} if about is None else {one: getattr(about, one) for one in ("kind", "preset", "frames", "seed")}
        described.append({"policy": asked, **facts})
    return described


def _row(kind: str, group: Group) -> dict[str, Any]:
    """Return a group as JSON values."""
    return {kind: group.name, "episodes": group.num_episodes, **figures(group.estimates)}


def _edges(estimate: Estimate) -> list[float]:
    """Return both ends of an interval."""
    return [estimate.low, estimate.high]


def _scores(comparison: Comparison) -> str:
    """Return the content of the scores file."""
    runs = comparison.results_of(POLICY)
    scores = {
        measure: {agent: run_scores(comparison.results_of(agent), measure).cells for agent in comparison.runs}
        for measure in _measures_of(comparison)
    }
    rows, counts = np.unique(runs[0].scene_index, return_counts=True)
    return scores_json(scores, [comparison.env.library.names[row] for row in rows.tolist()], counts.tolist())


def _draw_longest(comparison: Comparison, out: Path) -> None:
    """Draw the maps and the clip of the longest episodes."""
    shown = longest_episodes(comparison.results[comparison.policies[0]], SHOWN_SCENES, SHOWN_EPISODES)
    env = _batch_of(comparison, len(shown))
    try:
        recording = viz.record_episodes(
            env,
            comparison.agents[comparison.policies[0]],
            indices=np.arange(len(shown)),
            num_filmed=min(SHOWN_EPISODES, comparison.episodes_per_scene),
            seed=comparison.asked.seed,
            episodes=shown,
        )
        viz.save_picture(viz.trajectory_maps(env, recording), out / "trajectories.png")
        viz.save_clip(viz.episode_clip(env, recording), out / "clip.gif", fps=8)
    finally:
        env.close()


def _draw_failures(comparison: Comparison, out: Path) -> bool:
    """Draw failures of the policy's first run as a contact sheet; return whether there is any."""
    episodes = comparison.results[comparison.policies[0]]
    causes = failure_causes(episodes)
    rows = np.concatenate([spread_episodes(np.nonzero(causes == cause)[0], SHOWN_FAILURES) for cause in CAUSES])
    if not len(rows):
        return False
    env = _batch_of(comparison, len(rows))
    try:
        recording = viz.record_episodes(
            env,
            comparison.agents[comparison.policies[0]],
            indices=np.arange(len(rows)),
            seed=comparison.asked.seed,
            episodes=episodes.episode_index[rows],
        )
        told = [CAUSES[cause] for cause in causes[rows].tolist()]
        viz.save_picture(viz.failure_sheet(env, recording, told), out / "failures.png")
    finally:
        env.close()
    return True


def _batch_of(comparison: Comparison, count: int) -> BatchNavEnv:
    """Return a batch of ``count`` environments with the scenes of the comparison."""
    return BatchNavEnv(
        count, **comparison.keywords, library=comparison.env.library, renderer=comparison.env.renderer.name
    )
