"""Define a task and learn it in a minute: stroll through homes, half a metre away from every wall (extra [train])."""

import argparse

import numpy as np
import torch
from gymnasium.spaces import Box

from gym_batchnav import BatchNavEnv, Measure, Sensor, Task
from gym_batchnav.geometry import forward_vectors
from gym_batchnav.train.policy import make_policy
from gym_batchnav.train.ppo import PPO, PPOConfig


class Whiskers(Sensor):  # distance to the nearest wall, at most 2 m: at the agent, half left of it, ahead, half right
    name = "whiskers"
    space = Box(0, 2, (4,), np.float32)

    def observe(self, state):
        metres = np.zeros((state.num_envs, 4), np.float32)
        for navmesh, rows in state.by_scene():
            for column, (reach, angle) in enumerate([(0, 0), (0.75, 0.8), (0.75, 0), (0.75, -0.8)]):
                points = state.agents.position[rows] + reach * forward_vectors(state.agents.heading[rows] + angle)
                metres[rows, column] = np.nan_to_num(navmesh.distance_to_obstacle(points))
        return metres


class StepsStrolled(Measure):  # number of steps forward that ended far from walls
    name = "steps_strolled"
    at_end = True

    def buffers(self, num_envs):
        return {"strolled": np.zeros(num_envs, int), "strolled_now": np.zeros(num_envs, bool)}

    def update(self, state, actions, active):
        state.buffers["strolled_now"][:] = active & (actions == 1) & (state.reading("whiskers")[:, 0] > 0.5)
        state.buffers["strolled"] += state.buffers["strolled_now"]

    def measure(self, state):
        return state.buffers["strolled"]


class Stroll(Task):  # STOP ends an episode, which is the default
    sensors = (Whiskers(),)
    measures = (StepsStrolled(),)

    def reward(self, state, measures):
        return state.buffers["strolled_now"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=400_000, help="environment steps, summed over agents")
    frames = parser.parse_args().frames
    env = BatchNavEnv(128, task=Stroll(), sensors=(), autoreset_mode="same_step", max_episode_steps=100)
    config = PPOConfig(frames, num_minibatches=4, normalize_advantages=True, optimizer="adamw", learning_rate=2.5e-3)
    torch.manual_seed(0)  # of the weights
    ppo = PPO(env, make_policy("blind", env.single_observation_space), config)
    while ppo.frames < frames:
        steps = np.concatenate([ppo.iterate().episodes["steps_strolled"] for _ in range(10)])
        print(f"{ppo.frames:7,} frames: {steps.mean():5.1f} steps strolled per episode", flush=True)
