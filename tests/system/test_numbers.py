"""Checks of numbers that are given as arguments."""

import numpy as np
import pytest

from gym_batchnav.system.numbers import (
    check_between,
    check_choice,
    check_counts,
    check_finite,
    check_flags,
    check_length,
    check_not_negative,
    check_positive,
    check_range,
    check_seed,
    check_whole,
)


@pytest.mark.parametrize(
    ("check", "accepted", "refused"),
    [
        (
            check_finite,
            [-1, 0, 2.5, np.float32(0.1), np.uint8(1), 2**70],
            [np.nan, "1", True, np.True_, None, (1,), np.array(1.0), 1j, np.complex64(1), np.float32(-np.inf), 10**400],
        ),
        (check_positive, [1e-9, 3], [0, -1.0, np.inf, "1"]),
        (check_length, [1e-9, 3], [0, -1.0, np.inf, "1"]),
        (check_seed, [0, np.uint32(3), 2**32 - 1], [-1, 2**32, 1.5, True, "1"]),
        (check_not_negative, [0, 3], [-1e-9, np.nan, "1"]),
        (lambda x: check_between(1, 2, x=x), [1, 1.5, 2], [0.99, 2.01, np.nan, "1"]),
        (lambda x: check_range("x", x, 5), [(-1, 2), (0, 5)], [(0, 0), (1, 2), (0, 6), [0, 1], (0, np.nan), 3]),
        (check_counts, [1, np.int32(9)], [0, -1, 1.0, True, "1"]),
        (check_whole, [0, np.int32(9)], [-1, 1.0, True, "1"]),
        (check_flags, [True, np.False_], [0, 1.0, None, "yes"]),
    ],
)
def test_each_check_names_the_argument_and_its_value(check, accepted, refused):
    for value in accepted:
        check(x=value)
    for value in refused:
        with pytest.raises(ValueError, match=r"^x=.*: pass ") as raised:
            check(x=value)
        assert repr(value) in str(raised.value)


def test_a_long_value_is_shown_in_part():
    with pytest.raises(ValueError, match=r"^order='x{50,199}: choose one of 'once'$"):
        check_choice("order", "x" * 5000, ("once",))
