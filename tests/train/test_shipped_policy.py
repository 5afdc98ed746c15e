"""The shipped policies: file sizes and scores. CI evaluates all 500 episodes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.evaluation.agents import RandomAgent  # noqa: E402
from gym_batchnav.evaluation.comparison import SMALL_HOMES  # noqa: E402
from gym_batchnav.evaluation.evaluate import evaluate  # noqa: E402
from gym_batchnav.library.sources import assets_dir  # noqa: E402
from gym_batchnav.task.sensors import WalkScan  # noqa: E402
from gym_batchnav.train.curve import read_rows  # noqa: E402
from gym_batchnav.train.policy_agent import PolicyAgent  # noqa: E402
from gym_batchnav.train.policy_file import load_policy  # noqa: E402

DEPTH, MAP, SCAN, BLIND = (assets_dir() / f"pointnav_{name}.safetensors" for name in ("depth", "map", "scan", "blind"))


class Misled(PolicyAgent):
    """Acts on the depth images of other agents."""

    def act(self, env, observation, begun):
        return super().act(env, {**observation, "depth": np.roll(observation["depth"], 1, axis=0)}, begun)


def test_they_are_small_and_only_one_reads_a_map():
    assert DEPTH.stat().st_size + MAP.stat().st_size + BLIND.stat().st_size < 8 * 2**20
    (depth, about), (_, about_map), (_, about_blind) = map(load_policy, (DEPTH, MAP, BLIND))
    assert (about.kind, about_map.kind, about_blind.kind) == ("compact", "small", "blind")
    assert about.sensors == ("depth",) and depth.task_sensors == ("pointgoal_with_gps_compass",)
    assert "map_path" in about_map.other_sensors
    for path, one in ((DEPTH, about), (MAP, about_map)):
        assert one.preset == path.stem and read_rows(path.with_suffix(".jsonl"))[-1]["frames"] == one.frames


@pytest.mark.slow
def test_sight_is_used_in_homes_that_no_policy_saw():
    policy, about = load_policy(DEPTH)
    env = BatchNavEnv(24, episodes=4, scenes=SMALL_HOMES[:6], **about.env_keywords())
    agents = PolicyAgent(policy), Misled(policy), PolicyAgent(load_policy(BLIND)[0])
    sees, misled, blind = (evaluate(env, agent) for agent in agents)
    env.close()
    assert len(sees) == len(blind) == 24
    assert sees.success.mean() >= 0.85 and sees.spl.mean() >= 0.75
    assert sees.spl.mean() >= blind.spl.mean() + 0.1
    assert misled.spl.mean() <= blind.spl.mean()


@pytest.mark.slow
def test_the_policy_with_a_map_reaches_its_goals():
    policy, about = load_policy(MAP)
    env = BatchNavEnv(24, episodes=4, scenes=SMALL_HOMES[:6], **about.env_keywords())
    results = evaluate(env, PolicyAgent(policy))
    env.close()
    assert results.success.mean() >= 0.9 and results.spl.mean() >= 0.85


@pytest.mark.slow
def test_a_scan_tells_in_the_apartments():
    policy, about = load_policy(SCAN)
    env = BatchNavEnv(40, scenes=("apartments",), **about.env_keywords())
    scans, blind = (evaluate(env, PolicyAgent(one), 5) for one in (policy, load_policy(BLIND)[0]))
    env.close()
    assert scans.success.mean() >= 0.8 and scans.spl.mean() >= blind.spl.mean() + 0.2


@pytest.mark.parametrize("name", ["pointnav_scan", "explore_scan"])
def test_policies_that_are_named_after_a_scan_read_it(name):
    policy, about = load_policy(assets_dir() / f"{name}.safetensors")
    assert about.kind == "scan" and about.task_sensors["walk_scan"] == WalkScan().num_directions
    assert "walk_scan" in policy.task_sensors and "walk_scan" in about.other_sensors and about.sensors == ()


@pytest.mark.slow
def test_the_explorer_visits_more_cells_than_random_actions():
    policy, about = load_policy(assets_dir() / "explore_scan.safetensors")
    env = BatchNavEnv(16, scenes=("apartments",), **about.env_keywords())
    explores, random = (evaluate(env, agent, 2) for agent in (PolicyAgent(policy, 0), RandomAgent(0)))
    env.close()
    assert explores.cells_visited.mean() >= 2 * random.cells_visited.mean()
