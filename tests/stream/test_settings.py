"""Settings of streams that cannot work are refused by name."""

import pytest

from gym_batchnav.env.config import Episodes
from gym_batchnav.stream.settings import StreamSettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"sequence_length": 1.5}, "sequence_length=1.5"),
        ({"memory": "disk"}, "memory='disk': choose one of 'replay', 'reservoir'"),
        ({"samples_per_frame": 0}, "samples_per_frame=0"),
        ({"samples_per_frame": float("nan")}, "samples_per_frame=nan"),
        ({"batch_size": 100, "capacity": 99}, "batch_size=100 of capacity=99"),
        ({"min_samples": 9000}, "min_samples=9000 of capacity=8192"),
        ({"min_samples": 0}, "min_samples=0"),
        ({"threads": -1}, "threads=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"deterministic": 1}, "deterministic=1"),
    ],
)
def test_wrong_settings_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        StreamSettings(**given)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"autoreset_mode": "same_step"}, "autoreset_mode='same_step': leave it out"),
        ({"autoreset_mode": "never"}, "autoreset_mode='never': choose one of"),
        ({"episodes": Episodes(order="once")}, "episodes= in order 'once': leave the order out"),
        ({"obs_device": "cuda"}, "obs_device='cuda': leave it out"),
        ({"library": object()}, "library=: pass scenes="),
    ],
)
def test_keywords_that_do_not_suit_a_stream_are_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        StreamSettings(deterministic=True).environment(keywords)


def test_the_first_minibatch_waits_for_a_quarter_of_the_memory_or_for_as_many_samples_as_asked():
    assert StreamSettings(capacity=1000, batch_size=10).first_draw == 250
    assert StreamSettings(capacity=1000, batch_size=500).first_draw == 500
    assert StreamSettings(capacity=1000, batch_size=10, min_samples=1).first_draw == 10
    assert StreamSettings(capacity=1000, batch_size=10, min_samples=700).first_draw == 700
