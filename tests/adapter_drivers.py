"""Drivers of libraries: each uses its adapter in terms of a batch, for the tests of the contract of all adapters."""

from importlib import import_module

import numpy as np

GOAL = "pointgoal_with_gps_compass"


class Driver:
    """A library.

    Attributes:
        library: Its name in messages.
        module: The module that it needs.
        extra: Our extra that installs it.
        adapter: Module and class of the adapter.
        mode: The autoreset mode in which it counts right.
        takes_numpy: Whether it refuses observations on a GPU.
    """

    library = "Plain"
    module = "gym_batchnav"
    extra = ""
    adapter = "base.Adapter"
    mode = "same_step"
    takes_numpy = False

    @property
    def kind(self):
        """The adapter's class."""
        module, _, name = self.adapter.partition(".")
        return getattr(import_module(f"gym_batchnav.adapters.{module}"), name)

    def seed(self, seed, num_envs):
        """The seed of the batch after a reset with a seed of the library."""
        return seed

    def adapt(self, batch, seed):
        """The environment of the library, which is reset with a seed."""
        return self.kind(batch)

    def reset(self, env, seed):
        """Goals [N, 2]."""
        return env.reset(seed=seed)[0][GOAL]

    def step(self, env, actions):
        """Goals [N, 2] that the policy acts on next, rewards [N], done [N]; and (time-out, success, SPL) by index."""
        observation, reward, terminated, truncated, info = env.step(actions)
        return observation[GOAL], reward, terminated | truncated, self.ends(truncated, terminated | truncated, info)

    def ends(self, truncated, done, info):
        """Return (time-out, success, SPL) of the environments whose episode ended."""
        own = info.get("final_info", info)
        return {
            index: (bool(truncated[index]), bool(own["success"][index]), float(own["spl"][index]))
            for index in np.nonzero(done)[0].tolist()
        }

    def frames(self, env):
        """The views of all agents."""
        return env.render()

    def action_space(self, env):
        """The space of one action."""
        return env.single_action_space


class Plain(Driver):
    """An adapter that only checks its batch."""

    @property
    def kind(self):
        from gym_batchnav.adapters.base import Adapter

        def checked(self, env):
            self._check_batch(env)
            self.env = env

        def attribute(self, name):
            return getattr(self.env, name)

        return type("PlainEnv", (Adapter,), {"_library": "Plain", "__init__": checked, "__getattr__": attribute})


class SB3(Driver):
    library = "Stable-Baselines3"
    module = "stable_baselines3"
    extra = "sb3"
    adapter = "sb3.SB3VecEnv"
    takes_numpy = True

    def reset(self, env, seed):
        env.seed(seed)
        return env.reset()[GOAL]

    def step(self, env, actions):
        observation, reward, done, infos = env.step(actions)
        ends = {
            index: (info["TimeLimit.truncated"], info["is_success"], info["spl"])
            for index, info in enumerate(infos)
            if info
        }
        return observation[GOAL], reward, done, ends

    def frames(self, env):
        return env.get_images()

    def action_space(self, env):
        return env.action_space


class Skrl(Driver):
    library = module = extra = "skrl"
    adapter = "skrl.SkrlEnv"

    def adapt(self, batch, seed):
        from skrl import config

        before = config.torch.key
        config.torch.key = seed
        try:
            return self.kind(batch)  # takes skrl's seed
        finally:
            config.torch.key = before

    def reset(self, env, seed):
        return env.reset()[0].numpy()[:, -2:]

    def step(self, env, actions):
        import torch

        given = torch.from_numpy(np.asarray(actions)).reshape(len(actions), -1)
        observation, reward, terminated, truncated, info = env.step(given)
        reward, terminated, truncated = (one.numpy()[:, 0] for one in (reward, terminated, truncated))
        done = terminated | truncated
        return observation.numpy()[:, -2:], reward, done, self.ends(truncated, done, info)

    def action_space(self, env):
        return env.action_space


class Puffer(Driver):
    library = "PufferLib"
    module = extra = "pufferlib"
    adapter = "pufferlib.PufferVecEnv"
    takes_numpy = True

    def seed(self, seed, num_envs):
        return seed * num_envs

    def reset(self, env, seed):
        return self.goals(env.reset(seed=seed)[0])

    def step(self, env, actions):
        observation, reward, done, truncated, infos = env.step(actions)
        info = infos[0] if infos else {}
        rows = np.nonzero(done)[0].tolist()
        ends = {
            index: (bool(truncated[index]), bool(info["success"][row]), info["spl"][row])
            for row, index in enumerate(rows)
        }
        return self.goals(observation), reward.copy(), done.copy(), ends

    def goals(self, observation):
        return observation[:, -2:].copy()  # of float32 sensors, side by side


class RLGames(Driver):
    library = module = "rl_games"
    extra = "rl-games"
    adapter = "rl_games.RLGamesVecEnv"

    def reset(self, env, seed):
        env.seed(seed)
        return env.reset()["obs"][GOAL].numpy()

    def step(self, env, actions):
        import torch

        observation, reward, done, infos = env.step(torch.from_numpy(np.asarray(actions)))
        ends = self.ends(infos["time_outs"].numpy(), done.numpy(), infos)
        return observation["obs"][GOAL].numpy(), reward.numpy(), done.numpy(), ends

    def action_space(self, env):
        return env.get_env_info()["action_space"]


class Tianshou(Driver):
    library = module = extra = "tianshou"
    adapter = "tianshou.TianshouVecEnv"

    def step(self, env, actions):
        observation, reward, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        goals = observation[GOAL].copy()
        rows = np.nonzero(done)[0]
        ends = {
            index: (bool(truncated[index]), infos[index]["success"], infos[index]["spl"]) for index in rows.tolist()
        }
        if len(rows):
            goals[rows] = env.reset(rows)[0][GOAL]
        return goals, reward, done, ends

    def action_space(self, env):
        return env.action_space[0]


class RLlib(Driver):
    library = "RLlib"
    module = "ray"
    extra = "rllib"
    adapter = "rllib.RLlibEnv"
    mode = "next_step"

    def seed(self, seed, num_envs):
        return seed * num_envs


DRIVERS = (Plain(), SB3(), Skrl(), Puffer(), RLGames(), Tianshou(), RLlib())
