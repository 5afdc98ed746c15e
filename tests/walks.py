"""Steps of a batch and how their results are compared."""

import numpy as np


def assert_equal(left, right):
    """Two observations or infos are the same, to the bit."""
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def walk(env, steps, seed=0):
    """Random steps; every return value, stacked."""
    rng = np.random.default_rng(seed)
    return [env.step(rng.choice(4, size=env.num_envs, p=[0.05, 0.55, 0.2, 0.2])) for _ in range(steps)]
