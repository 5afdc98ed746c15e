"""Training and evaluation with tasks other than PointNav."""

import copy

import numpy as np
import pytest
from furnished import CATEGORIES, furnished
from gymnasium.spaces import Box, Dict, Discrete

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from gym_batchnav.actions.discrete import DiscreteActions  # noqa: E402
from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.evaluation.agents import RandomAgent  # noqa: E402
from gym_batchnav.evaluation.evaluate import evaluate  # noqa: E402
from gym_batchnav.evaluation.intervals import bootstrap, estimates  # noqa: E402
from gym_batchnav.evaluation.report import episode_table, figures  # noqa: E402
from gym_batchnav.evaluation.world import policy_about  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.task.api import Measure, Sensor  # noqa: E402
from gym_batchnav.task.explore import Explore  # noqa: E402
from gym_batchnav.task.imagenav import ImageGoal, InstanceImageNav  # noqa: E402
from gym_batchnav.task.multigoal import MultiGoalNav  # noqa: E402
from gym_batchnav.task.objectnav import ObjectNav  # noqa: E402
from gym_batchnav.task.pointnav import PointNav  # noqa: E402
from gym_batchnav.task.sensors import GPS, PreviousAction, WalkScan  # noqa: E402
from gym_batchnav.task.socialnav import SocialNav  # noqa: E402
from gym_batchnav.train.policy import (  # noqa: E402
    PREVIOUS_ACTION,
    VectorEmbedding,
    make_policy,
    num_categories,
)
from gym_batchnav.train.policy_agent import PolicyAgent, load_agent  # noqa: E402
from gym_batchnav.train.policy_file import load_policy, save_policy  # noqa: E402
from gym_batchnav.train.ppo import PPO, PPOConfig  # noqa: E402
from gym_batchnav.worlds.people import People  # noqa: E402

CAMERA = Camera(16, 16)


class Nothing(Measure):
    name = "nothing"
    at_end = True

    def measure(self, state):
        return np.full(state.num_envs, np.nan)


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([furnished()])


@pytest.fixture
def make(library, opened):
    keywords = {"library": library, "episodes": 12, "max_episode_steps": 10, "sensors": (), "task": Explore()}
    return lambda num_envs=4, **more: opened(BatchNavEnv(num_envs, **{**keywords, "camera": CAMERA, **more}))


def identity(box):
    """Return an embedding whose first numbers are its inputs."""
    embedding = VectorEmbedding(box)
    with torch.no_grad():
        embedding.linear.weight.copy_(torch.eye(32, *box.shape))
        embedding.linear.bias.zero_()
    return embedding


class TestReadings:
    def test_bounded_ones_come_to_lie_between_minus_one_and_one(self):
        read = identity(Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32)))
        np.testing.assert_allclose(read(torch.tensor([[-2, 0], [1, 10.0]]))[:, :2].detach(), [[-1, -1], [0.5, 1]])
        read = identity(Box(0, 4, (2,), np.int64))
        np.testing.assert_allclose(read(torch.tensor([[4, 1]]))[0, :2].detach(), [1, -0.5])

    @pytest.mark.parametrize("bound", [np.inf, np.finfo(np.float32).max])
    def test_others_are_compressed_alike_on_both_sides(self, bound):
        read = identity(Box(-bound, bound, (3,), np.float32))
        found = read(torch.tensor([[0, np.e - 1, -1e6]]))[0, :3].detach()
        np.testing.assert_allclose(found, [0, 1, -np.log(1e6 + 1)], rtol=1e-5)

    def test_rows_of_readings_follow_each_other(self):
        box = Box(-4, 4, (2, 3), np.float32)
        policy = make_policy("blind", Dict({"players": box}))
        (embedding,) = policy.vector_embeddings
        rows = torch.arange(24.0).reshape(2, 2, 2, 3) / 6 - 2  # two steps of two agents
        torch.testing.assert_close(embedding(rows), embedding.linear(rows.reshape(2, 2, 6) / 4))
        with pytest.raises(ValueError, match=r"'players'.*\(K,\) or \(R, K\)"):
            make_policy("blind", Dict({"players": Box(-4, 4, (2, 3, 1), np.float32)}))

    def test_a_category_has_a_row_of_its_own(self):
        policy = make_policy("blind", Dict({"objectgoal": Box(2, 7, (1,), np.int64)}))
        (embedding,) = policy.vector_embeddings
        assert embedding.rows.weight.shape == (6, 32)
        found = embedding(torch.tensor([[[2], [7]], [[4], [2]]]))
        torch.testing.assert_close(found, embedding.rows.weight[torch.tensor([[0, 5], [2, 0]])])

    @pytest.mark.parametrize(
        ("box", "count"),
        [
            (Box(0, 999, (1,), np.int64), 1000),
            (Box(-3, 3, (1,), np.int8), 7),
            (Box(0, 1000, (1,), np.int64), 0),
            (Box(-(2**63), 2**63 - 1, (1,), np.int64), 0),
            (Box(0, 4, (2,), np.int64), 0),
            (Box(0, 4, (1,), np.float32), 0),
            (Box(0, 4, (1, 1), np.int64), 0),
        ],
    )
    def test_single_integers_with_few_values_are_categories(self, box, count):
        assert num_categories(box) == count

    @pytest.mark.parametrize("odd", [Box(0, 1, (3, 3, 3)), Box(0, 1, ()), Discrete(4)])
    def test_a_sensor_that_it_cannot_read_is_refused(self, odd):
        with pytest.raises(ValueError, match=r"'odd'.*shape \(K,\)"):
            make_policy("blind", Dict({"odd": odd}))

    def test_a_policy_heeds_each_sensor(self):
        space = Dict({"values": Box(-1, 1, (3,)), "gps": GPS().space, "pointgoal_with_gps_compass": Box(-9, 9, (2,))})
        policy = make_policy("blind", space)
        torch.nn.init.normal_(policy.actor.weight)
        observation = {name: torch.zeros(2, *box.shape) for name, box in space.spaces.items()}
        observation[PREVIOUS_ACTION] = torch.zeros(2, dtype=torch.int64)
        begun = torch.ones(2, dtype=torch.bool)
        plain, *_ = policy(observation, policy.initial_state(2), begun)
        for name in space.spaces:
            changed, *_ = policy({**observation, name: observation[name] + 0.5}, policy.initial_state(2), begun)
            assert (changed != plain).any(), name


class TestLearning:
    def test_a_task_without_success_is_learned_from_and_told_by_its_own_measures(self, make):
        env = make(8, autoreset_mode="same_step", sensors=("depth", PreviousAction()), measures=(Nothing(),))
        policy = make_policy("small", env.single_observation_space)
        report = PPO(env, policy, PPOConfig(total_frames=1000, num_steps=25)).iterate()
        assert set(report.episodes) == {"cells_visited", "path_length", "collisions_count", "nothing"}
        assert len(report.episodes["cells_visited"]) == 16 and (report.episodes["cells_visited"] >= 1).all()

    def test_nobody_imitates_a_follower_to_an_unknown_goal(self, make):
        env = make(autoreset_mode="same_step")
        with pytest.raises(ValueError, match=r"agents of Explore do not observe.*in Python add PointGoal"):
            PPO(env, make_policy("blind", env.single_observation_space), PPOConfig(imitation_share=0.5))


class TestEvaluation:
    def test_measures_are_the_tasks_own_and_nan_does_no_harm(self, make):
        env = make(measures=(Nothing(),))
        episodes = evaluate(env, RandomAgent())
        assert len(episodes) == 12 and set(episodes.measures) == set(env.components.measures)
        assert episodes.cells_visited.dtype == np.int64 and (episodes.num_steps == 10).all()
        found = estimates(episodes)
        assert found["cells_visited"].low <= episodes.cells_visited.mean() <= found["cells_visited"].high
        assert np.isnan(found["nothing"].mean) and np.isnan(figures(found)["nothing_interval"]).all()
        header, *rows = episode_table(env, {"random": episodes}).splitlines()
        assert "cells_visited,path_length,collisions_count,nothing,num_steps" in header
        assert len(rows) == 12 and all(",nan," in row for row in rows)
        with pytest.raises(AttributeError, match="spl"):
            episodes.spl  # noqa: B018
        assert copy.copy(episodes).measures is episodes.measures  # a copy has no measures while it is made

    def test_numbers_that_are_not_finite_spoil_their_own_column_only(self):
        values = {"good": np.arange(6.0), "bad": np.array([0, 1, np.inf, -np.inf, 2, 3])}
        with np.errstate(all="raise"):
            found = bootstrap(values, np.repeat([0, 1], 3))
        assert found["good"].mean == 2.5 and np.isnan([found["bad"].mean, found["bad"].low, found["bad"].high]).all()

    def test_measures_named_like_columns_of_the_table_are_refused(self, make):
        class Steps(Nothing):
            name = "num_steps"

        with pytest.raises(ValueError, match=r"measures \['num_steps'\].*rename"):
            evaluate(make(measures=(Steps(),)), RandomAgent())

    def test_a_policy_is_told_what_its_environment_lacks(self, make):
        policy = make_policy("blind", make().single_observation_space)
        with pytest.raises(ValueError, match=r"reads compass, gps.*task"):
            evaluate(make(task=PointNav()), PolicyAgent(policy))


def test_another_world_than_that_of_the_training_is_refused_or_allowed(make, tmp_path):
    env = make(task=PointNav(success_distance=0.5), sliding=False, actions=DiscreteActions(forward_step=0.5))
    policy = make_policy("blind", env.single_observation_space)
    save_policy(tmp_path / "a.safetensors", policy, policy_about(env, "blind", "mine", 0, 0))
    loaded, about = load_policy(tmp_path / "a.safetensors")
    same = make(**about.env_keywords())
    assert same.task == PointNav(success_distance=0.5) and not same.simulator.sliding
    assert len(evaluate(same, PolicyAgent(loaded, about=about))) == 12
    other = make(task=PointNav())
    with pytest.raises(
        ValueError, match=r"forward_step is 0\.25.*sliding is True.*success_distance is 0\.2.*allow_mismatch"
    ):
        evaluate(other, PolicyAgent(loaded, about=about))
    agent, _ = load_agent(tmp_path / "a.safetensors", allow_mismatch=True)
    assert len(evaluate(other, agent)) == 12


class Traffic(Sensor):
    """A light that is a category, a grid of distances, a picture and counts."""

    def __init__(self, name, space):
        self.name, self.space = name, space

    def observe(self, state):
        rows = [np.random.default_rng(seed).integers(1, 4, self.space.shape) for seed in range(state.num_envs)]
        return np.stack(rows).astype(self.space.dtype)


class Crossing(PointNav):
    @property
    def sensors(self):
        return (
            *PointNav().sensors,
            Traffic("light", Box(1, 3, (1,), np.int64)),
            Traffic("grid", Box(0, 9, (3, 4), np.float32)),
            Traffic("counts", Box(0, 90, (9,), np.int32)),
            Traffic(ImageGoal.name, Box(0, 255, (16, 16, 3), np.uint8)),
        )


@pytest.mark.parametrize(
    ("kind", "keywords"),
    [
        ("blind", {"task": SocialNav(), "bodies": (People(4),)}),
        ("scan", {"task": Crossing(), "sensors": (WalkScan(8),)}),
        ("small", {"task": Crossing(), "sensors": ("rgb",)}),
        *(
            ("small", {"task": task, "sensors": ("rgb",)})
            for task in (ObjectNav(CATEGORIES), InstanceImageNav(CAMERA, CATEGORIES), MultiGoalNav())
        ),
        ("blind", {"task": PointNav(), "sensors": (Traffic("light", Box(-4, 5, (1,), np.int32)),)}),
    ],
)
def test_policies_of_any_task_act_as_before_they_were_saved(kind, keywords, make, tmp_path):
    env = make(**keywords)
    env.reset(seed=0)
    policy = make_policy(kind, env.single_observation_space)
    torch.nn.init.normal_(policy.actor.weight)
    save_policy(tmp_path / "a.safetensors", policy, policy_about(env, kind, "cpu", 1, 2))
    loaded, about = load_policy(tmp_path / "a.safetensors")
    acted = []
    for agent in (PolicyAgent(policy), PolicyAgent(loaded, about=about)):
        observation, _ = env.reset(seed=0)
        agent.reset(env)
        actions = []
        for step in range(6):
            actions.append(agent.act(env, observation, np.full(env.num_envs, step == 0)))
            observation = env.step(actions[-1])[0]
        acted.append(actions)
    np.testing.assert_array_equal(*acted)


def test_sensors_that_no_policy_can_read_do_not_disturb_one_that_does_not_need_them(make, tmp_path):
    policy = make_policy("blind", make(task=PointNav()).single_observation_space)
    save_policy(tmp_path / "a.safetensors", policy, policy_about(make(task=PointNav()), "blind", "cpu", 1, 2))
    loaded, about = load_policy(tmp_path / "a.safetensors")
    env = make(task=PointNav(), sensors=(Traffic("cube", Box(0, 9, (2, 2, 2, 2))), Traffic("one", Discrete(4))))
    observation, _ = env.reset(seed=0)
    agent = PolicyAgent(loaded, about=about)
    agent.reset(env)
    assert agent.act(env, observation, np.ones(env.num_envs, bool)).shape == (env.num_envs,)
