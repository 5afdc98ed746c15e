"""Noise of RGB: distributions over more than a million values, independence, and keys."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from gym_batchnav.noise.random import normal_levels
from gym_batchnav.noise.rgb import ColorJitter, GaussianNoise, PoissonNoise, SaltAndPepperNoise, SpeckleNoise

N, H, W = 90, 64, 64  # 1.1 million values
KEYS = np.random.default_rng(0).integers(2**64, size=N, dtype=np.uint64)
ALL = (GaussianNoise(0.1), SpeckleNoise(0.3), SaltAndPepperNoise(0.1, 0.3), PoissonNoise(), ColorJitter())


def noisy(noise, images, keys=KEYS):
    images = images.copy()
    noise.apply(images, keys[: len(images)])
    return images


def plain(value):
    return np.full((N, H, W, 3), value, np.uint8)


def pictures(seed=0, shape=(8, 24, 20, 3)):
    return np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8)


def assert_distributed(values, shares):
    """Compare the histogram of values with the expected share [256] of each, by Pearson's chi-squared."""
    found = np.bincount(values.ravel(), minlength=256)
    expected = np.asarray(shares) * values.size
    assert abs(expected.sum() - values.size) < 1
    rare = expected < 20
    found = np.append(found[~rare], found[rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1.0))
    freedom = len(expected) - 1
    assert (((found - expected) ** 2) / expected).sum() < freedom + 5 * math.sqrt(2 * freedom) + 5


def normal_shares(mean, deviation):
    """The share of each value of a normal number that is clipped to 0 to 255 and rounded down."""
    edges = np.array([NormalDist(mean, deviation).cdf(edge) for edge in range(1, 256)])
    return np.diff(edges, prepend=0.0, append=1.0)


@pytest.mark.parametrize("value", [0, 128, 251])
@pytest.mark.parametrize(("intensity", "mean", "sigma"), [(0.1, 0, 1), (0.2, 0.25, 0.5)])
def test_gaussian_noise_has_habitats_distribution(value, intensity, mean, sigma):
    found = noisy(GaussianNoise(intensity, mean, sigma), plain(value))
    assert_distributed(found, normal_shares(value + 255 * intensity * mean, 255 * intensity * sigma))


def test_jitter_of_one_kind_changes_what_it_says():
    images = pictures()
    images[..., 0] = images[..., 1]  # no blue but what differs from the others
    one = {"exposure": 0.0, "gamma": 0.0, "balance": 0.0, "saturation": 0.0}
    assert np.abs(noisy(ColorJitter(**one), images).astype(int) - images).max() <= 1
    grey = np.repeat(images[..., :1], 3, axis=-1)
    assert np.abs(noisy(ColorJitter(**one | {"saturation": 1.0}), grey).astype(int) - grey).max() <= 1
    for name in ("exposure", "gamma", "saturation"):  # these treat equal channels equally
        found = noisy(ColorJitter(**one | {name: 0.5}), images)
        assert (found[..., 0] == found[..., 1]).all() and (found != images).any()
    found = noisy(ColorJitter(**one | {"exposure": 0.5}), plain(100))[:, 0, 0, 0] / 100
    assert found.min() > 1 / 1.52 and found.max() < 1.52
    assert np.log(found).std() == pytest.approx(np.log(1.5) / math.sqrt(3), rel=0.2)
    found = noisy(ColorJitter(**one | {"gamma": 0.5}), plain(64))[:, 0, 0, 0]
    exponents = np.log(found / 255) / np.log(64 / 255)
    assert exponents.min() > 1 / 1.53 and exponents.max() < 1.53
    assert (noisy(ColorJitter(**one | {"gamma": 0.5}), plain(255)) == 255).all()


@pytest.mark.parametrize("value", [40, 251])
def test_speckle_noise_grows_with_the_value(value):
    found = noisy(SpeckleNoise(0.2, 0.1, 0.9), plain(value))
    assert_distributed(found, normal_shares(value * 1.02, value * 0.18))
    assert (noisy(SpeckleNoise(), plain(0)) == 0).all()


def test_salt_and_pepper_change_their_shares():
    found = noisy(SaltAndPepperNoise(0.06, 0.25), plain(100))
    shares = np.zeros(256)
    shares[[0, 100, 255]] = 0.045, 0.94, 0.015
    assert_distributed(found, shares)
    assert (noisy(SaltAndPepperNoise(1, 1), plain(100)) == 255).all()
    assert (noisy(SaltAndPepperNoise(0), plain(100)) == 100).all()


@pytest.mark.parametrize(("value", "num_values"), [(1, 2), (90, 3), (200, 17), (255, 256), (13, 256)])
def test_poisson_noise_has_habitats_distribution(value, num_values):
    """Each image holds ``num_values`` different values, nearly all of them ``value``."""
    images = plain(value)
    images[:, 0, : math.ceil(num_values / 3)] = 0
    others = [one for one in range(256) if one != value][: num_values - 1]
    images.reshape(N, -1)[:, : len(others)] = others
    levels = 2 ** math.ceil(math.log2(num_values))
    found = noisy(PoissonNoise(), images)[:, 2:]
    mean = value / 255 * levels
    shares = np.zeros(256)
    for count in range(4 * levels + 60):
        probability = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
        shares[int(min(count / levels, 1) * 255 + 1e-9)] += probability
    assert_distributed(found, shares)


def test_the_table_is_a_normal_distribution():
    levels = normal_levels()
    assert abs(levels.mean()) < 1e-12 and abs(levels.var() - 1) < 1e-12 and (np.diff(levels) > 0).all()
    shares = [NormalDist().cdf(level) for level in levels]
    np.testing.assert_allclose(shares, (np.arange(65536) + 0.5) / 65536, atol=2e-5)
    assert abs((levels**4).mean() - 3) < 0.01


@pytest.mark.parametrize("noise", ALL[:-1], ids=repr)  # but those of one image with ColorJitter
def test_values_are_independent(noise):
    """Neighbours in a row, in a column, in colour and in the batch, and images of different keys."""
    changes = noisy(noise, plain(128)).astype(float) - 128
    changes -= changes.mean()
    for axis in range(4):
        other = np.roll(changes, 1, axis=axis)
        correlation = (changes * other).mean() / changes.var()
        assert abs(correlation) < 5 / math.sqrt(changes.size)
    images = plain(128)[:4]
    assert (noisy(noise, images) != noisy(noise, images, KEYS[::-1])).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("noise", ALL, ids=repr)
def test_an_image_depends_on_itself_and_its_key_alone(noise):
    images = pictures()
    together = noisy(noise, images)
    order = np.random.default_rng(1).permutation(len(images))
    np.testing.assert_array_equal(noisy(noise, images[order], KEYS[order]), together[order])
    for index in range(len(images)):
        alone = noisy(noise, images[[index]], KEYS[[index]])
        np.testing.assert_array_equal(alone[0], together[index])


@pytest.mark.parametrize("noise", ALL, ids=repr)
@pytest.mark.parametrize("shape", [(3, 1, 1, 3), (2, 7, 5, 3), (0, 4, 4, 3), (1, 40, 100, 3)])
def test_any_size_works(noise, shape):
    images = pictures(shape=shape)
    larger = np.full((shape[0] + 2, *shape[1:]), 77, np.uint8)
    larger[1:-1] = images
    noise.apply(larger[1:-1], KEYS[: shape[0]])
    np.testing.assert_array_equal(larger[1:-1], noisy(noise, images))
    assert (larger[[0, -1]] == 77).all(), "it wrote outside its images"


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf, "0.1", None, True])
def test_numbers_are_checked(wrong):
    for kind, name in ((GaussianNoise, "intensity"), (SpeckleNoise, "sigma"), (SaltAndPepperNoise, "amount")):
        with pytest.raises(ValueError, match=name):
            kind(**{name: wrong})
    with pytest.raises(ValueError, match=r"salt=1\.5"):
        SaltAndPepperNoise(salt=1.5)


def test_images_that_kernels_cannot_read_are_refused():
    for noise in ALL:
        with pytest.raises(ValueError, match="pass uint8"):
            noise.apply(np.full((1, 8, 8, 3), 10**6, np.int64), KEYS[:1])
    with pytest.raises(ValueError, match="contiguous"):
        GaussianNoise().apply(plain(1)[:, :, ::2], KEYS)
    with pytest.raises(ValueError, match="one key"):
        GaussianNoise().apply(plain(1), KEYS[:3])
