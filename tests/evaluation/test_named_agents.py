"""Agents by name: of this package, and of modules of one's own."""

from pathlib import Path

import numpy as np
import pytest

from gym_batchnav.collect.policies import choose_policy
from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
from gym_batchnav.evaluation.named_agents import agent_file, is_in_module, named_agent, user_file
from gym_batchnav.library.sources import assets_dir
from gym_batchnav.mapping.agent import MapAgent

SOURCE = """
import numpy as np

class Old:
    def reset(self, env): ...

    def act(self, observation): ...

def stop(observation):
    return np.zeros(len(observation["goal"]), int)

class Agent:
    def reset(self, env):
        pass
    def act(self, env, observation, begun):
        return begun

class Needy(Agent):
    def __init__(self, size):
        pass

number = 3
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A module and a package in the working directory."""
    (tmp_path / "own_agents_a.py").write_text(SOURCE)
    (tmp_path / "own_agents_b").mkdir()
    (tmp_path / "own_agents_b" / "__init__.py").write_text("")
    (tmp_path / "own_agents_b" / "inner.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)


def test_agents_are_found_by_name():
    assert isinstance(named_agent("follower"), ShortestPathAgent)
    assert isinstance(named_agent("mapper"), MapAgent)
    random = named_agent("random", seed=7)
    assert isinstance(random, RandomAgent) and random.seed == 7


@pytest.mark.parametrize("name", ["follower", "mapper", "random"])
def test_the_name_of_an_agent_means_no_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(b"no policy")
    (tmp_path / "other").write_bytes(b"no policy")
    assert agent_file(name) is None and agent_file("missing") is None
    assert agent_file("other") == Path("other") and agent_file(f"./{name}") == Path(name)
    assert user_file(name) is None and user_file("missing") is None and user_file("other") == Path("other")
    assert type(choose_policy(name, 0).agent) is type(named_agent(name))


def test_the_name_of_a_shipped_policy_means_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pointnav_depth").write_bytes(b"no policy")
    assert agent_file("pointnav_depth") == assets_dir() / "pointnav_depth.safetensors"
    assert agent_file("./pointnav_depth") == Path("pointnav_depth")
    assert user_file("pointnav_depth") is None and user_file("./pointnav_depth") == Path("pointnav_depth")


@pytest.mark.parametrize("module", ["own_agents_a", "own_agents_b.inner"])
def test_functions_classes_and_dotted_modules(modules, module):
    actions = named_agent(f"{module}:stop").act(None, {"goal": np.zeros(3)}, None)
    np.testing.assert_array_equal(actions, np.zeros(3))
    agent = named_agent(f"{module}:Agent")
    assert agent.act(None, None, 5) == 5


def test_names_without_an_agent_are_refused(modules):
    for name, match in (
        ("folower", "nor a file: pass 'follower', 'mapper', .*shipped policy .explore_scan, pointnav_.*'module:n"),
        ("~no_such_user/policy.safetensors", "is neither a known name nor a file"),
        ("own_agents_a:missing", "'missing': check the name after the colon"),
        ("own_agents_missing:stop", "No module named 'own_agents_missing'"),
        ("own_agents_a:Needy", "missing 1 required positional argument"),
        ("own_agents_a:number", "pass an object with reset and act"),
        ("own_agents_a:Old", r"Old.act must take \(env, observation, begun\).*too many positional"),
    ):
        with pytest.raises(ValueError, match=match):
            named_agent(name)


def test_what_names_a_module():
    assert all(map(is_in_module, ("a:b", "a.b.c:d", "_x:Y1")))
    for name in ("a", "a:", ":b", "C:\\file", "a/b:c", "procedural:3", "a:b:c", ".a:b", "a b:c"):
        assert not is_in_module(name), name
