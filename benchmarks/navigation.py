"""Navigation without rendering: agent steps per second, preparation, goals, episodes.

python benchmarks/navigation.py                      # furnished plans of 70 to 430 m2, one thread, several N
python benchmarks/navigation.py house.glb --threads 2 --num-agents 4096 --seconds 2
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numba
import numpy as np
import trimesh

from gym_batchnav.episodes.sampling import sample_episodes
from gym_batchnav.navmesh import NavMesh
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.kernels.tables import make_goals
from gym_batchnav.scene.load import load_scene
from gym_batchnav.state import AgentState, Commands, StepOutcome

NUM_GOALS = 64
ROOM = 5.0  # metres, the side of a room of a furnished plan


def furnished_plan(rooms_a_side: int, seed: int = 0) -> NavMesh:
    """Return square rooms with doors of 0.9 m to their neighbours and six pieces of furniture each."""
    rng = np.random.default_rng(seed)
    side = ROOM * rooms_a_side
    boxes = [[[0, -0.1, 0], [side, 0, side]]]
    for line in range(rooms_a_side + 1):
        for room in range(rooms_a_side):
            at = line * ROOM
            begin = room * ROOM
            inner = 0 < line < rooms_a_side
            door = begin + rng.uniform(0.5, ROOM - 1.4) if inner else begin + ROOM
            for low, high in ((begin, door), (door + 0.9, begin + ROOM)):
                if high > low:
                    boxes.append([[at - 0.06, 0, low], [at + 0.06, 2.6, high]])
                    boxes.append([[low, 0, at - 0.06], [high, 2.6, at + 0.06]])
    for x, z in np.ndindex(rooms_a_side, rooms_a_side):
        for _ in range(6):
            size = rng.uniform(0.3, 1.2, 2)
            low = np.array([x, z]) * ROOM + rng.uniform(0.8, ROOM - 0.8 - size)
            boxes.append([[low[0], 0, low[1]], [low[0] + size[0], rng.uniform(0.4, 2), low[1] + size[1]]])
    whole = trimesh.util.concatenate([trimesh.creation.box(bounds=box) for box in boxes])
    return NavMesh.build(whole.vertices, whole.faces)


def bench_navigation(navmesh: NavMesh, num_agents: int, seconds: float = 2.0, seed: int = 0) -> dict[str, float]:
    """Move agents about the largest island; they turn away from obstacles.

    Returns:
        Seconds to prepare the tables and the bytes they hold, microseconds for a goal, agent steps/s of step and
        distance together, nanoseconds an agent of each, and milliseconds of one call of the follower.
    """
    rng = np.random.default_rng(seed)
    island = int(np.argmax([island.area for island in navmesh.islands]))
    goals = navmesh.random_points(NUM_GOALS, rng, island)
    NavMesh(navmesh.data).tables(goals)  # compiles
    start = time.perf_counter()
    tables = NavMesh(navmesh.data).tables(goals)
    prepare_seconds = time.perf_counter() - start
    start = time.perf_counter()
    make_goals(tables.ground, tables.corners, goals)
    goal_us = (time.perf_counter() - start) / NUM_GOALS * 1e6
    navmeshes = NavMeshAgents(1)
    navmeshes.set_slot(0, tables)

    position, polygon = navmesh.random_points_and_polygons(num_agents, rng, island)
    heading = rng.uniform(-np.pi, np.pi, num_agents).astype(np.float32)
    slots = np.zeros(num_agents, np.int32)
    goal_index = rng.integers(0, NUM_GOALS, num_agents).astype(np.int32)
    zeros = np.zeros(num_agents)
    forward = Commands(turn=zeros, forward=np.full(num_agents, 0.25), side=zeros, stop=zeros > 0)
    active = np.ones(num_agents, bool)
    collided = np.zeros(num_agents, bool)
    outcome = StepOutcome(np.zeros(num_agents, np.float32), collided)
    agents = AgentState(slots, polygon, position, heading, np.zeros(num_agents, np.float32))
    distance = np.zeros(num_agents, np.float32)
    how = {"forward_step": 0.25, "turn_angle": np.pi / 18, "sliding": True}

    def walk() -> tuple[float, float]:
        times = [time.perf_counter()]
        navmeshes.step(forward, agents, active, outcome, sliding=True)
        times.append(time.perf_counter())
        navmeshes.distance(slots, polygon, position, goal_index, distance)
        times.append(time.perf_counter())
        heading[:] += rng.normal(0, 0.1, num_agents) + collided * rng.uniform(-np.pi, np.pi, num_agents)
        return times[1] - times[0], times[2] - times[1]

    def follow() -> float:
        start = time.perf_counter()
        navmeshes.next_action(slots, polygon, position, heading, goal_index, goal_radius=0.2, **how)
        return time.perf_counter() - start

    walk(), follow()
    calls = 0
    spent = np.zeros(2)
    while spent.sum() < seconds:
        spent += walk()
        calls += 1
    step_ns, distance_ns = spent / calls / num_agents * 1e9
    return {
        "prepare_seconds": prepare_seconds,
        "table_megabytes": tables.nbytes / 1e6,
        "goal_us": goal_us,
        "agent_steps_per_second": calls * num_agents / float(spent.sum()),
        "step_ns": float(step_ns),
        "distance_ns": float(distance_ns),
        "follow_ms": min(follow() for _ in range(5)) * 1e3,
    }


def episodes_per_second(navmesh: NavMesh, num_episodes: int = 20_000) -> float:
    """Return the number of episodes sampled per second by Habitat's rules."""
    rng = np.random.default_rng(0)
    sample_episodes(navmesh, 100, rng)
    start = time.perf_counter()
    sample_episodes(navmesh, num_episodes, rng)
    return num_episodes / (time.perf_counter() - start)


def report(name: str, navmesh: NavMesh, sizes: list[int], seconds: float) -> None:
    """Print the figures of one navmesh."""
    print(f"{name}: {navmesh.navigable_area:.0f} m2, {navmesh.num_polygons} polygons")
    print(f"  {episodes_per_second(navmesh):,.0f} episodes/s")
    for size in sizes:
        figures = bench_navigation(navmesh, size, seconds)
        values = (f"{key} {value:,.0f}" if value >= 1000 else f"{key} {value:.3g}" for key, value in figures.items())
        print(f"  N={size}: " + ", ".join(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help=".navmesh or scene files; furnished plans if not given")
    parser.add_argument("--num-agents", type=int, nargs="+", default=[1024, 4096, 16384])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    numba.set_num_threads(arguments.threads)
    print(f"{arguments.threads} of {numba.config.NUMBA_NUM_THREADS} threads")
    for rooms in () if arguments.files else (2, 3, 5):
        name = f"{rooms * rooms} furnished rooms"
        report(name, furnished_plan(rooms), arguments.num_agents, arguments.seconds)
    for file in arguments.files:
        if file.suffix == ".navmesh":
            navmesh = NavMesh.load(file)
        else:
            scene = load_scene(file)
            navmesh = NavMesh.build(scene.vertices, scene.triangles)
        report(file.name, navmesh, arguments.num_agents, arguments.seconds)


if __name__ == "__main__":
    main()
