"""The registered ids, as single environments and as batches."""

import re

import gymnasium
import numpy as np
import pytest
from furnished import furnished
from rooms import box_room

from gym_batchnav.testing import check_vector_env

IDS = {
    "Explore": "cells_visited",
    "Flee": "distance_from_start",
    "MultiGoalNav": "progress",
    "ObjectNav": "distance_to_goal",
    "ImageNav": "distance_to_goal",
    "InstanceImageNav": "distance_to_goal",
}


@pytest.mark.parametrize("name", IDS)
def test_a_single_environment_equals_a_batch_of_one(name):
    scene = (
        furnished(chair_1=((2.0, 0, 1.5), (2.5, 0.9, 2.0))) if name in ("ObjectNav", "InstanceImageNav") else box_room()
    )
    keywords = {"scenes": [scene], "episodes": 10, "sensors": ("depth",)}
    one = gymnasium.make(f"BatchNav/{name}-v0", **keywords)
    batch = gymnasium.make_vec(f"BatchNav/{name}-v0", num_envs=2, **keywords)
    seen, info = one.reset(seed=5)
    seen_by_batch, infos = batch.reset(seed=5)
    for _ in range(6):
        assert set(seen) == set(seen_by_batch) and IDS[name] in info
        for sensor, values in seen.items():
            np.testing.assert_array_equal(values, seen_by_batch[sensor][0])
        assert info[IDS[name]] == infos[IDS[name]][0]
        seen, *_, info = one.step(1)
        seen_by_batch, *_, infos = batch.step(np.array([1, 2]))
    assert gymnasium.spec(f"BatchNav/{name}-v0").max_episode_steps == batch.unwrapped.max_episode_steps
    one.close()
    batch.close()


@pytest.mark.parametrize(("name", "keywords"), [("Tag", {}), ("Rendezvous", {}), ("PointNav", {"agents_per_world": 2})])
def test_several_agents_are_no_single_environment(name, keywords):
    with pytest.raises(ValueError, match=r"several agents in a world: use gymnasium\.make_vec"):
        gymnasium.make(f"BatchNav/{name}-v0", **keywords)


def test_a_task_without_a_goal_has_no_shortest_path():
    keywords = {"scenes": [box_room()], "episodes": 10, "sensors": ()}
    env = gymnasium.make_vec("BatchNav/Flee-v0", num_envs=2, **keywords)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="agents of Flee have no goal to go to"):
        env.unwrapped.shortest_path_actions()
    env.close()


def test_no_task_is_that_of_the_id_or_the_protocol():
    env = gymnasium.make_vec("BatchNav/Flee-v0", num_envs=2, scenes=[box_room()], sensors=(), task=None)
    assert type(env.unwrapped.task).__name__ == "Flee"
    env.close()
    with pytest.raises(ValueError, match="is for PointNav, not Flee"):
        gymnasium.make_vec("BatchNav/Flee-v0", num_envs=2, protocol="pointnav-2021", task=None)


@pytest.mark.parametrize(
    ("unknown", "remedy"),
    [
        ("sensorz", "did you mean sensors?"),
        ("turn_angle", "did you mean actions=DiscreteActions(turn_angle_deg=...)?"),
        ("hfov", "did you mean camera=Camera(hfov_deg=...)?"),
        ("turn_angle_deg", "pass actions=DiscreteActions(turn_angle_deg=...)"),
        ("success_distance", "pass task=PointNav(success_distance=...)"),
        ("order", "pass episodes=Episodes(order=...)"),
        ("cache_dir", "pass scenes=Scenes(..., cache_dir=...)"),
        ("num_episodes", "pass episodes=Episodes(count=...)"),
        ("agent_radius", "pass navmesh_settings=NavMeshSettings(agent_radius=...)"),
        ("up", "pass scenes=load_scene(path, up=...)"),
        ("scale", "pass scenes=load_scene(path, scale=...)"),
        ("max_steps", "pass max_episode_steps=..."),
        ("seed", "pass it to reset(seed=...), or episodes=Episodes(seed=...)"),
        ("threads", "pass it to numba.set_num_threads(...)"),
    ],
)
def test_the_error_of_an_unknown_keyword_names_what_is_meant(unknown, remedy):
    with pytest.raises(TypeError, match=re.escape(f"{unknown!r}: {remedy}") + "$"):
        gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=2, **{unknown: 30})


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_batches_keep_gymnasiums_contract(name):
    scene = furnished(chair_1=((2.0, 0, 1.5), (2.5, 0.9, 2.0)))
    keywords = {"scenes": [scene], "episodes": 10, "max_episode_steps": 30}

    def make():
        return gymnasium.make_vec(f"BatchNav/{name}-v0", num_envs=4, autoreset_mode="same_step", **keywords)

    check_vector_env(make, steps=80)
