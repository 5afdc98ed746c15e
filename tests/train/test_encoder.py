"""The encoders: inputs, sizes, and the initial state of Fixup."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.train.distributed import Workers  # noqa: E402
from gym_batchnav.train.encoder import (  # noqa: E402
    FixupBlock,
    PictureChannels,
    RunningMoments,
    SEResNet9,
    SmallEncoder,
    code_on_any_device,
)


def colors(seed):
    return torch.randint(0, 256, (2, 8, 12, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


@pytest.mark.parametrize("depth_bins", [0, 10])
def test_goal_pictures_are_further_channels_normalised_as_rgb(depth_bins):
    observation = {"depth": torch.full((2, 8, 12, 1), 0.25), "rgb": colors(0), "imagegoal": colors(1)}
    observation["instance_imagegoal"] = colors(2)
    stack = PictureChannels(("depth", "rgb", "imagegoal", "instance_imagegoal"), depth_bins)
    stack.moments.mean.copy_(torch.tensor([0.1, 0.2, 0.3]))
    stack.moments.variance.copy_(torch.tensor([4.0, 1.0, 0.25]))
    plain = PictureChannels(("depth", "rgb"), depth_bins)
    plain.load_state_dict(stack.state_dict())
    found = stack(observation)
    assert found.shape == (2, stack.num_channels, 8, 12) and stack.num_channels == 10 + depth_bins
    torch.testing.assert_close(found[:, : plain.num_channels], plain(observation))
    for start, name in ((4 + depth_bins, "imagegoal"), (7 + depth_bins, "instance_imagegoal")):
        pictures = observation[name].numpy() / 255
        expected = (pictures - [0.1, 0.2, 0.3]) / [2, 1, 0.5]
        np.testing.assert_allclose(found.permute(0, 2, 3, 1)[..., start : start + 3], expected, atol=1e-5)


def test_recoded_colours_keep_what_light_does_not_change_and_tell_nothing_from_a_plain_wall():
    channels = PictureChannels(("rgb",), recodes=True)
    pictures = colors(0) // 3 + 1
    pictures[0, :3] = 0
    found = channels({"rgb": pictures})
    assert found.shape == (2, channels.num_channels, 8, 12) and channels.num_channels == 4
    np.testing.assert_array_equal(found[:, 3], (pictures == 0).all(-1))
    centred = pictures.numpy() / 255
    centred -= centred.mean((1, 2), keepdims=True)
    expected = centred / np.sqrt((centred**2).mean((1, 2, 3), keepdims=True) + 1e-4)
    np.testing.assert_allclose(found[:, :3].permute(0, 2, 3, 1), expected, atol=1e-5)
    torch.testing.assert_close(code_on_any_device(pictures).permute(0, 3, 1, 2), found)
    torch.testing.assert_close(channels({"rgb": pictures * 2})[:, :3], found[:, :3], atol=0.02, rtol=0)
    nothing, wall = torch.zeros(1, 8, 12, 3, dtype=torch.uint8), torch.full((1, 8, 12, 3), 90, dtype=torch.uint8)
    np.testing.assert_allclose(channels({"rgb": wall}), 0, atol=1e-3)
    np.testing.assert_array_equal(channels({"rgb": nothing})[:, 3], 1)


@pytest.mark.parametrize("seen", ["rgb", "depth"])
def test_moments_are_those_of_rgb_and_without_it_of_the_goal_pictures(seen):
    channels = PictureChannels((seen, "imagegoal"), 0)
    pictures = {"rgb": colors(0)[None], "depth": torch.zeros(1, 2, 8, 12, 1), "imagegoal": colors(1)[None] // 2}
    channels.update_moments(pictures, Workers().total)
    source = pictures["rgb" if seen == "rgb" else "imagegoal"] / 255
    assert channels.moments.count == 10_002
    torch.testing.assert_close(channels.moments.mean, source.mean((0, 1, 2, 3)) * 2 / 10_002)


def test_moments_are_those_of_all_pictures_and_of_the_ten_thousand_before():
    """As in bps-nav, images are counted, not pixels, and the variance is at least 0.01."""
    generator = np.random.default_rng(0)
    parts = [generator.normal([3, -2, 0], [2, 1, 0], (count, 2, 2, 3)).astype(np.float32) for count in (2000, 7000)]
    moments = RunningMoments(3)
    for part in parts:
        moments.update(torch.as_tensor(part).split(500), Workers().total)
    pictures = np.concatenate(parts).astype(float)
    mean = pictures.sum((0, 1, 2)) / 4 / 19_000  # the mean of the 10,000 before is 0, their mean square 1
    square = (10_000 + (pictures**2).sum((0, 1, 2)) / 4) / 19_000
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moments.variance, square - mean**2, rtol=1e-4)
    assert moments.count == 19_000
    moments.variance[2] = 1e-4
    expected = (pictures[0] - mean) / np.sqrt(np.maximum([*(square - mean**2)[:2], 0], 1e-2))
    np.testing.assert_allclose(moments(torch.as_tensor(pictures[0])), expected, rtol=1e-4, atol=1e-5)


def test_a_fixup_block_begins_as_its_shortcut():
    pictures = torch.rand(2, 64, 8, 8)
    torch.testing.assert_close(FixupBlock(64, 64, 1, 4)(pictures), pictures)
    block = FixupBlock(64, 128, 2, 4)
    torch.testing.assert_close(block(pictures), torch.relu(block.shortcut(pictures)))
    assert block.first.weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5 * 0.5, rel=0.02)


@pytest.mark.parametrize("make", [SEResNet9, SmallEncoder])
@pytest.mark.parametrize(("height", "width"), [(64, 64), (30, 21), (4, 4)])
def test_any_resolution_is_encoded(make, height, width):
    encoder = make(("depth",), height, width)
    assert encoder({"depth": torch.rand(3, height, width, 1)}).shape == (3, encoder.num_features)
