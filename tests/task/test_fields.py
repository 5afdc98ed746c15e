"""The fields of tasks, their sensors and samplers are checked when these are made."""

import json
import re

import numpy as np
import pytest

from gym_batchnav.env.config import Episodes
from gym_batchnav.episodes.objects import ViewRules
from gym_batchnav.episodes.samplers import ObjectEpisodes, PointEpisodes, TourEpisodes
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.task.explore import AreaSeen, CellsVisited, Coverage, DistanceFromStart, Explore, Flee
from gym_batchnav.task.imagenav import ImageGoal, ImageNav, InstanceImageGoal, InstanceImageNav
from gym_batchnav.task.measures import NDTW
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectGoal, ObjectNav
from gym_batchnav.task.pointnav import PointNav

NO_NUMBERS = ("x", np.nan, np.inf, None, True)
NO_LENGTHS = (*NO_NUMBERS, 0, -1.0)
NO_FLAGS = ("yes", 1, None)
NO_NAMES = ((), "chair", ["chair"], ("chair", "chair"), ("",), (1,), None)
NO_CAMERAS = (None, "wide", 64)


def cases(makers, name, values):
    return [(maker, name, value) for maker in makers for value in values]


GOALS = (PointNav, ObjectNav, ImageNav, InstanceImageNav)
REFUSED = [
    *cases((*GOALS, MultiGoalNav), "success_distance", NO_LENGTHS),
    *cases((*GOALS, MultiGoalNav), "step_reward", NO_NUMBERS),
    *cases(GOALS, "success_reward", NO_NUMBERS),
    *cases((PointNav,), "spl_reward", NO_FLAGS),
    *cases((MultiGoalNav,), "goal_reward", NO_NUMBERS),
    *cases((MultiGoalNav, TourEpisodes), "num_goals", ("3", 0, -1, 101, 2.0, np.nan, None, True)),
    *cases((ObjectNav, InstanceImageNav, ObjectEpisodes), "categories", NO_NAMES),
    *cases((ObjectNav, ObjectEpisodes, ViewRules), "eye_height", (*NO_NUMBERS, 1001)),
    *cases((ViewRules,), "spacing", NO_LENGTHS),
    *cases((ViewRules,), "max_distance", NO_LENGTHS),
    *cases((ViewRules,), "min_coverage", (*NO_NUMBERS, -0.1, 1.1)),
    *cases((ViewRules,), "min_points", (0, 1.0, "1", None)),
    *cases((ObjectEpisodes,), "per_instance", NO_FLAGS),
    *cases((ImageNav, InstanceImageNav, ImageGoal, InstanceImageGoal), "camera", NO_CAMERAS),
    *cases((ObjectGoal,), "num_categories", (0, -1, 2.0, "2", None)),
    *cases((Explore, CellsVisited, Coverage, AreaSeen), "cell_size", (*NO_LENGTHS, 0.001)),
    *cases((Explore,), "cell_reward", NO_NUMBERS),
    *cases((AreaSeen,), "reach", NO_LENGTHS),
    *cases((AreaSeen,), "fan_deg", (*NO_LENGTHS, 361)),
    *cases((Flee, DistanceFromStart), "geodesic", NO_FLAGS),
    *cases((NDTW,), "threshold", NO_LENGTHS),
    *cases((NDTW,), "spacing", NO_LENGTHS),
]


@pytest.mark.parametrize(("maker", "name", "value"), REFUSED)
def test_the_error_names_the_field_its_value_and_the_remedy(maker, name, value):
    with pytest.raises(ValueError, match=rf"^{name}={re.escape(repr(value))}.*: pass "):
        maker(**{name: value})


def test_numpy_numbers_are_accepted():
    assert ObjectNav(("bed",), np.float32(0.1), np.int64(2), np.float64(0), np.float32(1.5)).sampler.eye_height == 1.5
    assert MultiGoalNav(np.int64(2), np.float32(1.5), np.int64(2)).sampler == TourEpisodes(2)
    assert MapPath(num_cells=np.int64(16)) == MapPath(num_cells=16)
    assert Episodes.of(np.int64(5)) == Episodes(count=5)
    assert json.dumps(Episodes(seed=np.uint8(3)).seed) == "3"  # JSON takes it to other processes


def test_a_subclass_of_pointnav_may_compute_its_sampler():
    class Near(PointNav):
        farthest = 3.0

        @property
        def sampler(self):
            return PointEpisodes(max_distance=self.farthest)

    assert Near(step_reward=0).sampler == PointEpisodes(max_distance=3)
