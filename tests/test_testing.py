"""The checker of vector environments: right ones pass, and every planted fault is found by the check named for it."""

import warnings
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.testing import CHECKS, VectorEnvError, check_vector_env

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode


class Walkers(VectorEnv):
    """N walkers on a line, without a fault: an episode ends 3 m from the middle or after 12 actions."""

    def __init__(self, mode=NEXT_STEP, num_envs=3):
        self.num_envs = num_envs
        self.mode = mode
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = Dict(
            place=Box(-10, 10, (2,), np.float32), parts=Tuple((Discrete(1000), MultiBinary(2)))
        )
        self.single_action_space = Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.generators = [None] * num_envs
        self.place = np.zeros((num_envs, 2), np.float32)
        self.count, self.done = np.zeros(num_envs, np.int64), np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        self.refuse_closed()
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed or [None] * self.num_envs
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for i in np.nonzero(mask)[0]:
            if seeds[i] is not None or self.generators[i] is None:
                self.generators[i] = np.random.default_rng(seeds[i])
        self.begin(mask)
        return self.observe(), self.info()

    def step(self, actions):
        self.refuse_closed()
        if None in self.generators or len(actions) != self.num_envs:
            raise ValueError("reset first, and give an action each")
        beginning = self.done if self.mode == NEXT_STEP else np.zeros(self.num_envs, bool)
        active = ~beginning
        self.begin(beginning.copy())
        self.move(actions, active)
        reward = np.where(active, self.place[:, 0].astype(np.float64), 0.0)
        terminated = active & (abs(self.place[:, 0]) >= 3)
        truncated = active & ~terminated & (self.count >= 12)
        self.done = terminated | truncated
        final = self.same_step() if self.mode == SAME_STEP and self.done.any() else {}
        return self.observe(), reward, terminated, truncated, {**self.info(), **final}

    def refuse_closed(self):
        if self.closed:
            raise RuntimeError("closed")

    def begin(self, mask):
        for i in np.nonzero(mask)[0]:
            self.place[i] = self.generators[i].uniform(-1, 1, 2)
            self.count[i] = 0
        self.done = self.done & ~mask

    def move(self, actions, active):
        moved = self.place[:, 0] + np.asarray(actions, np.float32) - 1
        self.place[active, 0] = np.clip(moved, -9, 9)[active]
        self.count[active] += 1

    def same_step(self):
        done = self.done.copy()
        final = {"final_obs": self.observe(), "_final_obs": done, "final_info": self.info(), "_final_info": done.copy()}
        self.begin(done)
        return final

    def observe(self):
        return {"place": self.place.copy(), "parts": (self.count.copy(), (self.place > 0).astype(np.int8))}

    def info(self):
        return {"count": self.count.copy(), "_count": np.ones(self.num_envs, bool)}


class Changed(Walkers):
    """Walkers whose ``step`` returns something with a fault."""

    def __init__(self, fault, *args):
        super().__init__(*args)
        self.fault = fault

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        match self.fault:
            case "observation of another dtype":
                obs["place"] = obs["place"].astype(np.float16)
            case "observation with a list for a tuple":
                obs["parts"] = list(obs["parts"])
            case "observation without a key":
                del obs["parts"]
            case "observation out of bounds":
                obs["place"][1, 0] = 11
            case "rewards of whole numbers":
                reward = reward.astype(int)
            case "rewards not finite":
                reward[2] = np.nan
            case "flags of numbers":
                truncated = truncated.astype(np.int8)
            case "info without mask":
                del info["_count"]
            case "mask without info":
                del info["count"]
            case "info too short":
                info["count"] = info["count"][1:]
            case "no final info":
                info = {name: value for name, value in info.items() if "final_info" not in name}
            case "final info without mask" if "final_info" in info:
                del info["final_info"]["_count"]
            case "final observation out of bounds" if "final_obs" in info:
                info["final_obs"]["place"][:] = 11
            case "final observation of the next episode" if "final_obs" in info:
                info["final_obs"] = deepcopy(obs)
        return obs, reward, terminated, truncated, info


class RewardForTheReset(Walkers):
    def step(self, actions):
        begun = self.done
        obs, reward, *rest = super().step(actions)
        return obs, np.where(begun, -0.1, reward), *rest


class ActsInTheResetStep(Walkers):
    def begin(self, mask):
        super().begin(mask)
        self.late = mask

    def move(self, actions, active):
        super().move(actions, active)
        self.place[self.late, 1] += np.asarray(actions, np.float32)[self.late]


class ResetsEverybody(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


class IgnoresSeeds(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None, options=options)


class SharesStateBetweenInstances(Walkers):
    made = 0

    def __init__(self, *args):
        super().__init__(*args)
        SharesStateBetweenInstances.made += 1
        self.number = self.made

    def move(self, actions, active):
        super().move(actions, active)
        self.place[:, 1] = self.number / 1e6


class PushesTheNeighbour(Walkers):
    def move(self, actions, active):
        super().move(actions, active)
        self.place[2, 1] = actions[0] if active[0] else 0


class WritesIntoItsObservations(Walkers):
    def observe(self):
        return {**super().observe(), "place": self.place}


class WritesIntoItsRewards(Walkers):
    def step(self, actions):
        obs, reward, *rest = super().step(actions)
        self.reward = getattr(self, "reward", reward)
        self.reward[:] = reward
        return obs, self.reward, *rest


class ClosesOnce(Walkers):
    def close(self):
        self.refuse_closed()
        self.closed = True


class BatchedByHand(Walkers):
    def __init__(self, *args):
        super().__init__(*args)
        self.observation_space = batch_space(self.single_observation_space, 2)


class NamesItsMode(Walkers):
    def __init__(self, *args):
        super().__init__(*args)
        self.metadata = {"autoreset_mode": "NextStep"}


FAULTS = [
    (BatchedByHand, NEXT_STEP, "spaces"),
    (NamesItsMode, NEXT_STEP, "metadata"),
    ("observation of another dtype", NEXT_STEP, "observations"),
    ("observation with a list for a tuple", NEXT_STEP, "observations"),
    ("observation without a key", NEXT_STEP, "observations"),
    ("observation out of bounds", NEXT_STEP, "observations"),
    ("rewards of whole numbers", NEXT_STEP, "rewards"),
    ("rewards not finite", NEXT_STEP, "rewards"),
    ("flags of numbers", NEXT_STEP, "flags"),
    ("info without mask", NEXT_STEP, "infos"),
    ("mask without info", NEXT_STEP, "infos"),
    ("info too short", NEXT_STEP, "infos"),
    ("final info without mask", SAME_STEP, "infos"),
    (WritesIntoItsObservations, NEXT_STEP, "buffers"),
    (WritesIntoItsRewards, NEXT_STEP, "buffers"),
    (RewardForTheReset, NEXT_STEP, "next_step"),
    (ActsInTheResetStep, NEXT_STEP, "next_step"),
    ("no final info", SAME_STEP, "same_step"),
    ("final observation out of bounds", SAME_STEP, "same_step"),
    ("final observation of the next episode", SAME_STEP, "same_step"),
    (ResetsEverybody, DISABLED, "disabled"),
    (IgnoresSeeds, NEXT_STEP, "seeding"),
    (SharesStateBetweenInstances, NEXT_STEP, "seeding"),
    *((PushesTheNeighbour, mode, "independence") for mode in AutoresetMode),
    (ClosesOnce, NEXT_STEP, "close"),
]


@pytest.mark.parametrize(("fault", "mode", "check"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_planted_fault_is_found_by_the_check_named_for_it(fault, mode, check):
    faulty = partial(Changed, fault) if isinstance(fault, str) else fault
    with pytest.raises(VectorEnvError, match=f"^{check}") as caught:
        check_vector_env(partial(faulty, mode), steps=100)
    assert caught.value.check == check


def test_every_check_has_a_fault():
    assert {check for *_, check in FAULTS} == {*CHECKS}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_right_one_passes(mode, num_envs):
    check_vector_env(partial(Walkers, mode, num_envs), steps=50)
    env = Walkers(mode, num_envs)
    check_vector_env(env, steps=50)
    assert env.closed


def test_an_error_says_where_and_closes_the_environment():
    env = Changed("rewards not finite")
    with pytest.raises(VectorEnvError, match="environment 2, step 0: the reward is nan") as caught:
        check_vector_env(env)
    assert (caught.value.env_index, caught.value.step) == (2, 0) and env.closed
    with pytest.raises(VectorEnvError, match=r"environment 2, step \d+: its observation changed when only .* \[0, 1\]"):
        check_vector_env(PushesTheNeighbour())


def test_skipped_checks_are_not_reported_and_too_few_steps_cause_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_vector_env(ClosesOnce(), skip=["close"])
        check_vector_env(WritesIntoItsObservations(), reuses_buffers=True)
    with pytest.warns(UserWarning, match="no episode ended in 2 steps"):
        check_vector_env(Walkers(), steps=2)


@pytest.mark.parametrize(
    ("wrong", "error", "named"),
    [
        ({"env": gymnasium.make("CartPole-v1")}, TypeError, "VectorEnv"),
        ({"skip": ["seed"]}, ValueError, "seeding"),
        ({"skip": "seeding"}, ValueError, "list"),
        ({"steps": 1}, ValueError, "steps"),
    ],
)
def test_wrong_arguments_are_refused_by_name(wrong, error, named):
    with pytest.raises(error, match=named):
        check_vector_env(**{"env": Walkers(), **wrong})


@pytest.mark.parametrize("mode", AutoresetMode)
def test_gymnasiums_environments_pass_also_wrapped(mode):
    make = partial(gymnasium.make_vec, "CartPole-v1", 3, vector_kwargs={"autoreset_mode": mode})
    check_vector_env(partial(make, vectorization_mode="sync"))
    check_vector_env(gymnasium.wrappers.vector.RecordEpisodeStatistics(make(vectorization_mode="sync")))
    if mode == NEXT_STEP:
        check_vector_env(partial(gymnasium.make_vec, "CartPole-v1", 3, vectorization_mode="vector_entry_point"))


@pytest.mark.parametrize(
    "mode", [AutoresetMode.NEXT_STEP, *(pytest.param(one, marks=pytest.mark.slow) for one in tuple(AutoresetMode)[1:])]
)
def test_ours_pass_in_every_mode(mode):
    library = SceneLibrary.from_scenes([box_room("first"), box_room("second", width=10, depth=7)])
    camera = Camera(width=8, height=6)
    keywords = {"library": library, "sensors": ("depth", "rgb", "semantic"), "camera": camera, "episodes": 10}
    make = partial(BatchNavEnv, 4, autoreset_mode=mode, **keywords)
    check_vector_env(make, steps=40)
    if mode == NEXT_STEP:
        check_vector_env(partial(make, buffers=2), reuses_buffers=True, steps=40)
        with pytest.raises(VectorEnvError, match="buffers"):
            check_vector_env(partial(make, buffers=2))
