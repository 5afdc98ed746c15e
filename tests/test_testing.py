"""The checker of vector environments: right ones pass, and every planted fault is found by the check named for it."""

import warnings
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.testing import CONTRACT, PROMISES, VectorEnvError, check_vector_env

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
    """An environment in which ``change`` alters the results of ``step`` before they are returned."""

    def step(self, actions):
        returned = list(super().step(actions))
        self.change(*returned, returned)
        return tuple(returned)


def changed(function):
    """A class of walkers whose returned values a function (obs, reward, terminated, truncated, info, all) changes."""
    return type(function.__name__, (Changed,), {"change": staticmethod(function)})


# Faults of values: what a step returns is put out of shape.


@changed
def observation_of_another_dtype(obs, reward, terminated, truncated, info, returned):
    obs["place"] = obs["place"].astype(np.float16)


@changed
def observation_with_a_list_for_a_tuple(obs, reward, terminated, truncated, info, returned):
    obs["parts"] = list(obs["parts"])


@changed
def observation_without_a_key(obs, reward, terminated, truncated, info, returned):
    del obs["parts"]


@changed
def observation_out_of_bounds(obs, reward, terminated, truncated, info, returned):
    obs["place"][1, 0] = 11


@changed
def rewards_in_a_list(obs, reward, terminated, truncated, info, returned):
    returned[1] = list(reward)


@changed
def rewards_of_whole_numbers(obs, reward, terminated, truncated, info, returned):
    returned[1] = reward.astype(int)


@changed
def rewards_not_finite(obs, reward, terminated, truncated, info, returned):
    reward[2] = np.nan


@changed
def flags_of_numbers(obs, reward, terminated, truncated, info, returned):
    returned[3] = truncated.astype(np.int8)


@changed
def flags_as_a_column(obs, reward, terminated, truncated, info, returned):
    returned[2] = terminated[:, None]


@changed
def info_without_mask(obs, reward, terminated, truncated, info, returned):
    del info["_count"]


@changed
def mask_without_info(obs, reward, terminated, truncated, info, returned):
    del info["count"]


@changed
def mask_of_numbers(obs, reward, terminated, truncated, info, returned):
    info["_count"] = info["_count"].astype(int)


@changed
def info_too_short(obs, reward, terminated, truncated, info, returned):
    info["count"] = info["count"][1:]


@changed
def info_as_a_list(obs, reward, terminated, truncated, info, returned):
    returned[4] = [{} for _ in reward]


@changed
def info_of_strings(obs, reward, terminated, truncated, info, returned):
    info["count"] = info["count"].astype(str)


# Faults at the end of an episode.


@changed
def no_final_observation(obs, reward, terminated, truncated, info, returned):
    info.pop("final_obs", None), info.pop("_final_obs", None)


@changed
def no_final_info(obs, reward, terminated, truncated, info, returned):
    info.pop("final_info", None), info.pop("_final_info", None)


@changed
def final_mask_of_all(obs, reward, terminated, truncated, info, returned):
    if "_final_obs" in info:
        info["_final_obs"] = np.ones_like(terminated)


@changed
def final_info_without_mask(obs, reward, terminated, truncated, info, returned):
    if "final_info" in info:
        del info["final_info"]["_count"]


@changed
def final_observation_out_of_bounds(obs, reward, terminated, truncated, info, returned):
    if "final_obs" in info:
        info["final_obs"]["place"][:] = 11


@changed
def final_observation_of_another_dtype(obs, reward, terminated, truncated, info, returned):
    if "final_obs" in info:
        info["final_obs"]["place"] = info["final_obs"]["place"].astype(np.float64)


@changed
def final_observation_of_the_next_episode(obs, reward, terminated, truncated, info, returned):
    if "final_obs" in info:
        info["final_obs"] = deepcopy(obs)


@changed
def last_observation_for_the_first(obs, reward, terminated, truncated, info, returned):
    if "final_obs" in info:
        returned[0] = deepcopy(info["final_obs"])


class RewardForTheReset(Walkers):
    def step(self, actions):
        begun = self.done
        obs, reward, *rest = super().step(actions)
        return obs, np.where(begun, -0.1, reward), *rest


class FlagForTheReset(Walkers):
    def step(self, actions):
        begun = self.done.copy()
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated, truncated | begun, info


class ActsInTheResetStep(Walkers):
    def begin(self, mask):
        super().begin(mask)
        self.late = mask

    def move(self, actions, active):
        super().move(actions, active)
        self.place[self.late, 1] += np.asarray(actions, np.float32)[self.late]


class NeverBegins(Walkers):
    """An episode that has ended goes on."""

    def reset(self, **keywords):
        self.fresh = True
        return super().reset(**keywords)

    def begin(self, mask):
        if self.fresh:
            super().begin(mask)
        self.fresh, self.done = False, self.done & ~mask


class ResetsEverybody(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


class ResetsNobody(Walkers):
    def reset(self, *, seed=None, options=None):
        return (self.observe(), self.info()) if options else super().reset(seed=seed)


class NeverEnds(Walkers):
    def move(self, actions, active):
        self.place[:, 1] = np.asarray(actions) / 3


# Faults of seeds and of independence.


class IgnoresSeeds(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None, options=options)


class OneSeedForEver(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if seed is None else 7, options=options)


class OneSeedForAll(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=[seed] * self.num_envs if isinstance(seed, int) else seed, options=options)


class TheLastSeedIsOff(Walkers):
    def reset(self, *, seed=None, options=None):
        seeds = [seed, seed + 1, seed + 9] if isinstance(seed, int) else seed
        return super().reset(seed=seeds, options=options)


class MixesSeeds(Walkers):
    def reset(self, *, seed=None, options=None):
        seeds = [seed + i for i in range(3)] if isinstance(seed, int) else seed
        return super().reset(seed=seeds and [one + sum(seeds) for one in seeds], options=options)


class RefusesSeedLists(Walkers):
    def reset(self, *, seed=None, options=None):
        if isinstance(seed, list):
            raise TypeError("an int, please")
        return super().reset(seed=seed, options=options)


class IgnoresSeedsUnderAMask(Walkers):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if options else seed, options=options)


class RemembersTheLastRun(Walkers):
    total = 0

    def move(self, actions, active):
        super().move(actions, active)
        self.total += 1
        self.place[:, 1] = self.total % 7


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


class SharesOneGenerator(Walkers):
    """Each environment's first episode is its own; the later ones are drawn in the order in which episodes end."""

    def begin(self, mask):
        super().begin(mask)
        if not mask.all():
            self.place[mask] = self.generators[0].uniform(-1, 1, (mask.sum(), 2))


# Faults of buffers and of use.


class WritesIntoItsObservations(Walkers):
    def observe(self):
        return {**super().observe(), "place": self.place}


class WritesIntoItsRewards(Walkers):
    def step(self, actions):
        obs, reward, *rest = super().step(actions)
        self.reward = getattr(self, "reward", reward)
        self.reward[:] = reward
        return obs, self.reward, *rest


class HandsOutOneOfManyBuffers(Walkers):
    def __init__(self, *args):
        super().__init__(*args)
        self.ring = [np.zeros((self.num_envs, 2), np.float32) for _ in range(10)]

    def observe(self):
        self.ring.append(self.ring.pop(0))
        self.ring[-1][:] = self.place
        return {**super().observe(), "place": self.ring[-1]}


class StepsBeforeReset(Walkers):
    def step(self, actions):
        if None in self.generators:
            self.reset(seed=0)
        return super().step(actions)


class TakesAnyNumberOfActions(Walkers):
    def step(self, actions):
        return super().step(np.resize(actions, self.num_envs))


class StepsAfterClose(Walkers):
    def refuse_closed(self):
        pass


class ClosesOnce(Walkers):
    def close(self):
        self.refuse_closed()
        self.closed = True


class BatchedByHand(Walkers):
    def __init__(self, *args):
        super().__init__(*args)
        self.observation_space = batch_space(self.single_observation_space, 2)


class CountsInFloats(Walkers):
    def __init__(self, *args):
        super().__init__(*args)
        self.num_envs = 3.0


class NamesItsMode(Walkers):
    def __init__(self, *args):
        super().__init__(*args)
        self.metadata = {"autoreset_mode": "NextStep"}


FAULTS = [
    (BatchedByHand, NEXT_STEP, "spaces"),
    (CountsInFloats, NEXT_STEP, "spaces"),
    (NamesItsMode, NEXT_STEP, "metadata"),
    (observation_of_another_dtype, NEXT_STEP, "observations"),
    (observation_with_a_list_for_a_tuple, NEXT_STEP, "observations"),
    (observation_without_a_key, NEXT_STEP, "observations"),
    (observation_out_of_bounds, NEXT_STEP, "observations"),
    (rewards_in_a_list, NEXT_STEP, "rewards"),
    (rewards_of_whole_numbers, NEXT_STEP, "rewards"),
    (rewards_not_finite, NEXT_STEP, "rewards"),
    (flags_of_numbers, NEXT_STEP, "flags"),
    (flags_as_a_column, NEXT_STEP, "flags"),
    (info_without_mask, NEXT_STEP, "infos"),
    (mask_without_info, NEXT_STEP, "infos"),
    (mask_of_numbers, NEXT_STEP, "infos"),
    (info_too_short, NEXT_STEP, "infos"),
    (info_as_a_list, NEXT_STEP, "infos"),
    (final_info_without_mask, SAME_STEP, "infos"),
    (info_of_strings, NEXT_STEP, "numeric_infos"),
    (WritesIntoItsObservations, NEXT_STEP, "buffers"),
    (WritesIntoItsRewards, NEXT_STEP, "buffers"),
    (HandsOutOneOfManyBuffers, NEXT_STEP, "buffers"),
    (RewardForTheReset, NEXT_STEP, "next_step"),
    (FlagForTheReset, NEXT_STEP, "next_step"),
    (ActsInTheResetStep, NEXT_STEP, "next_step"),
    (NeverBegins, NEXT_STEP, "next_step"),
    (no_final_observation, SAME_STEP, "same_step"),
    (no_final_info, SAME_STEP, "same_step"),
    (final_mask_of_all, SAME_STEP, "same_step"),
    (final_observation_out_of_bounds, SAME_STEP, "same_step"),
    (final_observation_of_another_dtype, SAME_STEP, "same_step"),
    (final_observation_of_the_next_episode, SAME_STEP, "same_step"),
    (last_observation_for_the_first, SAME_STEP, "same_step"),
    (ResetsEverybody, DISABLED, "disabled"),
    (ResetsNobody, DISABLED, "disabled"),
    (NeverEnds, NEXT_STEP, "episodes_end"),
    (IgnoresSeeds, NEXT_STEP, "seeding"),
    (RemembersTheLastRun, NEXT_STEP, "seeding"),
    (SharesStateBetweenInstances, NEXT_STEP, "seeding"),
    (OneSeedForEver, NEXT_STEP, "seeds_differ"),
    (OneSeedForAll, NEXT_STEP, "environment_seeds"),
    (TheLastSeedIsOff, NEXT_STEP, "environment_seeds"),
    (MixesSeeds, NEXT_STEP, "environment_seeds"),
    (RefusesSeedLists, NEXT_STEP, "environment_seeds"),
    (IgnoresSeedsUnderAMask, DISABLED, "environment_seeds"),
    *((PushesTheNeighbour, mode, "independence") for mode in AutoresetMode),
    *((SharesOneGenerator, mode, "independent_episodes") for mode in (NEXT_STEP, SAME_STEP)),
    (StepsBeforeReset, NEXT_STEP, "before_reset"),
    (TakesAnyNumberOfActions, NEXT_STEP, "wrong_actions"),
    (StepsAfterClose, NEXT_STEP, "after_close"),
    (ClosesOnce, NEXT_STEP, "close"),
]


@pytest.mark.parametrize(("faulty", "mode", "check"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_planted_fault_is_found_by_the_check_named_for_it(faulty, mode, check):
    with pytest.raises(VectorEnvError) as caught:
        check_vector_env(partial(faulty, mode), strict=True, steps=100)
    assert caught.value.check == check
    assert str(caught.value).startswith(check)


def test_every_check_has_a_fault():
    assert {check for *_, check in FAULTS} == {*CONTRACT, *PROMISES}


@pytest.mark.parametrize("num_envs", [1, 2, 5])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_right_one_passes(mode, num_envs):
    check_vector_env(partial(Walkers, mode, num_envs), strict=True, steps=100)
    env = Walkers(mode, num_envs)
    check_vector_env(env, strict=True, steps=100)
    assert env.closed


def test_an_error_says_where():
    with pytest.raises(VectorEnvError, match="environment 2, step 0: the reward is nan") as caught:
        check_vector_env(rewards_not_finite())
    assert (caught.value.env_index, caught.value.step) == (2, 0)
    with pytest.raises(VectorEnvError, match=r"environment 2, step \d+: its observation changed when only .* \[0, 1\]"):
        check_vector_env(PushesTheNeighbour())


def test_a_broken_promise_is_a_warning_unless_strict():
    with pytest.warns(UserWarning, match="after_close: step"):
        check_vector_env(StepsAfterClose())
    with pytest.raises(VectorEnvError):
        check_vector_env(StepsAfterClose(), strict=True)


def test_what_is_skipped_is_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_vector_env(StepsAfterClose(), skip=["after_close"])
        check_vector_env(WritesIntoItsObservations(), reuses_buffers=True)


@pytest.mark.parametrize(
    ("wrong", "error", "named"),
    [
        ({"env": gymnasium.make("CartPole-v1")}, TypeError, "VectorEnv"),
        ({"env": lambda: None}, TypeError, "VectorEnv"),
        ({"skip": ["seed"]}, ValueError, "seeding"),
        ({"skip": "seeding"}, ValueError, "list"),
        ({"steps": 1}, ValueError, "steps"),
    ],
)
def test_wrong_arguments_are_refused_by_name(wrong, error, named):
    with pytest.raises(error, match=named):
        check_vector_env(**{"env": Walkers(), **wrong})


def test_an_error_closes_the_environment():
    env = rewards_not_finite()
    with pytest.raises(VectorEnvError):
        check_vector_env(env)
    assert env.closed


# Environments of others and ours


def broken_promises(env, **keywords):
    """The names of the checks of which a passing environment was warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_vector_env(env, **keywords)
    return {str(warning.message).split(":")[0].split(",")[0] for warning in caught} & {*PROMISES}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_gymnasiums_sync_cartpole_passes(mode):
    make = partial(gymnasium.make_vec, "CartPole-v1", 3, vectorization_mode="sync")
    found = broken_promises(partial(make, vector_kwargs={"autoreset_mode": mode}))
    assert found - {"wrong_actions"} == {"after_close"}  # the former before Gymnasium 1.2


def test_gymnasiums_batched_cartpole_passes_and_its_shared_generator_is_seen():
    found = broken_promises(partial(gymnasium.make_vec, "CartPole-v1", 3, vectorization_mode="vector_entry_point"))
    assert found == {"environment_seeds", "independent_episodes", "after_close"}


def test_gymnasiums_async_cartpole_passes():
    env = AsyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * 2, context="spawn")
    assert broken_promises(env, steps=60, skip=["wrong_actions"]) == set()


@pytest.mark.parametrize("wrapper", ["RecordEpisodeStatistics", "FlattenObservation", "NormalizeReward"])
def test_wrapped_environments_pass(wrapper):
    make = partial(gymnasium.make_vec, "CartPole-v1", 3, vectorization_mode="sync")
    wrap = getattr(gymnasium.wrappers.vector, wrapper)
    check_vector_env(wrap(make()), skip=["seeding"] if wrapper == "NormalizeReward" else [])


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([box_room("first"), box_room("second", width=10, depth=7)])


@pytest.mark.parametrize(
    "mode", [AutoresetMode.NEXT_STEP, *(pytest.param(one, marks=pytest.mark.slow) for one in tuple(AutoresetMode)[1:])]
)
def test_ours_passes_strictly_in_every_mode(mode, library, tmp_path):
    make = partial(
        BatchNavEnv,
        4,
        library=library,
        sensors=("depth", "rgb", "semantic"),
        camera=Camera(width=16, height=12),
        autoreset_mode=mode,
        episodes=50,
    )
    check_vector_env(make, strict=True, steps=100)
    if mode == NEXT_STEP:
        check_vector_env(partial(make, buffers=2), strict=True, reuses_buffers=True, steps=100)
        with pytest.raises(VectorEnvError, match="buffers"):
            check_vector_env(partial(make, buffers=2))
