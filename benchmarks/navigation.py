"""Agent steps per second of navigation alone: step and geodesic distance, and the follower.

python benchmarks/navigation.py apartment.navmesh --num-agents 4096 --seconds 2
"""

from __future__ import annotations

import argparse
import time

import numba
import numpy as np

from gym_batchnav.navmesh import NavMesh
from gym_batchnav.navmesh.batch import NavMeshBatch

NUM_GOALS = 64


def bench_navigation(navmesh: NavMesh, num_agents: int, seconds: float = 2.0, seed: int = 0) -> dict[str, float]:
    """Walk agents about the largest island, all of them moving, turning away from what they hit.

    Returns:
        Seconds to prepare the tables and the bytes they hold, microseconds for a goal, agent steps/s of step and
        distance together, nanoseconds an agent of each, and milliseconds of one call of the follower.
    """
    rng = np.random.default_rng(seed)
    island = int(np.argmax(navmesh.island_area))
    goals = navmesh.random_points(NUM_GOALS, rng, island)
    NavMesh.from_record(navmesh).tables(goals)  # compiles
    start = time.perf_counter()
    tables = NavMesh.from_record(navmesh).tables(goals)
    prepare_seconds = time.perf_counter() - start
    navmeshes = NavMeshBatch(1)
    navmeshes.set_slot(0, tables)

    position, polygon = navmesh.random_points_and_polygons(num_agents, rng, island)
    heading = rng.uniform(-np.pi, np.pi, num_agents).astype(np.float32)
    slots, goal_index = np.zeros(num_agents, np.int32), rng.integers(0, NUM_GOALS, num_agents).astype(np.int32)
    forward, active = np.ones(num_agents, np.int64), np.ones(num_agents, bool)
    moved, collided = np.zeros(num_agents, np.float32), np.zeros(num_agents, bool)
    distance = np.zeros(num_agents, np.float32)
    how = {"forward_step": 0.25, "turn_angle": np.pi / 18, "sliding": True}

    def walk() -> tuple[float, float]:
        times = [time.perf_counter()]
        navmeshes.step(
            forward, slots, polygon, position, heading, active=active, moved_out=moved, collided_out=collided, **how
        )
        times.append(time.perf_counter())
        navmeshes.distance(slots, polygon, position, goal_index, distance)
        times.append(time.perf_counter())
        heading[:] += rng.normal(0, 0.1, num_agents) + collided * rng.uniform(-np.pi, np.pi, num_agents)
        return times[1] - times[0], times[2] - times[1]

    def follow() -> float:
        start = time.perf_counter()
        navmeshes.next_action(slots, polygon, position, heading, goal_index, goal_radius=0.2, **how)
        return time.perf_counter() - start

    start = time.perf_counter()
    tables.with_goals(goals)
    goal_us = (time.perf_counter() - start) / NUM_GOALS * 1e6
    walk(), follow()
    calls, spent = 0, np.zeros(2)
    while spent.sum() < seconds:
        spent += walk()
        calls += 1
    step_ns, distance_ns = spent / calls / num_agents * 1e9
    return {
        "prepare_seconds": prepare_seconds,
        "table_bytes": tables.nbytes,
        "goal_us": goal_us,
        "agent_steps_per_second": calls * num_agents / float(spent.sum()),
        "step_ns": float(step_ns),
        "distance_ns": float(distance_ns),
        "follow_ms": min(follow() for _ in range(5)) * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("navmesh", help="a .navmesh file")
    parser.add_argument("--num-agents", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=numba.get_num_threads())
    arguments = parser.parse_args()
    numba.set_num_threads(arguments.threads)
    navmesh = NavMesh.load(arguments.navmesh)
    print(f"{navmesh.navigable_area:.0f} m2, {navmesh.num_polygons} polygons, {arguments.num_agents} agents")
    for name, value in bench_navigation(navmesh, arguments.num_agents, arguments.seconds).items():
        print(f"{name:>24} {value:,.3g}" if value < 1e4 else f"{name:>24} {value:,.0f}")


if __name__ == "__main__":
    main()
