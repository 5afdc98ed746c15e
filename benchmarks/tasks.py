"""Train an agent in every task with PPO, in one very small home, and compare it with agents that do not learn.

python benchmarks/tasks.py [--tasks MultiGoalNav ObjectNav] [--minutes 4 | --frames 500000] [--json]

All agents run the same thousand episodes of one generated home, so the figures say whether a task can be learned, not
whether what was learned holds in other homes. "first" and "last" are the first and the last episodes of the training,
in which actions are drawn from the policy. Every policy begins with the probability of STOP of the random agent;
with equal probabilities its first episodes would end after four steps. Nothing is imitated.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.agents import STOP_CHANCE, Agent, ObjectOracleAgent, RandomAgent, ShortestPathAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.geometry import Camera
from gym_batchnav.state import NUM_ACTIONS, Action
from gym_batchnav.task.api import Task
from gym_batchnav.task.explore import Explore
from gym_batchnav.task.flee import Flee
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.train.policy import make_policy
from gym_batchnav.train.ppo import PPO, PPOConfig

HOME = "procedural:0?area=25&closed_doors=0&triangles=8000"
NUM_EPISODES = 1000
CAMERA = Camera(32, 32)
WIDE_CAMERA = Camera(32, 32, hfov_deg=120)
GOAL_CAMERA = Camera(32, 32, hfov_deg=60)


@dataclass(frozen=True)
class Course:
    """How a task is learned.

    Attributes:
        task: The task.
        score: The measure to compare.
        oracle: The agent that knows the scene, if the task has a goal.
        policy: Kind of policy, see ``make_policy``.
        sensors: Image sensors.
        camera: The agents' camera.
        frames: Environment steps of the training, summed over environments.
        max_episode_steps: Limit of steps.
        num_envs: N.
        learning_rate: Learning rate of AdamW.
    """

    task: Task
    score: str = "success"
    oracle: Agent | None = None
    policy: str = "blind"
    sensors: tuple[str, ...] = ()
    camera: Camera = CAMERA
    frames: int = 1_000_000
    max_episode_steps: int = 200
    num_envs: int = 128
    learning_rate: float = 2.5e-3

    def make_env(self, num_envs: int, **keywords: Any) -> BatchNavEnv:
        """Make an environment of the task: turns of 30 degrees, as in Habitat's challenges."""
        return BatchNavEnv(
            num_envs,
            scenes=HOME,
            task=self.task,
            sensors=self.sensors,
            camera=self.camera,
            turn_angle_deg=30,
            max_episode_steps=self.max_episode_steps,
            num_episodes=NUM_EPISODES,
            autoreset_mode="same_step",
            **keywords,
        )


# The cost of steps is left out where a goal must first be found: it would make STOP the best first thing to learn.
COURSES = {
    "MultiGoalNav": Course(MultiGoalNav(), oracle=ShortestPathAgent(), max_episode_steps=300),
    "ObjectNav": Course(ObjectNav(step_reward=0), oracle=ObjectOracleAgent()),
    "ImageNav": Course(
        ImageNav(WIDE_CAMERA, step_reward=0, success_reward=10),
        oracle=ShortestPathAgent(),
        policy="small",
        sensors=("rgb",),
        camera=WIDE_CAMERA,
        frames=450_000,
        max_episode_steps=100,
        learning_rate=2e-3,
    ),
    "InstanceImageNav": Course(
        InstanceImageNav(GOAL_CAMERA, step_reward=0, success_reward=10),
        oracle=ObjectOracleAgent(),
        policy="small",
        sensors=("rgb",),
        frames=450_000,
        max_episode_steps=100,
        learning_rate=2e-3,
    ),
    "Explore": Course(Explore(), score="cells_visited", frames=400_000),
    "Flee": Course(Flee(), score="distance_from_start", frames=400_000),
}


def learn(course: Course, frames: int, minutes: float, window: int, show: Console) -> dict[str, float]:
    """Train an agent up to a number of frames or minutes; return its first and last scores."""
    torch.manual_seed(0)
    env = course.make_env(course.num_envs)
    policy = make_policy(course.policy, env.single_observation_space)
    with torch.no_grad():  # the logarithm of the odds: the other actions have logits of about 0
        policy.actor.bias[int(Action.STOP)] = math.log(STOP_CHANCE * (NUM_ACTIONS - 1) / (1 - STOP_CHANCE))
    config = PPOConfig(
        frames,
        num_minibatches=4,
        normalize_advantages=True,
        optimizer="adamw",
        learning_rate=course.learning_rate,
        scale_learning_rate=False,
    )
    ppo = PPO(env, policy, config)
    begin = time.perf_counter()
    scores = np.zeros(0)
    passed = 0.0
    while ppo.frames < frames and passed < 60 * minutes:
        scores = np.append(
            scores, ppo.iterate(max(ppo.frames / frames, passed / (60 * minutes))).episodes[course.score]
        )
        if int((time.perf_counter() - begin) / 20) > int(passed / 20):
            show.print(f"{ppo.frames:9,} frames: {course.score} {scores[-window:].mean():.3f}", style="dim")
        passed = time.perf_counter() - begin
    env.close()
    return {
        "frames": ppo.frames,
        "seconds": round(passed, 1),
        "episodes": len(scores),
        "first": float(scores[:window].mean()),
        "last": float(scores[-window:].mean()),
    }


def compare(course: Course) -> dict[str, float | None]:
    """Return the scores of the random agent and of the oracle in all episodes of the home, each run once."""
    env = course.make_env(64, episode_order="once")
    scores: dict[str, float | None] = {"random": float(evaluate(env, RandomAgent()).measures[course.score].mean())}
    scores["oracle"] = None
    if course.oracle is not None:
        scores["oracle"] = float(evaluate(env, course.oracle).measures[course.score].mean())
    env.close()
    return scores


def main() -> None:
    """Train in the tasks that the command line names and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(COURSES), default=list(COURSES))
    parser.add_argument("--minutes", type=float, default=4.0, help="longest training of a task")
    parser.add_argument("--frames", type=int, help="environment steps of each training, in place of the task's own")
    parser.add_argument("--window", type=int, default=300, help="number of episodes called first and last")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")
    options = parser.parse_args()
    numba.set_num_threads(min(options.threads, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(options.threads)
    show = Console(stderr=options.json, width=110)
    table = Table(title=f"Learning in {HOME}")
    columns = ("task", "measure", "first", "last", "random", "oracle", "episodes", "frames", "seconds")
    for column in columns:
        table.add_column(column, justify="left" if column in ("task", "measure") else "right")
    results = {}
    for name in options.tasks:
        course = COURSES[name]
        show.print(name)
        learned = learn(course, options.frames or course.frames, options.minutes, options.window, show)
        results[name] = {"measure": course.score, **learned, **compare(course)}
        cells = [name, course.score]
        for column in columns[2:]:
            value = results[name][column]
            cells.append("-" if value is None else f"{value:.3f}" if column in columns[2:6] else f"{value:,.0f}")
        table.add_row(*cells)
    show.print(table)
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
