"""Redwood's noise of depth: its distribution, a slow twin, its table, and the encoding."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from numba import get_num_threads, set_num_threads

from gym_batchnav.geometry import Camera
from gym_batchnav.noise.depth import RedwoodNoise, encode_depth
from gym_batchnav.noise.random import draw_words, normal_levels

N, H, W = 250, 64, 64  # a million pixels
KEYS = np.random.default_rng(0).integers(2**64, size=N, dtype=np.uint64)


def noisy(noise, images, keys=KEYS):
    images = images.copy()
    noise.apply(images, keys[: len(images)])
    return images


def plane(depth):
    return np.full((N, H, W, 1), depth, np.float32)


def room(shape=(6, 30, 44, 1), seed=0):
    """Depths with edges, misses and places that are too far."""
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.2, 12, shape).astype(np.float32)
    depth[rng.random(shape) < 0.1] = 0
    return depth


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A made-up table of distortion, some of it blind."""
    rng = np.random.default_rng(3)
    factors = rng.uniform(0.9, 1.1, (80, 80, 5))
    factors[rng.random((80, 80)) < 0.05] = 0
    path = tmp_path_factory.mktemp("redwood") / "table.npy"
    np.save(path, factors)
    return path, factors


@pytest.mark.parametrize(("depth", "multiplier"), [(0.4, 1.0), (3.3, 0.5), (9.9, 1.0)])
def test_disparity_is_normal_and_rounded_to_eighths(depth, multiplier):
    """Each measured depth is 35.130 * 8 / k; the shares of all k are those of a normal disparity."""
    found = noisy(RedwoodNoise(multiplier), plane(depth))
    steps = np.rint(35.130 * 8 / found).astype(int)
    np.testing.assert_allclose(found, 35.130 * 8 / steps, rtol=1e-6)
    disparity = NormalDist(35.130 / np.float32(depth), 0.027778 * multiplier)
    least = steps.min()
    counts = np.bincount(steps.ravel() - least)
    for k, count in enumerate(counts, least):
        share = disparity.cdf((k + 0.5) / 8) - disparity.cdf((k - 0.5) / 8)
        assert abs(count - share * steps.size) < 5 * math.sqrt(share * steps.size) + 2e-5 * steps.size + 1
    assert counts.sum() > 0.999 * steps.size


def test_jitter_moves_pixels_as_often_as_it_should():
    """The right half is nearer. At the border a pixel reads the other half if its jitter moves it across."""
    images = plane(2.0)
    images[:, :, 32:] = 1.0
    found = noisy(RedwoodNoise(), images)[..., 0]
    crossed = NormalDist(0, 0.25).cdf(-0.5)  # to the left, and as often to the right
    share_right = (found[:, :, 31] < 1.5).mean()
    share_left = (found[:, :, 32] > 1.5).mean()
    error = 5 * math.sqrt(crossed / (N * H))
    assert abs(share_right - crossed) < error and abs(share_left - crossed) < error
    assert (found[:, :, :30] > 1.5).all() and (found[:, :, 34:] < 1.5).all()


def slow_twin(images, keys, multiplier, factors):
    """Habitat's algorithm, pixel by pixel, with the numbers of the package's tables."""
    levels = normal_levels()
    measured = np.zeros_like(images)
    height, width = images.shape[1:3]
    words = np.empty(height * width, np.uint64)
    for n in range(len(images)):
        draw_words.py_func(keys[n], 0, words)
        for row in range(height):
            for column in range(width):
                word = int(words[row * width + column])
                down, right, error = (levels[word >> bits & 0xFFFF] * multiplier for bits in (0, 16, 32))
                y = int(min(max(row + 0.25 * down, 0), height - 1) + 0.5)
                x = int(min(max(column + 0.25 * right, 0), width - 1) + 0.5)
                depth = float(images[n, y - y % 2, x - x % 2, 0])
                if depth >= 10:
                    continue
                if factors is not None:
                    bin_x = int(x / (width - 1) * 639 + 0.5) // 8
                    bin_y = int(y / (height - 1) * 479 + 0.5) // 6
                    upper = int((depth + 1) / 2)
                    share = (depth - (2 * (upper - 1) + 1)) / 2
                    factor = (1 - share) * factors[bin_y, bin_x, min(max(upper - 1, 0), 4)]
                    factor += share * factors[bin_y, bin_x, min(upper, 4)]
                    depth = 0 if factor < 1e-5 else depth / factor
                if depth == 0:
                    continue
                steps = round((35.130 / depth + error * 0.027778) * 8)
                measured[n, row, column, 0] = 0 if steps <= 1e-5 else 35.130 * 8 / steps
    return measured


@pytest.mark.parametrize(("multiplier", "distorted"), [(0.0, True), (1.0, False), (20.0, True)])
def test_it_equals_its_slow_twin(table, multiplier, distorted):
    path, factors = table
    images = room()
    noise = RedwoodNoise(multiplier, path if distorted else None)
    with np.errstate(over="ignore"):
        expected = slow_twin(images, KEYS, multiplier, factors if distorted else None)
    found = noisy(noise, images)
    # A disparity half-way between two steps may be rounded either way, since the kernel computes in 32 bits.
    assert (np.abs(found - expected) > 1e-5 * expected).mean() < 1e-3
    assert ((found == 0) == (expected == 0)).mean() > 0.999


def test_an_image_depends_on_itself_and_its_key_alone():
    images = room((70, 32, 32, 1))
    together = noisy(RedwoodNoise(), images)
    order = np.random.default_rng(1).permutation(len(images))
    np.testing.assert_array_equal(noisy(RedwoodNoise(), images[order], KEYS[order]), together[order])
    np.testing.assert_array_equal(noisy(RedwoodNoise(), images[:1]), together[:1])
    threads = get_num_threads()
    set_num_threads(1)
    try:
        np.testing.assert_array_equal(noisy(RedwoodNoise(), images), together)
    finally:
        set_num_threads(threads)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (5, 1), (33, 7)])
def test_any_size_works(table, size):
    images = np.full((3, *size, 1), 2.0, np.float32)
    for noise in (RedwoodNoise(), RedwoodNoise(5.0, table[0])):
        found = noisy(noise, images)
        assert np.isfinite(found).all() and ((found == 0) | (np.abs(found - 2) < 0.6)).all()


def test_wrong_tables_are_refused_by_name(tmp_path):
    wrong = {
        "text.npy": b"no table",
        "empty.npy": b"",
        "small.npy": np.ones((80, 80, 4)),
        "nan.npy": np.full((80, 80, 5), np.nan),
        "names.npy": np.full((80, 80, 5), "1"),
        "objects.npy": np.full((80, 80, 5), None),
        "large.npy": np.ones((800, 800)),
        "overflow.npy": np.full((80, 80, 5), 1e300),
    }
    for name, content in wrong.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        else:
            np.save(tmp_path / name, content)
        with pytest.raises(ValueError, match=name):
            RedwoodNoise(distortion=tmp_path / name)
    for header in ("(10000000000000,)", "(1" + 30 * "0" + ",)"):
        path = tmp_path / "huge.npy"
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {header}, }}".ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
        with pytest.raises(ValueError, match=r"huge.* in 0 bytes"):  # no memory has been asked for
            RedwoodNoise(distortion=path)
    with pytest.raises(ValueError, match="distortion=3"):
        RedwoodNoise(distortion=3)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npy"):
        RedwoodNoise(distortion=tmp_path / "nowhere.npy")
    with pytest.raises(ValueError, match="multiplier=-1"):
        RedwoodNoise(-1)


@pytest.mark.parametrize(("normalize", "miss"), [(True, "zero"), (False, "far")])
def test_depth_is_encoded_as_cameras_do(normalize, miss):
    camera = Camera(normalize_depth=normalize, min_depth=0.5, max_depth=5.5, depth_miss=miss)
    images = np.array([0, 0.2, 0.5, 3, 5.5, 80], np.float32).reshape(1, 1, 6, 1)
    encode_depth(images, camera.depth_encoding)
    expected = [5.5 if miss == "far" else 0.5, 0.5, 0.5, 3, 5.5, 5.5]
    if normalize:
        expected = (np.array(expected) - 0.5) / 5
    np.testing.assert_allclose(images.ravel(), expected, atol=1e-6)
