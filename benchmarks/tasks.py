"""Train an agent in every task with PPO, in one very small home, and compare it with agents that do not learn.

python benchmarks/tasks.py [--tasks MultiGoalNav SocialNav] [--seeds 0 1 2] [--minutes 4 | --frames 500000] [--out FILE]

All agents run the same thousand episodes of one generated home, so the figures say whether a task can be learned, not
whether what was learned holds in other homes. "first" and "last" are the first and the last episodes of the training,
in which actions are drawn from the policy; with --out the trained policies are evaluated in all episodes, and
benchmarks/curves.py draws the file. Every policy begins with the probability of STOP of the random agent; with equal
probabilities its first episodes would end after four steps. Only SocialNav begins with imitation: of the follower of
shortest paths, which does not heed people.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.evaluation.agents import STOP_CHANCE, Agent, ObjectOracleAgent, RandomAgent, ShortestPathAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.geometry import Camera, polar_goals
from gym_batchnav.state import NUM_ACTIONS, Action
from gym_batchnav.task.api import Sensor, Task
from gym_batchnav.task.explore import Explore, Flee
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.meeting import Rendezvous
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.sensors import WalkScan
from gym_batchnav.task.socialnav import SocialNav
from gym_batchnav.train.policy import Policy, make_policy
from gym_batchnav.train.policy_agent import PolicyAgent
from gym_batchnav.train.ppo import PPO, PPOConfig
from gym_batchnav.worlds.people import People

HOME = "procedural:0?area=25&closed_doors=0&triangles=8000"
LARGER_HOME = "procedural:0?area=50&closed_doors=0&triangles=8000"  # where bodies can pass each other
NUM_EPISODES = 1000
CAMERA = Camera(32, 32)
WIDE_CAMERA = Camera(32, 32, hfov_deg=120)
GOAL_CAMERA = Camera(32, 32, hfov_deg=60)


class MeetingAgent:
    """Walks along the shortest path to the other agent of its world of two, who does the same."""

    def reset(self, env: BatchNavEnv) -> None:
        """Do nothing, because there is no memory."""

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return a turn to the next corner of each path, or MOVE_FORWARD [N] int64."""
        position = env.agents.position
        other = np.arange(env.num_envs) ^ 1
        corner = np.empty_like(position)
        for row in range(env.num_envs):
            path = env.navmesh_of(row).shortest_path(position[row], position[other[row]])
            corner[row] = path[min(1, len(path) - 1)] if len(path) else position[row]
        angle = polar_goals(position, env.agents.heading, corner)[:, 1]
        turn = np.where(angle > 0, int(Action.TURN_LEFT), int(Action.TURN_RIGHT))
        kind = env.actions
        assert isinstance(kind, DiscreteActions)
        return np.where(np.abs(angle) <= 0.51 * kind.turn_angle, int(Action.MOVE_FORWARD), turn)


@dataclass(frozen=True)
class Course:
    """Settings by which a task is learned.

    Attributes:
        task: The task.
        score: The measure to compare.
        also: Further measures to evaluate.
        oracle: The agent that knows the scene, if the task has a goal.
        home: The scene.
        policy: Kind of policy, see ``make_policy``.
        sensors: Sensors besides the task's own.
        camera: The agents' camera.
        frames: Environment steps of the training, summed over environments.
        max_episode_steps: Limit of steps.
        num_envs: N.
        learning_rate: Learning rate of AdamW.
        num_epochs: Passes over each rollout.
        imitation_share: Share of the training, at its start, that imitates the shortest-path follower.
        keywords: Further keywords of the environment.
    """

    task: Task
    score: str = "success"
    also: tuple[str, ...] = ()
    oracle: Agent | None = None
    home: str = HOME
    policy: str = "blind"
    sensors: tuple[str | Sensor, ...] = ()
    camera: Camera = CAMERA
    frames: int = 1_000_000
    max_episode_steps: int = 200
    num_envs: int = 128
    learning_rate: float = 2.5e-3
    num_epochs: int = 1
    imitation_share: float = 0.0
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def make_env(self, num_envs: int, order: str = "random") -> BatchNavEnv:
        """Make an environment of the task: turns of 30 degrees, as in Habitat's challenges."""
        return BatchNavEnv(
            num_envs,
            scenes=self.home,
            task=self.task,
            sensors=self.sensors,
            camera=self.camera,
            actions=DiscreteActions(turn_angle_deg=30),
            max_episode_steps=self.max_episode_steps,
            episodes=Episodes(order=order, count=NUM_EPISODES),
            autoreset_mode="same_step",
            **self.keywords,
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
    "SocialNav": Course(
        SocialNav(success_distance=0.5),
        also=("spl", "body_collisions", "personal_space_violations", "min_body_distance"),
        oracle=ShortestPathAgent(),
        home=LARGER_HOME,
        sensors=(WalkScan(),),
        frames=200_000,
        max_episode_steps=100,
        num_epochs=4,
        imitation_share=0.3,
        keywords={"bodies": (People(2),)},
    ),
    "Rendezvous": Course(
        Rendezvous(),
        score="met",
        also=("path_to_others", "path_length"),
        oracle=MeetingAgent(),
        home=LARGER_HOME,
        sensors=(WalkScan(),),
        frames=250_000,
        max_episode_steps=100,
        keywords={"agents_per_world": 2},
    ),
}


def learn(
    course: Course, seed: int, frames: int, minutes: float, window: int, show: Console
) -> tuple[Policy, dict[str, Any]]:
    """Train an agent up to a number of frames or minutes; return its policy, and its first and last scores."""
    torch.manual_seed(seed)
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
        num_epochs=course.num_epochs,
        imitation_share=course.imitation_share,
    )
    ppo = PPO(env, policy, config, seed=seed)
    begin = time.perf_counter()
    scores = np.zeros(0)
    curve = []
    passed = 0.0
    while ppo.frames < frames and passed < 60 * minutes:
        scores = np.append(
            scores, ppo.iterate(max(ppo.frames / frames, passed / (60 * minutes))).episodes[course.score]
        )
        if len(scores) >= window:
            curve.append((ppo.frames, float(scores[-window:].mean())))
        if int((time.perf_counter() - begin) / 20) > int(passed / 20):
            show.print(f"{ppo.frames:9,} frames: {course.score} {scores[-window:].mean():.3f}", style="dim")
        passed = time.perf_counter() - begin
    env.close()
    return policy, {
        "seed": seed,
        "frames": ppo.frames,
        "seconds": round(passed, 1),
        "episodes": len(scores),
        "first": float(scores[:window].mean()),
        "last": float(scores[-window:].mean()),
        "curve": curve,
    }


def scores_of(course: Course, agent: Agent) -> dict[str, float]:
    """Return the means of an agent's measures, and of its steps, in all episodes of the home, each run once."""
    env = course.make_env(64, "once")
    episodes = evaluate(env, agent)
    env.close()
    means = {name: float(episodes.measures[name].mean()) for name in (course.score, *course.also)}
    return {**means, "steps": float(episodes.num_steps.mean())}


def main() -> None:
    """Train in the tasks that the command line names and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(COURSES), default=list(COURSES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="one training of every task for each")
    parser.add_argument("--minutes", type=float, default=4.0, help="longest training")
    parser.add_argument("--frames", type=int, help="environment steps of each training, in place of the task's own")
    parser.add_argument("--window", type=int, default=300, help="number of episodes called first and last")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write all figures and the learning curves to this JSON file")
    options = parser.parse_args()
    numba.set_num_threads(min(options.threads, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(options.threads)
    show = Console(width=120)
    table = Table(title="Learning in one home")
    columns = ("seed", "first", "last", "random", "oracle", "episodes", "frames", "seconds")
    for column in ("task", "measure", *columns):
        table.add_column(column, justify="left" if column in ("task", "measure") else "right")
    results: dict[str, Any] = {}
    for name in options.tasks:
        course = COURSES[name]
        agents = {"random": scores_of(course, RandomAgent())}
        if course.oracle is not None:
            agents["oracle"] = scores_of(course, course.oracle)
        known = {agent: scores[course.score] for agent, scores in agents.items()}
        runs: list[dict[str, Any]] = []
        for seed in options.seeds:
            show.print(f"{name}, seed {seed}")
            frames = options.frames or course.frames
            policy, learned = learn(course, seed, frames, options.minutes, options.window, show)
            if options.out is not None:
                learned["evaluated"] = scores_of(course, PolicyAgent(policy, sample_seed=seed))
            runs.append(learned)
            values = {**learned, **known}
            cells = [f"{values[column]:.3f}" if column in values else "-" for column in columns[1:5]]
            table.add_row(name, course.score, str(seed), *cells, *(f"{learned[column]:,.0f}" for column in columns[5:]))
        results[name] = {"measure": course.score, "agents": agents, "runs": runs}
    show.print(table)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
