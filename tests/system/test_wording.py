"""Counts in words."""

import pytest

from gym_batchnav.system.wording import counted


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 scenes"), (1, "1 scene"), (2, "2 scenes"), (12_345, "12,345 scenes")]
)
def test_a_noun_agrees_with_its_count(count, words):
    assert counted(count, "scene") == words
