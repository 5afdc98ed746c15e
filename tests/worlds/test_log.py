"""Files of logs: what is written is read, and damaged or hostile files are refused."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import make_log

from gym_batchnav.worlds.log import WorldLog

POSITION = np.arange(5 * 3 * 3).reshape(5, 3, 3) / 7
PARTS = {part: {} for part in ("episodes", "buffers", "worlds")}


def test_a_log_is_read_as_it_was_written(tmp_path):
    log = make_log(POSITION, num_agents=2, actions=np.arange(16, dtype=np.float32).reshape(4, 2, 2))
    log.save(tmp_path / "log.npz")
    read = WorldLog.load(tmp_path / "log.npz")
    assert (read.scene, read.seconds, read.shapes) == (log.scene, log.seconds, log.shapes)
    for name in ("radius", "position", "heading", "present", "actions"):
        np.testing.assert_array_equal(getattr(read, name), getattr(log, name), strict=True)
    assert read.state.keys() == log.state.keys()
    for part, arrays in log.state.items():
        assert read.state[part].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(read.state[part][name], array, strict=True)
    assert list(tmp_path.iterdir()) == [tmp_path / "log.npz"]  # nothing is left aside
    assert repr(read) == "WorldLog('room', 4 steps, 2 agents, 3 bodies)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": POSITION}, "position is float64"),
        ({"position": np.full((5, 3, 3), np.nan, np.float32)}, "position has values that are not finite"),
        ({"heading": np.zeros((4, 3), np.float32)}, r"heading is float32 \(4, 3\): expected float32 \(5, 3\)"),
        ({"present": np.ones((5, 3))}, "present is float64"),
        ({"actions": np.ones(4, int)}, r"actions are \(4,\)"),
        ({"actions": np.ones((4, 1), complex)}, "actions is complex128"),
        ({"actions": np.ones((4, 9), int)}, "9 agents"),
        ({"radius": np.full(3, 7.0)}, "radius=7.0"),
        ({"shapes": ("robot", "cat", "dog")}, "shape='cat'"),
        ({"shapes": ("dog",) * 65}, "65 bodies"),
        ({"seconds": np.inf}, "seconds=inf"),
        ({"state": {}}, r"the state has parts \[\]"),
        ({"state": {"agents": {}, "episodes": {}, "buffers": {}}}, "without the state of their world"),
        (
            {"state": {**PARTS, "agents": {"heading": np.full(1, np.nan)}}},
            "agents.heading has values that are not",
        ),
        ({"state": {**PARTS, "agents": {"heading": np.zeros(2)}}}, "agents.heading is .*: expected 1 rows"),
        ({"present": np.full((5, 3), 7, np.uint8).view(bool)}, "present has flags other than 0 and 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(make_log(POSITION), **changes)


def test_a_file_that_is_no_log_or_claims_too_much_is_refused_by_name(tmp_path):
    path = tmp_path / "other.npz"
    with pytest.raises(FileNotFoundError, match=r"other.npz': the file does not exist: check the path"):
        WorldLog.load(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"other.npz' cannot be read \(it is not a .npz file.*: record it again"):
        WorldLog.load(path)
    np.savez(path, position=POSITION)
    with pytest.raises(ValueError, match=r"other.npz' cannot be read \(format is missing\)"):
        WorldLog.load(path)
    np.savez_compressed(path, position=np.zeros((1000, 1000)))
    with pytest.raises(ValueError, match="compressed"):
        WorldLog.load(path)

    class Trap:
        def __reduce__(self):
            return pytest.fail, ("a pickle was opened",)

    np.savez(path, format=np.array("gym_batchnav world log 1"), scene=np.array([Trap()], object))
    with pytest.raises(ValueError, match=r"cannot be read \(an array of object"):
        WorldLog.load(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("position.npy", head.getvalue())
    with pytest.raises(ValueError, match=r"cannot be read \(an array of float64 \(1099511627776,\) in 0 bytes"):
        WorldLog.load(path)


@given(data=st.data())
def test_damaged_files_are_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    make_log(POSITION).save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) - 200, len(content)))])
    try:
        WorldLog.load(path)
    except ValueError as error:
        assert "damaged.npz' cannot be read" in str(error)
