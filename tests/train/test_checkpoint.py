"""Checkpoints: saving is atomic, loading returns the saved state, and damaged or hostile files raise an error."""

import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.train import checkpoint  # noqa: E402

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
DTYPES = ("bool", "uint8", "int32", "int64", "uint64", "float32", "float64")


@st.composite
def arrays(draw):
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    array = np.array(np.random.default_rng(0).integers(0, 200, shape)).astype(draw(st.sampled_from(DTYPES)))
    return array if draw(st.booleans()) else torch.from_numpy(array)


STATES = st.recursive(
    PLAIN | arrays(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, (np.ndarray, torch.Tensor)):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert (found == expected).all()
    else:
        assert found == expected


@given(state=STATES, about=st.dictionaries(st.text(max_size=4), PLAIN, max_size=3))
def test_what_is_saved_comes_back(state, about, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "round_trip.pt"
    checkpoint.save(path, state, about)
    found, said = checkpoint.load(path)
    assert_same(found, state)
    assert said == about


def test_numbers_of_numpy_become_plain_and_gradients_are_left_behind(tmp_path):
    path = tmp_path / "a.pt"
    weights = torch.ones(2, 3, requires_grad=True).t()
    checkpoint.save(path, {"count": np.int32(7), "rate": np.float32(0.5), "weights": weights}, {})
    state, _ = checkpoint.load(path)
    assert state["count"] == 7 and state["rate"] == 0.5 and type(state["count"]) is int
    assert torch.equal(state["weights"], weights) and not state["weights"].requires_grad


def test_other_things_are_refused(tmp_path):
    with pytest.raises(TypeError, match="cannot save a set"):
        checkpoint.save(tmp_path / "a", {"names": {1, 2}}, {})
    assert not list(tmp_path.iterdir())


class TestCheckpoints:
    def test_they_hold_what_the_state_was_when_it_was_saved(self, tmp_path):
        """The training continues to modify the tensors while the thread writes."""
        weights = torch.zeros(1000)
        positions = np.zeros(1000)
        kept = checkpoint.Checkpoints(tmp_path, 0)
        for value in range(1, 6):
            weights.fill_(value), positions.fill(value)
            kept.save(value, {"weights": weights, "positions": positions}, {"value": value})
            weights.fill_(-1), positions.fill(-1)
            kept.wait()
            state, about = checkpoint.load(kept.path(value))
            assert about["value"] == value
            assert (state["weights"] == value).all() and (state["positions"] == value).all()
        kept.close()
        assert kept.frames() == [4, 5] and len(list(tmp_path.iterdir())) == 2

    def test_a_failure_is_told_and_the_last_one_stays(self, tmp_path, monkeypatch):
        kept = checkpoint.Checkpoints(tmp_path, 0)
        kept.save(1, {"value": 1}, {})
        kept.wait()

        def full(path, data):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(checkpoint, "write_atomically", full)
        kept.save(2, {"value": 2}, {})
        with pytest.raises(OSError, match="No space"):
            kept.wait()
        kept.close()
        assert checkpoint.load(kept.path(1))[0] == {"value": 1} and kept.frames() == [1]


def newest_of(folder, *files, damaged=()):
    """Return what each worker, a thread of its own, resumes from if it has checkpoints after some frames."""
    barrier = threading.Barrier(len(files))
    said = [None] * len(files)

    def resume(rank):
        def gather(value):
            said[rank] = value
            barrier.wait()
            found = list(said)
            barrier.wait()
            return found

        kept = checkpoint.Checkpoints(folder, rank)
        for frames in files[rank]:
            checkpoint.save(kept.path(frames), frames, {})
            if (frames, rank) in damaged:
                kept.path(frames).write_bytes(b"")  # as after a power failure
        try:
            return kept.newest(gather, lambda path: checkpoint.load(path)[0], lambda text: None)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(files)) as threads:
        return list(threads.map(resume, range(len(files))))


class TestWorkersThatWereKilled:
    @pytest.mark.parametrize(
        ("files", "newest"),
        [
            ([[200, 300], [200, 300]], 300),
            ([[200, 300], [100, 200]], 200),  # the second was killed before it had written its newest
            ([[100, 200], [100, 200, 300]], 200),  # or before it had deleted its oldest
            ([[100], []], None),  # the first checkpoint of a run, which begins again
            ([[], []], None),
        ],
    )
    def test_they_go_on_from_the_newest_that_all_have(self, tmp_path, files, newest):
        assert newest_of(tmp_path, *files) == [newest] * 2

    def test_a_lost_one_is_told(self, tmp_path):
        for error in newest_of(tmp_path, [100, 200], []):
            assert re.search(
                r"no checkpoint of all workers \(after frames, by worker: \[100, 200\], \[0\]\): pass another", error
            )

    def test_a_damaged_one_is_replaced_by_the_one_before(self, tmp_path):
        files = [100, 200], [100, 200]
        assert newest_of(tmp_path, *files, damaged=[(200, 1)]) == [100, 100]
        for error in newest_of(tmp_path, *files, damaged=[(200, 1), (100, 0)]):
            assert "is damaged" in error


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.pt"
    checkpoint.save(path, {"weights": torch.arange(50.0), "seed": 3, 1: ("a", [None])}, {"preset": "cpu"})
    return path.read_bytes()


class TestDamage:
    @given(seed=st.integers(0, 10**6))
    def test_flipped_and_missing_bytes_are_noticed_or_harmless(self, data, tmp_path_factory, seed):
        rng = np.random.default_rng(seed)
        spoilt = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            spoilt[place] = rng.integers(0, 256)
        path = tmp_path_factory.getbasetemp() / "spoilt.pt"
        path.write_bytes(spoilt[: rng.integers(0, len(data))] if seed % 3 == 0 else spoilt)
        try:
            state, about = checkpoint.load(path)
        except ValueError as error:
            assert "spoilt.pt" in str(error)
        else:
            assert isinstance(about, dict) and state is not None

    @pytest.mark.parametrize("length", [0, 8, -1])
    def test_a_file_that_was_cut_off_is_damaged(self, length, data, tmp_path):
        path = tmp_path / "cut.pt"
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut\.pt' is damaged"):
            checkpoint.load(path)

    def test_a_pickle_is_not_opened(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (pytest.fail, ("the pickle was opened",))

        path = tmp_path / "trap.pt"
        path.write_bytes(pickle.dumps(Trap()))
        with pytest.raises(ValueError, match="is damaged"):
            checkpoint.load(path)

    def test_other_files_are_told_apart(self, tmp_path):
        path = tmp_path / "other.pt"
        for stored, found in (
            ({"format": "another"}, "'another'"),
            ([1, 2], "None"),
            ({"weights": torch.ones(1)}, "None"),
        ):
            torch.save(stored, path)
            with pytest.raises(ValueError, match=f"is {found}, not 'gym_batchnav checkpoint 4'"):
                checkpoint.load(path)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            checkpoint.load(tmp_path / "none")
