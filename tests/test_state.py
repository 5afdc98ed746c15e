"""Arrays that are written in place: by whom, and by whom not."""

import numpy as np
import pytest

from gym_batchnav.state import Buffers, agent_state, arrays_of, read_only


def test_views_for_readers_follow_the_state_and_cannot_be_written():
    agents = agent_state(3)
    seen = read_only(agents)
    agents.position[1] = 7
    assert (seen.position[1] == 7).all()
    for name, array in arrays_of(seen).items():
        with pytest.raises(ValueError, match="read-only"):
            array += 1
        assert arrays_of(agents)[name].flags.writeable


class TestMemory:
    @pytest.fixture
    def arrays(self):
        return {"count": np.zeros(4, int), "trail": np.zeros((4, 2), np.float32)}

    def test_assigning_writes_into_the_array_that_others_hold(self, arrays):
        buffers = Buffers(arrays)
        buffers["count"] = np.arange(4)
        buffers["count"] += 10
        buffers["trail"] = [1, 2]
        np.testing.assert_array_equal(arrays["count"], [10, 11, 12, 13])
        np.testing.assert_array_equal(arrays["trail"], [[1, 2]] * 4)

    @pytest.mark.parametrize("values", [np.zeros(3, int), np.zeros((4, 2), int), np.zeros(4), np.array(["a"] * 4)])
    def test_what_does_not_fit_is_refused_and_nothing_written(self, arrays, values):
        arrays["count"][:] = 5
        with pytest.raises(ValueError, match=r"buffer 'count' is int64 \(4,\)"):
            Buffers(arrays)["count"] = values
        assert (arrays["count"] == 5).all()

    def test_what_nobody_declared_is_neither_read_nor_written(self, arrays):
        buffers = Buffers(arrays)
        with pytest.raises(KeyError, match=r"'counts'.*known are 'count', 'trail'"):
            buffers["counts"]
        with pytest.raises(KeyError, match="'counts'"):
            buffers["counts"] = np.zeros(4)
        assert list(buffers) == ["count", "trail"] and "counts" not in buffers
