"""Policies in places that they were not trained in: generated homes, the shipped apartments and third-party scenes.

python benchmarks/places.py POLICY [POLICY ...] [--agents blind,mapper] [--json FILE]

Several policies are runs of one method with different seeds. Third-party scenes come from GYM_BATCHNAV_TEST_DATA, by
default ../shared, and left out, with a message, where it is absent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_batchnav.cli.flags import train_extra
from gym_batchnav.evaluation.comparison import SMALL_HOMES

DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", Path(__file__).parents[2] / "shared"))
BUILDINGS = (
    "aws_small_house/aws_small_house.glb",
    "aws_bookstore/aws_bookstore.glb",
    "godot/living_room.glb",
    "godot/room.glb",
    "drake_livingroom/drake_furnished_living_room.glb",
)
ABOVE_BLIND = 0.10  # SPL, in each third-party scene


@dataclass(frozen=True)
class Place:
    """Scenes that are evaluated together, and what a policy should reach there."""

    name: str
    scenes: tuple[str, ...]
    episodes_per_scene: int
    spl: float
    success: float


def places() -> list[Place]:
    """Return the groups of scenes; each third-party scene is a separate group, whose only bar is above blind."""
    found = [
        Place("small homes (held out by the preset cpu)", SMALL_HOMES, 25, 0.92, 0.97),
        Place("homes of the default size", ("procedural:100000-100019",), 25, 0.90, 0.97),
        Place("the shipped apartments", ("apartments",), 50, 0.90, 0.97),
    ]
    if not DATA.is_dir():
        print(f"no folder '{DATA}': third-party scenes are left out; set GYM_BATCHNAV_TEST_DATA")
        return found
    buildings = tuple(str(DATA / "scenes" / name) for name in BUILDINGS)
    return [*found, Place("third-party scenes", buildings, 100, 0.935, 0.97)]


def evaluated(place: Place, policies: tuple[str, ...], agents: tuple[str, ...]) -> dict[str, Any]:
    """Return means and 95% intervals by agent, and SPL by scene."""
    with train_extra():
        from gym_batchnav.evaluation.comparison import Asked, make_comparison
        from gym_batchnav.evaluation.intervals import estimates
        from gym_batchnav.library.sources import scene_sources
        from gym_batchnav.train.policy_agent import load_agent

    scenes = scene_sources(list(place.scenes))
    asked = Asked(
        policies=policies, agents=agents, scenes=place.scenes,
        episodes=place.episodes_per_scene * len(scenes),
    )  # fmt: skip
    comparison = make_comparison(asked, load_agent, print)
    try:
        comparison.run()
        figures: dict[str, Any] = {}
        for agent in comparison.runs:
            runs = comparison.results_of(agent)
            found = estimates(runs)
            by_scene = {
                scene.name: {
                    name: sum(float(getattr(run, name)[run.scene_index == index].mean()) for run in runs) / len(runs)
                    for name in ("spl", "success")
                }
                for index, scene in enumerate(scenes)
            }
            figures[agent] = {
                **{name: [found[name].mean, found[name].low, found[name].high] for name in ("spl", "success")},
                "scenes": by_scene,
            }
        return figures
    finally:
        comparison.close()


def main() -> None:
    """Print a table, and exit with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="+", help="policy files, or an agent such as mapper")
    parser.add_argument("--agents", default="blind", help="agents to compare with, separated by commas; '' for none")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    given = parser.parse_args()
    agents = tuple(filter(None, given.agents.split(",")))
    missed = []
    found = {}
    print("| where | agent | SPL (95%) | success (95%) |\n|---|---|---|---|")
    for place in places():
        figures = found[place.name] = evaluated(place, tuple(given.policies), agents)
        for agent, one in figures.items():
            cells = [f"{one[name][0]:.3f} ({one[name][1]:.2f} to {one[name][2]:.2f})" for name in ("spl", "success")]
            print(f"| {place.name} | {agent} | {' | '.join(cells)} |", flush=True)
        policy = figures["policy"]
        for name in ("spl", "success"):
            bar = getattr(place, name)
            if policy[name][0] < bar:
                missed.append(f"{place.name}: {name} {policy[name][0]:.3f}, bar {bar}")
        if place.name == "third-party scenes":
            for scene, one in policy["scenes"].items():
                blind = figures.get("blind", {}).get("scenes", {}).get(scene, {}).get("spl")
                score = "" if blind is None else f"{blind:.3f}"
                print(f"| {scene} | policy; blind: {score} | {one['spl']:.3f} | {one['success']:.3f} |", flush=True)
                if blind is not None and one["spl"] < blind + ABOVE_BLIND:
                    missed.append(f"{scene}: SPL {one['spl']:.3f}, blind {blind:.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(["", "missed:", *missed] if missed else ["", "all bars are met"]))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
