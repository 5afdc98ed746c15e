"""Flight: the error of shortest paths in space, and the speed of flying agents.

python benchmarks/flight.py                     # 60 rooms and the speed; about 10 minutes
python benchmarks/flight.py --rooms 10          # fewer rooms
python benchmarks/flight.py --json              # one JSON object on the last line

Rooms are furnished at random with boxes: pillars, walls with a way over or under them, tables, cupboards and lamps. The
reference is a visibility graph without voxels: its nodes lie all along the rounded edges around which the centre of a
sphere turns. Two of them see each other if the segment between them keeps the radius from every box, which is decided
exactly, because the distance to a box is convex along a segment. Its paths are true ones, so they are never too short;
``reference_refined_cm`` tells how much shorter they are with nodes twice as dense.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.env.ids import make_batch
from gym_batchnav.flight.air import Air, find_air
from gym_batchnav.system.progress import share_progress

RADIUS = 0.15  # metres, of the agents of DroneNav, and the side of their voxels
ROOM = np.array([6.0, 2.6, 5.0])  # metres; the floor is at 0
SPACING = 0.12  # metres between nodes along an edge
ANGLES = 5  # nodes around a rounded edge
STATED = 0.03, 0.1  # of the length, plus metres
QUANTILES = (0.5, 0.95, 0.99)
NUM_STEPS = 100  # in which the speed is measured
_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
_FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
_EDGES = [(a, b) for a in range(8) for b in range(a + 1, 8) if np.abs(_CORNERS[a] - _CORNERS[b]).sum() == 1]


class Paths(NamedTuple):
    """Lengths of shortest paths between pairs that do not see each other, metres."""

    straight: np.ndarray  # [M] float64, the distance as the crow flies
    exact: np.ndarray  # [M] float64, of the reference
    found: np.ndarray  # [M] float64, of the air


def furnish(rng: np.random.Generator) -> np.ndarray:
    """Return boxes [B, 2, 3] (low, high), metres, in the room."""
    boxes = []
    for _ in range(rng.integers(3, 8)):
        kind = rng.choice(["pillar", "low wall", "hanging wall", "table", "cupboard", "lamp"])
        size = rng.uniform(0.2, 1.5, 3)
        if kind == "pillar":
            size[1] = ROOM[1]
        elif kind in ("low wall", "hanging wall"):
            size = np.array([rng.uniform(0.05, 0.3), rng.uniform(0.8, 1.9), rng.uniform(1.5, 5.0)])
            size = size if rng.random() < 0.5 else size[::-1].copy()
        elif kind == "table":
            size[1] = 0.05
        low = rng.uniform(0, 1, 3) * (ROOM - size)
        low[1] = {"hanging wall": ROOM[1] - size[1], "lamp": ROOM[1] - size[1], "table": 0.75}.get(kind, 0.0)
        boxes.append([low, low + size])
    return np.array(boxes)


def triangles(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the triangles [12, 3, 3] of a box."""
    quads = (low + _CORNERS * (high - low))[_FACES]
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]).astype(np.float32)


def air_of(boxes: np.ndarray, num_goals: int, rng: np.random.Generator) -> Air:
    """Return the air of the room with boxes, and paths to random goals in it."""
    corners = np.concatenate([triangles(np.zeros(3), ROOM), *(triangles(*box) for box in boxes)])
    floor = rng.uniform(0, 1, (500, 3)) * ROOM * [1, 0, 1]
    on_floor = ((floor < boxes[:, None, 0] - 0.02) | (floor > boxes[:, None, 1] + 0.02))[..., [0, 2]].any(-1)
    free = (on_floor | (boxes[:, None, 0, 1] > 0.5)).all(axis=0)
    air = find_air(corners, floor[free].astype(np.float32), RADIUS, RADIUS)
    return air.with_goals(air.random_points(num_goals, rng))


def nodes_of(boxes: np.ndarray, spacing: float, angles: int) -> np.ndarray:
    """Return points [n, 3] around the rounded edges of all boxes at which paths may turn.

    They lie slightly outside of the radius, so that the segments between neighbours around an edge keep it.
    """
    turn = np.pi / 2 / (angles - 1)
    reach = RADIUS / np.cos(turn / 2) + 1e-6
    found = []
    for low, high in boxes:
        corners = low + _CORNERS * (high - low)
        for a, b in _EDGES:
            (axis,) = np.nonzero(_CORNERS[a] != _CORNERS[b])[0]
            length = (high - low)[axis]
            along = np.linspace(0, 1, max(2, int(np.ceil(length / spacing)) + 1))
            line = corners[a] + along[:, None] * (corners[b] - corners[a])
            others = [one for one in range(3) if one != axis]
            outward = np.where(_CORNERS[a][others] > 0, 1.0, -1.0)
            angle = np.arange(angles) * turn
            away = np.zeros((angles, 3))
            away[:, others[0]] = outward[0] * np.cos(angle)
            away[:, others[1]] = outward[1] * np.sin(angle)
            found.append((line[:, None] + reach * away).reshape(-1, 3))
    nodes = np.concatenate(found)
    free = np.array([is_clear(node, node, boxes) for node in nodes])
    return nodes[free]


@njit(cache=True)
def _to_box(point: np.ndarray, box: np.ndarray) -> float:
    """Return the distance of a point [3] from a box [2, 3]."""
    square = 0.0
    for k in range(3):
        outside = max(box[0, k] - point[k], 0.0, point[k] - box[1, k])
        square += outside * outside
    return np.sqrt(square)


@njit(cache=True)
def is_clear(start: np.ndarray, end: np.ndarray, boxes: np.ndarray) -> bool:
    """Return whether a segment keeps the radius from the walls of the room and all boxes."""
    least = RADIUS - 1e-7
    for k in range(3):
        if min(start[k], end[k]) < least or max(start[k], end[k]) > ROOM[k] - least:
            return False
    first = np.empty(3)
    second = np.empty(3)
    for row in range(len(boxes)):
        box = boxes[row]
        apart = False
        for k in range(3):
            apart |= min(start[k], end[k]) > box[1, k] + RADIUS or max(start[k], end[k]) < box[0, k] - RADIUS
        if apart:
            continue
        if _to_box(start, box) < least or _to_box(end, box) < least:
            return False
        low = 0.0
        high = 1.0
        while high - low > 1e-5:  # the distance is convex along the segment
            a = low + (high - low) / 3
            b = high - (high - low) / 3
            for k in range(3):
                first[k] = start[k] + a * (end[k] - start[k])
                second[k] = start[k] + b * (end[k] - start[k])
            at_a = _to_box(first, box)
            at_b = _to_box(second, box)
            if min(at_a, at_b) < least:
                return False
            if at_a < at_b:
                high = b
            else:
                low = a
    return True


@njit(cache=True)
def reach_nodes(goal: np.ndarray, nodes: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the lengths [n] of the shortest paths from a goal to all nodes (Dijkstra 1959), inf for none."""
    count = len(nodes)
    length = np.full(count, np.inf)
    closed = np.zeros(count, np.bool_)
    for node in range(count):
        if is_clear(goal, nodes[node], boxes):
            length[node] = np.sqrt(((nodes[node] - goal) ** 2).sum())
    while True:
        here = -1
        for node in range(count):
            if not closed[node] and length[node] < np.inf and (here < 0 or length[node] < length[here]):
                here = node
        if here < 0:
            return length
        closed[here] = True
        for node in range(count):
            if closed[node]:
                continue
            through = length[here] + np.sqrt(((nodes[node] - nodes[here]) ** 2).sum())
            if through < length[node] and is_clear(nodes[here], nodes[node], boxes):
                length[node] = through


@njit(cache=True)
def from_points(points: np.ndarray, goal: np.ndarray, nodes: np.ndarray, to_goal: np.ndarray, boxes: np.ndarray):
    """Return the lengths [M] of the shortest paths from points [M, 3]: 0 where a point sees the goal."""
    out = np.full(len(points), np.inf)
    for row in range(len(points)):
        if is_clear(points[row], goal, boxes):
            out[row] = 0.0
            continue
        for node in range(len(nodes)):
            through = to_goal[node] + np.sqrt(((nodes[node] - points[row]) ** 2).sum())
            if through < out[row] and is_clear(points[row], nodes[node], boxes):
                out[row] = through
    return out


def compare(seed: int, num_goals: int, num_points: int) -> Paths:
    """Measure bent paths in one furnished room."""
    rng = np.random.default_rng(seed)
    boxes = furnish(rng)
    air = air_of(boxes, num_goals, rng)
    nodes = nodes_of(boxes, SPACING, ANGLES)
    rows = []
    for index, goal in enumerate(air.fields.goals.astype(np.float64)):
        points = air.random_points(num_points, rng)
        exact = from_points(points.astype(np.float64), goal, nodes, reach_nodes(goal, nodes, boxes), boxes)
        found = air.distance(points, np.full(num_points, index, np.int32))
        bent = exact > 0
        straight = np.linalg.norm(points - goal, axis=1)
        rows.append(np.stack([straight, exact, found])[:, bent])
    return Paths(*np.concatenate(rows, axis=1))


def refine(seed: int) -> float:
    """Return how much shorter, metres, the reference's paths are on average with nodes twice as dense."""
    rng = np.random.default_rng(seed)
    boxes = furnish(rng)
    air = air_of(boxes, 1, rng)
    points = air.random_points(200, rng).astype(np.float64)
    goal = air.fields.goals[0].astype(np.float64)
    lengths = []
    for spacing, angles in ((SPACING, ANGLES), (SPACING / 2, 2 * ANGLES - 1)):
        nodes = nodes_of(boxes, spacing, angles)
        lengths.append(from_points(points, goal, nodes, reach_nodes(goal, nodes, boxes), boxes))
    bent = (lengths[0] > 0) & np.isfinite(lengths[0])
    return float(np.mean((lengths[0] - lengths[1])[bent])) if bent.any() else 0.0


def errors(paths: Paths) -> dict[str, float]:
    """Return the distribution of the errors of bent paths."""
    known = np.isfinite(paths.exact) & np.isfinite(paths.found)
    exact = paths.exact[known]
    found = paths.found[known]
    metres = found - exact
    share = metres / exact
    within = np.abs(metres) <= STATED[0] * exact + STATED[1]
    result = {
        "pairs": len(paths.exact),
        "without_path_in_both": float(np.mean(~np.isfinite(paths.exact) & ~np.isfinite(paths.found))),
        "without_path_in_air_alone": float(np.mean(np.isfinite(paths.exact) & ~np.isfinite(paths.found))),
        "without_path_in_reference_alone": float(np.mean(~np.isfinite(paths.exact) & np.isfinite(paths.found))),
        "mean_cm": float(100 * np.mean(metres)),
        "mean_percent": float(100 * np.mean(share)),
        "within_stated": float(np.mean(within)),
        "shortest_cm": float(100 * metres.min()),
        "longest_cm": float(100 * metres.max()),
    }
    for quantile in QUANTILES:
        name = f"{100 * quantile:g}"
        result[f"abs_{name}_cm"] = float(100 * np.quantile(np.abs(metres), quantile))
        result[f"abs_{name}_percent"] = float(100 * np.quantile(np.abs(share), quantile))
    return result


def speed(num_envs: int, sensors: tuple[str, ...]) -> float:
    """Return agent steps/s of DroneNav in the shipped apartments, with random actions."""
    env = make_batch("DroneNav", num_envs, scenes="apartments", sensors=sensors)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (16, num_envs, 4)).astype(np.float32)
    for step in range(10):
        env.step(actions[step])
    begun = time.perf_counter()
    for step in range(NUM_STEPS):
        env.step(actions[step % 16])
    seconds = time.perf_counter() - begun
    env.close()
    return num_envs * NUM_STEPS / seconds


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", type=int, default=60)
    parser.add_argument("--goals", type=int, default=2, help="per room")
    parser.add_argument("--points", type=int, default=100, help="starts per goal")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--paths-only", action="store_true", help="do not measure the speed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rooms = []
    with share_progress("Measuring paths") as show:
        for room in range(args.rooms):
            rooms.append(compare(args.seed + room, args.goals, args.points))
            show((room + 1) / args.rooms)
    result = errors(Paths(*np.concatenate([np.stack(room) for room in rooms], axis=1)))
    result["reference_refined_cm"] = 100 * float(np.mean([refine(args.seed + room) for room in range(3)]))
    if not args.paths_only:
        result["steps_per_second"] = speed(args.num_envs, ())
        result["steps_per_second_depth"] = speed(args.num_envs, ("depth",))
    for name, value in result.items():
        print(f"{name:32} {value:,.3f}")
    if args.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
