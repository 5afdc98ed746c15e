"""Rollouts: the recorded data equals that of a replay."""

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.mapping.agent import MapAgent  # noqa: E402
from gym_batchnav.mapping.sensors import MapPath  # noqa: E402
from gym_batchnav.train.policy import GOAL, PREVIOUS_ACTION, make_policy  # noqa: E402
from gym_batchnav.train.rollout import Collector, rows_on  # noqa: E402

ENVS = 6
STEPS = 12
LIMIT = 7


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([box_room()])


@pytest.fixture
def make(library, opened):
    given = {"library": library, "episodes": 50, "camera": Camera(16, 16), "max_episode_steps": LIMIT}
    given |= {"autoreset_mode": "same_step", "sensors": ("depth", "rgb")}
    return lambda num_envs=ENVS, **more: opened(BatchNavEnv(num_envs, **{**given, **more}))


@pytest.fixture
def policy(make):
    """Return a small policy with non-uniform actions, which depend on memory and images."""
    torch.manual_seed(0)
    policy = make_policy("small", make().single_observation_space)
    torch.nn.init.normal_(policy.actor.weight, std=0.1)
    torch.nn.init.constant_(policy.actor.bias[:1], -1.0)  # STOP less often
    return policy


def test_the_environment_says_the_same_again(make, policy):
    collector = Collector(make(), policy, STEPS, seed=3)
    env = make()
    observation, _ = env.reset(seed=3)
    begun = np.ones(ENVS, bool)
    previous = np.zeros(ENVS, int)
    count = 0
    for _ in range(3):
        rollout = collector.collect()
        ended_spl = []
        for step, action in enumerate(rollout.actions.numpy()):
            for name in ("depth", "rgb", GOAL):
                np.testing.assert_array_equal(rollout.observations[name][step], observation[name])
            np.testing.assert_array_equal(rollout.begun[step], begun)
            np.testing.assert_array_equal(rollout.observations[PREVIOUS_ACTION][step], previous)
            observation, reward, terminated, truncated, info = env.step(action)
            np.testing.assert_allclose(rollout.rewards[step], reward, rtol=1e-6)
            begun = terminated | truncated
            previous = action.copy()
            if begun.any():
                ended_spl += list(info["final_info"]["spl"][begun])
        np.testing.assert_array_equal(rollout.episodes["spl"], ended_spl)
        count += len(ended_spl)
    assert count > ENVS


def test_learning_sees_what_acting_saw(make, policy):
    """The sequence forward of a rollout gives the values and probabilities with which its actions were chosen."""
    collector = Collector(make(), policy, STEPS, seed=1)
    last_begun = 0
    for _ in range(4):
        rollout = collector.collect()
        with torch.no_grad():
            logits, values, _ = policy(rollout.observed(slice(None)), rollout.state, rollout.begun)
        torch.testing.assert_close(values, rollout.values, rtol=1e-4, atol=1e-5)
        log_probs = logits[:-1].log_softmax(-1).gather(-1, rollout.actions[..., None]).squeeze(-1)
        torch.testing.assert_close(log_probs, rollout.log_probs, rtol=1e-4, atol=1e-5)
        assert rollout.begun[1:-1].any()
        last_begun += rollout.begun[-1].sum().item()
    assert 0 < last_begun < 4 * ENVS  # what follows the last step may begin an episode, or not


def test_time_outs_are_bootstrapped_with_their_last_observation(make, policy):
    """Only time-outs are: the value after STOP is 0, and values of earlier rollouts are cleared."""
    torch.nn.init.constant_(policy.actor.bias[:1], -0.5)
    collector = Collector(make(max_episode_steps=4), policy, STEPS, seed=2)
    fresh = make(max_episode_steps=4)
    fresh.reset(seed=2)
    for _ in range(3):
        rollout = collector.collect()
        steps = [fresh.step(actions.numpy()) for actions in rollout.actions]
        assert any(outcome[2].any() for outcome in steps) and any(outcome[3].any() for outcome in steps)
        for step, (_, _, _, truncated, info) in enumerate(steps):
            assert not rollout.bootstraps[step][torch.as_tensor(~truncated)].any()
            if not truncated.any():
                continue
            final = {name: torch.as_tensor(values)[None] for name, values in info["final_obs"].items()}
            final[PREVIOUS_ACTION] = rollout.actions[step][None]
            # The episode goes on by one more observation: the rollout's up to this step, then the final one.
            seen = {name: torch.cat([values[: step + 1], final[name]]) for name, values in rollout.observations.items()}
            begun = torch.cat([rollout.begun[: step + 1], torch.zeros(1, ENVS, dtype=torch.bool)])
            with torch.no_grad():
                _, values, _ = policy(seen, rollout.state, begun)
            found = rollout.bootstraps[step][truncated]
            np.testing.assert_allclose(found, values[-1][truncated], rtol=1e-4, atol=1e-5)


def test_it_goes_on_from_its_state(make, policy):
    one, other = (Collector(make(), policy, 5, seed=seed) for seed in (0, 9))
    one.collect(), other.collect()
    state = one.get_state()
    expected = one.collect()
    other.set_state(state)
    found = other.collect()
    for name in ("actions", "rewards", "values", "begun", "state", "log_probs"):
        assert torch.equal(getattr(expected, name), getattr(found, name)), name


def test_only_a_batch_that_resets_in_the_same_step_is_learned_in_and_time_is_counted(make, policy):
    with pytest.raises(ValueError, match="autoreset_mode='same_step'"):
        Collector(make(autoreset_mode="next_step"), policy, 3)
    collector = Collector(make(), policy, 3)
    collector.collect()
    assert collector.seconds.keys() == {"simulate", "render", "infer"} and min(collector.seconds.values()) > 0


def test_without_bootstrapping_a_time_out_is_worth_nothing(make, policy):
    rollout = Collector(make(max_episode_steps=4), policy, STEPS, bootstrap_timeouts=False).collect()
    assert rollout.begun[1:].any() and not rollout.bootstraps.any()


class IndexedAtHome(torch.Tensor):
    """A CPU tensor that accepts only CPU indices, as torch requires."""

    num_indexed = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.__getitem__:
            cls.num_indexed += 1
            if isinstance(args[1], torch.Tensor) and args[1].device.type != "cpu":
                raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        return super().__torch_function__(function, types, args, kwargs or {})


def test_rows_are_selected_where_the_values_are():
    """The policy is on a GPU, the observations are on the CPU; the device "meta" takes the place of the GPU."""
    values = torch.arange(12.0).reshape(4, 3)
    rows = np.array([1, 3])
    found = rows_on(values.as_subclass(IndexedAtHome), rows, torch.device("meta"))
    assert IndexedAtHome.num_indexed == 1 and found.device.type == "meta" and found.shape == (2, 3)
    for given in (values, values.numpy()):
        assert rows_on(given, rows, torch.device("cpu")).tolist() == [[3, 4, 5], [9, 10, 11]]


def test_actions_are_drawn_with_the_policys_probabilities(make, policy):
    rollout = Collector(make(32, max_episode_steps=500), policy, 20, seed=0).collect()
    with torch.no_grad():
        logits, *_ = policy(rollout.observed(slice(None, -1)), rollout.state, rollout.begun[:-1])
    expected = logits.softmax(-1).mean((0, 1))
    found = torch.bincount(rollout.actions.flatten(), minlength=4) / rollout.num_frames
    np.testing.assert_allclose(found, expected, atol=4 * (0.25 / rollout.num_frames) ** 0.5)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_expert_takes_its_share(make, policy, share):
    collector = Collector(make(max_episode_steps=500), policy, 60, seed=0, teacher="follower")
    rollout = collector.collect(share)
    env = make(max_episode_steps=500)
    env.reset(seed=0)
    for step in range(60):
        np.testing.assert_array_equal(rollout.taught[step].argmax(-1), env.shortest_path_actions())
        env.step(rollout.actions[step].numpy())
    agreed = (rollout.actions == rollout.taught.argmax(-1)).float().mean().item()
    if share == 1.0:
        assert agreed == 1 and rollout.episodes["success"].all() and len(rollout.episodes["success"])
    else:
        own = collector.collect(0.0)
        chance = (own.actions == own.taught.argmax(-1)).float().mean().item()
        assert agreed == pytest.approx(share + (1 - share) * chance, abs=0.15)


def test_the_mapper_teaches_what_it_would_do_itself(make):
    env = make(max_episode_steps=500, sensors=("depth", MapPath()))
    policy = make_policy("small", env.single_observation_space)
    rollout = Collector(env, policy, 40, seed=0, teacher="mapper").collect(1.0)
    assert (rollout.actions == rollout.taught.argmax(-1)).all()
    again = make(max_episode_steps=500, sensors=("depth", MapPath()))
    observation, _ = again.reset(seed=0)
    agent = MapAgent()
    agent.reset(again)
    for step in range(40):
        actions = agent.act(again, observation, np.zeros(again.num_envs, bool))
        np.testing.assert_array_equal(rollout.taught[step].argmax(-1), actions)
        observation, *_ = again.step(actions)
    with pytest.raises(ValueError, match="add MapPath"):
        Collector(make(), policy, 40, teacher="mapper")


def test_without_imitation_there_is_no_teacher(make, policy):
    collector = Collector(make(), policy, STEPS)
    assert not collector.collect().taught.any()
    with pytest.raises(ValueError, match="pass teacher="):
        collector.collect(0.5)


def test_agents_that_wait_for_others_are_marked(make, policy):
    env = make(8, agents_per_world=(2, 4), sensors=("depth", "rgb"))
    collector = Collector(env, policy, num_steps=STEPS, seed=3)
    again = make(8, agents_per_world=(2, 4))
    _, info = again.reset(seed=3)
    seen = {"waited": 0, "episodes": 0}
    for _ in range(3):
        rollout = collector.collect()
        waiting = [info["waiting"]]
        episodes = 0
        for action in rollout.actions.numpy():
            took_part = again.worlds.took_part()
            _, reward, terminated, truncated, info = again.step(action)
            waiting.append(info["waiting"])
            episodes += ((terminated | truncated) & took_part).sum()
            assert (reward[waiting[-2]] == 0).all()
        np.testing.assert_array_equal(rollout.waiting.numpy(), waiting)
        assert len(rollout.episodes["success"]) == episodes
        seen["waited"] += np.sum(waiting)
        seen["episodes"] += episodes
    assert seen["waited"] > 20 and seen["episodes"] > 5
