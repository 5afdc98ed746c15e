"""The scores of agents that know the scene, for every task with a goal and every protocol; a table with a row each.

python benchmarks/oracles.py [--episodes 100] [--scenes procedural:0-9] [--tasks ObjectNav pointnav-2021]
"""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.table import Table

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.evaluation.agents import Agent, ObjectOracleAgent, ShortestPathAgent
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes, evaluate
from gym_batchnav.protocols import PROTOCOLS, NavigationProtocol
from gym_batchnav.task.api import Task
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.measures import OracleSuccess, TimedOut
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.pointnav import PointNav

ORACLES: dict[str, tuple[Task, Agent, int]] = {  # the task, its oracle, and its limit of steps
    "PointNav": (PointNav(), ShortestPathAgent(), 500),
    "MultiGoalNav": (MultiGoalNav(), ShortestPathAgent(), 2500),
    "ObjectNav": (ObjectNav(), ObjectOracleAgent(), 500),
    "ImageNav": (ImageNav(), ShortestPathAgent(), 1000),
    "InstanceImageNav": (InstanceImageNav(), ObjectOracleAgent(), 1000),
}


def run(name: str, scenes: str, episodes_per_scene: int) -> EvaluatedEpisodes:
    """Return the first episodes of every scene, run by the oracle of a task or a protocol."""
    if name in PROTOCOLS:
        # The oracle needs no pictures. Goals, motion, noise of motors and limits are the protocol's.
        keywords = {**PROTOCOLS[name].keywords(), "sensor_noise": None}
        agent = _oracle_of(PROTOCOLS[name])
    else:
        task, agent, max_episode_steps = ORACLES[name]
        keywords = {"task": task, "max_episode_steps": max_episode_steps}
    env = BatchNavEnv(
        128,
        **{
            **keywords,
            "scenes": scenes,
            "sensors": (),
            "measures": (OracleSuccess(), TimedOut()),
            "episodes": Episodes(order="once", count=episodes_per_scene),
        },
    )
    try:
        return evaluate(env, agent, episodes_per_scene)
    finally:
        env.close()


def _oracle_of(protocol: NavigationProtocol) -> Agent:
    """Return the agent that faces objects if it can turn by discrete actions, and otherwise the plain follower."""
    leads_to_objects = isinstance(protocol.task, (ObjectNav, InstanceImageNav))
    discrete = isinstance(protocol.actions, DiscreteActions)
    return ObjectOracleAgent() if leads_to_objects and discrete else ShortestPathAgent()


def main() -> None:
    """Run the oracles and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100, help="episodes per scene")
    parser.add_argument("--scenes", default="procedural:0-9")
    parser.add_argument("--tasks", nargs="+", choices=[*ORACLES, *PROTOCOLS], default=[*ORACLES, *PROTOCOLS])
    arguments = parser.parse_args()
    table = Table(title=f"Oracles in {arguments.scenes}")
    for heading in ("task", "episodes", "success", "SPL", "oracle success", "timed out", "steps", "seconds"):
        table.add_column(heading, justify="left" if heading == "task" else "right")
    for name in arguments.tasks:
        begin = time.perf_counter()
        episodes = run(name, arguments.scenes, arguments.episodes)
        shares = (episodes.success, episodes.spl, episodes.oracle_success, episodes.timed_out)
        table.add_row(
            name,
            f"{len(episodes):,}",
            *(f"{share.mean():.4f}" for share in shares),
            f"{episodes.num_steps.mean():.1f}",
            f"{time.perf_counter() - begin:.1f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
