"""Streams as torch datasets."""

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader  # noqa: E402

from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.stream.dataset import StreamDataset  # noqa: E402
from gym_batchnav.stream.stream import BatchStream, StreamSettings  # noqa: E402

SETTINGS = StreamSettings(batch_size=8, capacity=32, min_samples=8, deterministic=True, threads=1)


@pytest.fixture
def keywords():
    return dict(num_envs=4, scenes=[box_room()], episodes=20, camera=Camera(8, 8))


def taken(batches, count):
    return [batch for batch, _ in zip(batches, range(count), strict=False)]


def test_a_dataset_gives_the_minibatches_of_a_stream_as_tensors(keywords):
    dataset = StreamDataset(keywords, SETTINGS)
    loader = DataLoader(dataset, batch_size=None)
    with BatchStream(keywords, SETTINGS) as stream:
        for direct, loaded, wanted in zip(taken(dataset, 3), taken(loader, 3), stream, strict=False):
            assert set(direct) == set(loaded) == set(wanted)
            for name, values in wanted.items():
                assert isinstance(direct[name], torch.Tensor)
                np.testing.assert_array_equal(direct[name].numpy(), values)
                np.testing.assert_array_equal(loaded[name].numpy(), values)


def test_an_environment_is_refused_in_place_of_its_keywords():
    for kind in (StreamDataset, BatchStream):
        with pytest.raises(ValueError, match=r"environment=3: pass the keywords of BatchNavEnv, as in .'num_envs'"):
            kind(3, SETTINGS)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU")
def test_minibatches_are_pinned_where_there_is_a_gpu(keywords):
    batches = taken(StreamDataset(keywords, SETTINGS), 5)
    with BatchStream(keywords, SETTINGS) as stream:
        for batch, wanted in zip(batches, stream, strict=False):
            assert batch["depth"].is_pinned()
            np.testing.assert_array_equal(batch["depth"].to("cuda", non_blocking=True).cpu().numpy(), wanted["depth"])


@pytest.mark.slow
def test_workers_contribute_equally_and_have_seeds_of_their_own(keywords):
    loader = DataLoader(
        StreamDataset(keywords, SETTINGS), batch_size=None, num_workers=2, multiprocessing_context="spawn"
    )
    batches = taken(loader, 8)
    for worker in range(2):
        with BatchStream(keywords, SETTINGS, worker=worker, num_workers=2) as stream:
            for batch in batches[worker::2]:
                np.testing.assert_array_equal(batch["depth"].numpy(), next(stream)["depth"])
    assert (batches[0]["depth"] != batches[1]["depth"]).any()
