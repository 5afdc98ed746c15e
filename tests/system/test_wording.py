"""Counts and measures in words."""

import pytest

from gym_batchnav.system.wording import counted, measure_in_words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 scenes"), (1, "1 scene"), (2, "2 scenes"), (12_345, "12,345 scenes")]
)
def test_a_noun_agrees_with_its_count(count, words):
    assert counted(count, "scene") == words


@pytest.mark.parametrize(
    ("name", "words"),
    [("spl", "SPL"), ("soft_spl", "SoftSPL"), ("success", "success"), ("cells_visited", "cells visited")],
)
def test_measures_have_their_usual_names(name, words):
    assert measure_in_words(name) == words
