"""Checkpoints: saving is atomic, loading returns the saved state, and damaged or hostile files raise an error."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.train.run import checkpoint  # noqa: E402

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


@settings(max_examples=60, deadline=None)
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


class TestWriter:
    def test_it_writes_what_the_state_was_when_it_was_saved(self, tmp_path):
        """The training continues to modify the tensors while the thread writes."""
        path = tmp_path / "a.pt"
        weights = torch.zeros(1000)
        positions = np.zeros(1000)
        writer = checkpoint.CheckpointWriter()
        for value in range(5):
            weights.fill_(value), positions.fill(value)
            writer.save(path, {"weights": weights, "positions": positions}, {"value": value})
            weights.fill_(-1), positions.fill(-1)
            writer.wait()
            state, about = checkpoint.load(path)
            assert about["value"] == value
            assert (state["weights"] == value).all() and (state["positions"] == value).all()
        writer.close()
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    def test_a_failure_is_told_and_the_last_one_stays(self, tmp_path, monkeypatch):
        path = tmp_path / "a.pt"
        writer = checkpoint.CheckpointWriter()
        writer.save(path, {"value": 1}, {})
        writer.wait()

        def full(path, data):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(checkpoint, "write_atomically", full)
        writer.save(path, {"value": 2}, {})
        with pytest.raises(OSError, match="No space"):
            writer.save(path, {"value": 3}, {})
        writer.close()
        assert checkpoint.load(path)[0] == {"value": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.pt"
    checkpoint.save(path, {"weights": torch.arange(50.0), "seed": 3, 1: ("a", [None])}, {"preset": "cpu"})
    return path.read_bytes()


class TestDamage:
    @settings(max_examples=150, deadline=None)
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

    @pytest.mark.parametrize("length", [0, 1, 7, 8, 100, -1])
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
            with pytest.raises(ValueError, match=f"is {found}, not 'gym_batchnav checkpoint 2'"):
                checkpoint.load(path)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            checkpoint.load(tmp_path / "none")
