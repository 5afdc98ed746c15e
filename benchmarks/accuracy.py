"""Accuracy of navmeshes against independent references: moves, distances, the builder, the follower; a line per scene.

python benchmarks/accuracy.py [--data ../shared]
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.navmesh import NavMesh, NavMeshSettings
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.state import AgentState, StepOutcome

FLAT = np.array([1, 0, 1], np.float32)


def move_figures(mesh: NavMesh, moves: dict[str, Any]) -> str:
    """Return the horizontal distances of moves from Detour's; moves to another island must stay at the start."""
    ends, _ = mesh.move(np.array(moves["start"]), np.array(moves["end"]))
    stays = np.array(moves["end_other_island"], bool)[:, None]
    error = np.hypot(*(ends - np.where(stays, moves["start"], moves["result"]))[:, [0, 2]].T)
    return f"{(error <= 1e-4).mean():.2%} of {len(error)} moves within 1e-4 m, worst {error.max():.1e} m"


def distance_figures(mesh: NavMesh, pairs: dict[str, Any], storeys: int) -> str:
    """Return the errors of distances, horizontal and, where storeys overlap, in space."""
    start = np.array(pairs["start"])
    goal = np.array(pairs["end"])
    detour = np.array(pairs["detour"])
    in_space = mesh.geodesic_distance(start, goal)
    longer = (in_space - 1.001 * detour).max()
    if storeys > 1:
        error = np.abs(in_space - np.array(pairs["exact"]))
        truth = "exact"
    else:
        data = mesh.data
        flat = NavMesh(
            dataclasses.replace(data, vertices=data.vertices * FLAT, detail_vertices=data.detail_vertices * FLAT)
        )
        error = np.abs(flat.geodesic_distance(start * FLAT, goal * FLAT) - pairs["exact_xz"])
        truth = "exact_xz"
    return (
        f"distance to {truth}: mean {1e3 * error.mean():.4f} mm, worst {1e3 * error.max():.4f} mm; "
        f"beyond Detour's + 0.1% at most {100 * longer:.2f} cm"
    )


def builder_figures(oracle: dict[str, Any], data: Path) -> str:
    """Compare area, islands and path lengths of a navmesh built here with Recast's."""
    parts = trimesh.load(data / "scenes" / oracle["source"], process=False, force="scene").dump()
    offsets = np.cumsum([0, *(len(part.vertices) for part in parts)])
    triangles = np.concatenate([np.asarray(part.faces) + k for part, k in zip(parts, offsets, strict=False)])
    transform = np.array(oracle["transform"])
    vertices = np.concatenate([np.asarray(part.vertices) for part in parts]) @ transform[:3, :3].T + transform[:3, 3]
    settings = dict(oracle["settings"])
    settings["agent_max_slope_deg"] = settings.pop("agent_max_slope")
    mesh = NavMesh.build(vertices.astype(np.float32), triangles, NavMeshSettings(**settings))
    pairs = oracle["pairs"]
    lengths = mesh.geodesic_distance(np.array(pairs["start"]), np.array(pairs["end"]))
    close = (np.abs(lengths / np.array(pairs["exact"]) - 1) <= 0.01).mean()
    area = mesh.polygon_area_xz.sum()
    wanted = oracle["navmesh"]["area_xz"]
    large = sum(island.area > 1 for island in mesh.islands), sum(i["area_xz"] > 1 for i in oracle["islands"])
    return f"built: area {area / wanted - 1:+.2%}, {large[0]} islands above 1 m2 of {large[1]}, {close:.1%} of paths"


def follower_figures(mesh: NavMesh, sliding: bool) -> float:
    """Return the mean SPL of the greedy follower at 30 degrees per turn and success within 0.25 m."""
    points, polygons = mesh.random_points_and_polygons(1000, np.random.default_rng(1))
    fits = mesh.polygon_island[polygons[:500]] == mesh.polygon_island[polygons[500:]]
    fits &= mesh.geodesic_distance(points[:500], points[500:]) > 1
    position = points[:500][fits]
    polygon = polygons[:500][fits]
    goals = points[500:][fits]
    size = len(goals)
    batch = NavMeshAgents(1)
    batch.set_slot(0, mesh.tables(goals))
    slots = np.zeros(size, np.int32)
    goal_index = np.arange(size, dtype=np.int32)
    heading = np.zeros(size, np.float32)
    path = np.zeros(size)
    active = np.ones(size, bool)
    moved = np.zeros(size, np.float32)
    collided = np.zeros(size, bool)
    first = np.zeros(size, np.float32)
    last = np.zeros(size, np.float32)
    agents = slots, polygon, position, heading
    state = AgentState(*agents, np.zeros(size, np.float32))
    kind = DiscreteActions(forward_step=0.25, turn_angle_deg=30)
    how = {"forward_step": kind.forward_step, "turn_angle": kind.turn_angle, "sliding": sliding}
    batch.distance(slots, polygon, position, goal_index, first)
    for _ in range(500):
        actions = batch.next_action(*agents, goal_index, goal_radius=0.25, **how)
        active &= actions != 0
        commands = kind.decode(actions)
        batch.step(commands, state, active, StepOutcome(moved, collided), sliding=sliding)
        path += moved
    batch.distance(slots, polygon, position, goal_index, last)
    return float(np.mean((~active & (last <= 0.25)) * first / np.maximum(first, path)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", "../shared")))
    data = parser.parse_args().data
    for folder in sorted(path.parent for path in (data / "fixtures").glob("*/oracle.json.gz")):
        oracle = json.loads(gzip.decompress((folder / "oracle.json.gz").read_bytes()))
        mesh = NavMesh.load(folder / "recast.navmesh")
        storeys = len({round(floor["height"]) for floor in oracle["floors"]})
        print(folder.name)
        print("  " + move_figures(mesh, oracle["moves"]))
        print("  " + distance_figures(mesh, oracle["pairs"], storeys))
        print("  " + builder_figures(oracle, data))
        if oracle["settings_name"] == "habitat":
            sliding = follower_figures(mesh, True)
            stopping = follower_figures(mesh, False)
            print(f"  follower's SPL: sliding {sliding:.3f}, not sliding {stopping:.3f}")


if __name__ == "__main__":
    main()
