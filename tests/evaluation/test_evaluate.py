"""Evaluation: every episode once, agents with known scores, intervals that contain the true mean."""

from dataclasses import replace

import numpy as np
import pytest
from furnished import furnished
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.evaluation.agents import STOP_CHANCE, RandomAgent, ShortestPathAgent  # noqa: E402
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes, evaluate  # noqa: E402
from gym_batchnav.evaluation.intervals import bootstrap, estimates  # noqa: E402
from gym_batchnav.evaluation.report import episode_table  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.task.objectnav import ObjectNav  # noqa: E402
from gym_batchnav.train.policy import make_policy  # noqa: E402
from gym_batchnav.train.policy_agent import PolicyAgent  # noqa: E402

PER_SCENE = 9
LIMIT = 60


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([box_room("wide"), box_room("narrow", width=5.0), box_room("long", depth=9.0)])


@pytest.fixture
def make(library, opened):
    given = {"library": library, "episodes": PER_SCENE, "camera": Camera(16, 16), "max_episode_steps": LIMIT}
    return lambda num_envs=8, **more: opened(BatchNavEnv(num_envs, **{**given, **more}))


@pytest.fixture
def policy(make):
    """Return a small policy that depends on memory and previous action, and sometimes stops."""
    torch.manual_seed(1)
    policy = make_policy("small", make().single_observation_space)
    with torch.no_grad():
        policy.core.cells.bias_ih_l0.normal_()
        policy.core.cells.weight_hh_l0.mul_(3)
        policy.action_embedding.weight.mul_(10)
        torch.nn.init.orthogonal_(policy.actor.weight)
        policy.actor.bias[0] = 0.2
    return policy


class TableAgent:
    """An agent that calls STOP after as many steps as the number of the episode."""

    def reset(self, env):
        self.step = np.zeros(env.num_envs, int)

    def act(self, env, observation, begun):
        self.step = np.where(begun, 0, self.step) + 1
        number = env.simulator.schedule.index(env.agents.slot, env.episodes.episode)
        return np.where(self.step > number, 0, 2)


def rows_of(episodes: EvaluatedEpisodes):
    rest = {name: getattr(episodes, name) for name in EvaluatedEpisodes.__dataclass_fields__ if name != "measures"}
    return {**rest, **episodes.measures}


def assert_same(one: EvaluatedEpisodes, other: EvaluatedEpisodes):
    for name, values in rows_of(one).items():
        np.testing.assert_array_equal(values, rows_of(other)[name], err_msg=name)


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("num_envs", [1, 4, 40])
def test_every_episode_runs_once_and_is_told_when_it_begins(make, mode, num_envs):
    episodes = evaluate(make(num_envs, autoreset_mode=mode, sensors=()), TableAgent())
    numbers = np.arange(3 * PER_SCENE)
    np.testing.assert_array_equal(episodes.episode_index, numbers)
    np.testing.assert_array_equal(episodes.scene_index, numbers // PER_SCENE)
    np.testing.assert_array_equal(episodes.num_steps, numbers + 1)
    np.testing.assert_array_equal(episodes.path_length, 0)
    np.testing.assert_allclose(episodes.distance_to_goal, episodes.start_distance, rtol=1e-6)
    assert not episodes.success.any()


class Patient:
    """The second agent of a world calls STOP in its third step, all others in their first."""

    def reset(self, env):
        self.steps_left = 40 * 3 * PER_SCENE

    def act(self, env, observation, begun):
        self.steps_left -= 1
        assert self.steps_left, "the evaluation does not end"
        return np.where((np.arange(env.num_envs) % 2 == 1) & (env.episodes.num_steps < 2), 2, 0)


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("agents", [2, (1, 2)])
def test_every_episode_runs_once_in_shared_worlds_and_waiting_is_no_step(make, agents, mode):
    env = make(8, agents_per_world=agents, sensors=(), autoreset_mode=mode)
    episodes = evaluate(env, Patient())
    numbers, counts = np.unique(episodes.num_steps, return_counts=True)
    np.testing.assert_array_equal(numbers, [1, 3])
    assert counts[0] == 3 * PER_SCENE and (counts[1] == counts[0] if agents == 2 else 0 < counts[1] < counts[0])
    np.testing.assert_array_equal(episodes.episode_index[episodes.num_steps == 1], np.arange(3 * PER_SCENE))


def test_only_the_first_episodes_of_each_scene_are_taken(make):
    """This includes long ones, although other episodes of the batch end earlier."""
    seen = []
    episodes = evaluate(make(5, sensors=()), TableAgent(), 4, progress=seen.append)
    expected = np.concatenate([scene * PER_SCENE + np.arange(4) for scene in range(3)])
    np.testing.assert_array_equal(episodes.episode_index, expected)
    assert sum(seen) == len(expected) and min(seen) >= 0


@pytest.mark.parametrize("seed", [None, 5])
def test_the_size_of_the_batch_does_not_matter(make, policy, seed):
    few = evaluate(make(3), PolicyAgent(policy, seed))
    assert_same(few, evaluate(make(16), PolicyAgent(policy, seed)))
    assert_same(few, evaluate(make(5, autoreset_mode="same_step"), PolicyAgent(policy, seed)))
    assert len(np.unique(few.num_steps)) > 5 and (few.num_steps < LIMIT).any()


def test_a_policy_acts_as_in_a_batch_of_one(make, policy):
    """Its memory is reset in each episode, and it receives its previous action."""
    episodes = evaluate(make(4), PolicyAgent(policy))
    env = make(1)
    for number in (0, 10, 20):
        observation, _ = env.reset(options={"episode_index": [number]})
        state = policy.initial_state(1)
        previous = torch.zeros(1).long()
        begun = True
        num_steps = 0
        done = False
        while not done:
            seen = {name: torch.as_tensor(values) for name, values in observation.items()}
            with torch.no_grad():
                logits, _, state = policy({**seen, "previous_action": previous}, state, torch.tensor([begun]))
            previous = logits.argmax(-1)
            begun = False
            num_steps += 1
            observation, _, terminated, truncated, _ = env.step(previous.numpy())
            done = (terminated | truncated)[0]
        assert num_steps == episodes.num_steps[number]
        assert env.episodes.path_length[0] == episodes.path_length[number]


def test_samples_have_the_policys_probabilities(make, policy):
    torch.nn.init.zeros_(policy.actor.weight)
    shares = np.array([0.1, 0.5, 0.15, 0.25])
    policy.actor.bias.data = torch.tensor(np.log(shares), dtype=torch.float32)
    env = make(200, sensors=("depth",), max_episode_steps=500)
    agent = PolicyAgent(policy, sample_seed=1)
    observation, _ = env.reset(seed=0)
    agent.reset(env)
    actions = []
    for step in range(40):
        actions.append(agent.act(env, observation, np.full(200, step == 0)))
        observation, *_ = env.step(np.full(200, 2))
    # Environments that run the same episode draw the same: fewer draws than actions.
    np.testing.assert_allclose(np.bincount(np.ravel(actions), minlength=4) / 8000, shares, atol=0.06)


def test_the_follower_is_near_perfect_and_the_random_agent_is_not(make):
    follower = evaluate(make(sensors=(), max_episode_steps=500), ShortestPathAgent())
    chance = evaluate(make(sensors=(), max_episode_steps=500), RandomAgent(1))
    assert follower.success.all() and follower.spl.mean() > 0.97
    assert chance.spl.mean() < 0.1 and chance.collisions_count.sum() > 100
    assert 0.4 / STOP_CHANCE < chance.num_steps.mean() < 1.6 / STOP_CHANCE
    np.testing.assert_allclose(
        follower.spl, follower.start_distance / np.maximum(follower.start_distance, follower.path_length), rtol=1e-5
    )


def test_the_seed_decides_what_the_random_agent_does(make):
    one, same, other = (evaluate(make(n, sensors=()), RandomAgent(seed)) for n, seed in ((3, 1), (9, 1), (3, 2)))
    assert_same(one, same)
    assert (one.path_length != other.path_length).mean() > 0.5


def test_what_cannot_be_evaluated_is_refused(make, policy):
    with pytest.raises(ValueError, match=r"10 episodes of scene 'wide', which has only 9.*pass a smaller"):
        evaluate(make(sensors=()), ShortestPathAgent(), 10)
    with pytest.raises(ValueError, match="episodes_per_scene=-1: pass a whole number"):
        evaluate(make(sensors=()), ShortestPathAgent(), -1)
    with pytest.raises(ValueError, match="pass those of at least one run, with at least one episode"):
        estimates(EvaluatedEpisodes(*[np.zeros(0, int)] * 5, measures={}))
    with pytest.raises(TypeError, match="pass an object with reset and act, or a function"):
        evaluate(make(sensors=()), "follower")
    with pytest.raises(ValueError, match=r"needs the images depth, which .* make it with sensors=\('depth',\)"):
        evaluate(make(sensors=("rgb",)), PolicyAgent(policy))


def test_results_show_and_estimate_their_means_and_list_their_measures(make):
    episodes = evaluate(make(sensors=()), RandomAgent())
    assert set(episodes.measures) < set(dir(episodes)) and "num_steps" in dir(episodes)
    shown = repr(episodes)
    assert shown.startswith(f"EvaluatedEpisodes({len(episodes)} episodes, ") and "\n" not in shown
    assert f"soft_spl={np.mean(episodes.soft_spl):.4g}" in shown
    one = EvaluatedEpisodes(*[np.zeros(1, int)] * 5, measures={"spl": np.array([0.25])})
    none = EvaluatedEpisodes(*[np.zeros(0, int)] * 5, measures={"spl": np.zeros(0)})
    assert repr(one) == "EvaluatedEpisodes(1 episode, spl=0.25)" and repr(none) == "EvaluatedEpisodes(0 episodes)"
    found = estimates(episodes)
    for name, estimate in found.items():
        assert estimate.mean == pytest.approx(np.mean(getattr(episodes, name)))
        assert estimate.low <= estimate.mean <= estimate.high
    assert found == estimates(episodes) != estimates(episodes, seed=1)
    assert found["soft_spl"].low < found["soft_spl"].high


@pytest.mark.parametrize("spread", [0.0, 0.08])
def test_intervals_hold_the_truth(spread):
    """Nominal 95% intervals must contain the mean in at least 91%; they may be too wide if scenes do not differ."""
    rng = np.random.default_rng(0)
    scenes = np.repeat(np.arange(12), 15)
    truth = 0.8
    held = []
    for trial in range(300):
        chance = np.clip(truth + spread * rng.choice([-1, 1], 12), 0, 1)[scenes]
        found = bootstrap({"success": rng.random(len(scenes)) < chance}, scenes, seed=trial, resamples=200)["success"]
        held.append(found.low <= truth <= found.high)
    assert 0.91 <= np.mean(held) <= 0.999


def test_scenes_that_differ_widen_the_interval():
    """Compare equal numbers of successes, spread over all scenes and concentrated in half of them."""
    scene = np.repeat(np.arange(10), 20)
    alike = np.tile([0.0, 1.0], 100)
    apart = (scene % 2).astype(float)
    found = bootstrap({"alike": alike, "apart": apart}, scene)
    assert found["alike"].mean == found["apart"].mean == 0.5
    assert found["apart"].high - found["apart"].low > 2 * (found["alike"].high - found["alike"].low)


def test_one_scene_is_resampled_by_episodes():
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 2.0, 400)
    found = bootstrap({"steps": values}, np.zeros(400, int))["steps"]
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_scenes_of_different_sizes_count_by_their_episodes():
    scene = np.array([0] * 90 + [7] * 10)
    values = np.where(scene == 0, 1.0, 0.0)
    shuffled = np.random.default_rng(0).permutation(100)
    found = bootstrap({"x": values[shuffled]}, scene[shuffled])["x"]
    assert found.mean == 0.9 and found.low == 0.0 and found.high == 1.0


def test_the_table_has_the_categories_of_goals(make):
    library = SceneLibrary.from_scenes([furnished()])
    env = make(4, library=library, task=ObjectNav(("crate", "table")), sensors=())
    episodes = replace(evaluate(env, RandomAgent()), num_steps=np.full(env.num_episodes, 1_234_567))
    _, *rows = (row.split(",") for row in episode_table(env, {"": episodes}).splitlines())
    assert {row[-2] for row in rows} == {"1234567"}  # whole numbers keep all digits
    numbers = env.simulator.episode_set(0).category
    assert [row[3] for row in rows] == [env.task.categories[number] for number in numbers]
    assert len({row[3] for row in rows}) > 1
