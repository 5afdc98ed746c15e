"""The agents of one world by name, without a library."""

import numpy as np
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from gym_batchnav.adapters.world import OneWorld
from gym_batchnav.env.batch import BatchNavEnv

M = 3


class Plain(OneWorld):
    _library = "a library"


def test_infos_that_wrappers_nest_are_those_of_the_agent(settings, opened):
    given = {**settings, "sensors": (), "agents_per_world": M, "autoreset_mode": "disabled"}
    world = Plain(RecordEpisodeStatistics(opened(BatchNavEnv(M, **given))))
    _, infos = world.begin(0, None)
    total = dict.fromkeys(world.possible_agents, 0.0)
    count = 0
    while world.acting:
        assert not any("episode" in info for info in infos.values())
        _, rewards, _, _, infos = world.act({name: np.int64(2 + row % 2) for row, name in enumerate(world.acting)})
        count += 1
        for name, reward in rewards.items():
            total[name] += reward
    assert list(infos) == world.possible_agents and count == settings["max_episode_steps"]
    for name, info in infos.items():
        assert info["episode"]["l"] == count and np.isclose(info["episode"]["r"], total[name])
        assert "success" in info and "waiting" not in info
