"""Noise of RGB images, with a key per image: Habitat's four models, and ColorJitter.

The formulas and default values of the four are those of habitat_sim/sensors/noise_models. They apply to v / 255 for
each value v of a channel; the result is clipped and rounded down to a whole number, as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.noise.batch import run_on_images
from gym_batchnav.noise.random import NUM_LEVELS, WORDS, draw_words, normal_levels
from gym_batchnav.system.jit import ENTRY, INNER, to_int64
from gym_batchnav.system.numbers import check_between
from gym_batchnav.system.parallel import for_each

_ROUNDING = 1e-9  # a product such as 0.2 * 255 is not quite a whole number


@dataclass(frozen=True, slots=True)
class _NormalNoise(SensorNoise):
    """Noise made of normal numbers.

    Attributes:
        intensity: Factor of the noise, as a share of the full range: Habitat's ``intensity_constant``.
        mean: Mean of the noise before the factor.
        sigma: Standard deviation of the noise before the factor.

    Raises:
        ValueError: The intensity or sigma is not from 0 to 1000, or the mean not from -1000 to 1000.
    """

    intensity: float = 0.2
    mean: float = 0.0
    sigma: float = 1.0

    sensor = "rgb"

    def __post_init__(self) -> None:
        check_between(0, 1000, intensity=self.intensity, sigma=self.sigma)
        check_between(-1000, 1000, mean=self.mean)


@dataclass(frozen=True, slots=True)
class GaussianNoise(_NormalNoise):
    """Normal noise: each value v becomes v + intensity * (mean + sigma * n), where n is a standard normal number."""

    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Add noise to images [N, H, W, 3] uint8, in place; see ``SensorNoise``."""
        shifts = _normal_shifts(float(self.intensity), float(self.mean), float(self.sigma))
        run_on_images(shift_all, images, keys, np.uint8, shifts)


@dataclass(frozen=True, slots=True)
class SpeckleNoise(_NormalNoise):
    """Multiplicative noise: each value v becomes v * (1 + intensity * (mean + sigma * n)), n standard normal."""

    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Add noise to images [N, H, W, 3] uint8, in place; see ``SensorNoise``."""
        factors = _normal_factors(float(self.intensity), float(self.mean), float(self.sigma))
        run_on_images(scale_all, images, keys, np.uint8, factors)


@dataclass(frozen=True, slots=True)
class SaltAndPepperNoise(SensorNoise):
    """Values that become white (255) or black (0), each value of each channel independently.

    Habitat's model draws as many values as are expected here, and writes 1 instead of 255 for white.

    Attributes:
        amount: Share of the values that change.
        salt: Share of these that become white: Habitat's ``s_vs_p``.

    Raises:
        ValueError: A share is not from 0 to 1.
    """

    amount: float = 0.05
    salt: float = 0.5

    sensor = "rgb"

    def __post_init__(self) -> None:
        check_between(0, 1, amount=self.amount, salt=self.salt)

    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Add noise to images [N, H, W, 3] uint8, in place; see ``SensorNoise``."""
        run_on_images(shift_all, images, keys, np.uint8, _salt_and_pepper_shifts(self.amount, self.salt))


@dataclass(frozen=True, slots=True)
class PoissonNoise(SensorNoise):
    """Shot noise: each value v becomes k / L, where k is a Poisson number with the mean v * L.

    As in Habitat, L is the number of different values in the image, rounded up to a power of two.
    """

    sensor = "rgb"

    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Add noise to images [N, H, W, 3] uint8, in place; see ``SensorNoise``."""
        run_on_images(count_all, images, keys, np.uint8, *_poisson_tables())


@dataclass(frozen=True, slots=True)
class ColorJitter(SensorNoise):
    """Exposure, gamma, white balance and saturation that vary from image to image, for training.

    First the distance of each colour from grey, the mean of its channels, is multiplied by s, drawn uniformly from
    1 - ``saturation`` to 1 + ``saturation``. Then a value v of a channel, from 0 to 1, becomes e * w * v ** g. The
    factors e and w (one for each channel) and the exponent g are drawn log-uniformly from 1 / (1 + a) to 1 + a, where
    a is ``exposure``, ``balance`` or ``gamma``.

    Attributes:
        exposure: Variation of the brightness of the image.
        gamma: Variation of the exponent.
        balance: Variation of the brightness of each channel.
        saturation: Variation of the distance of colours from grey.

    Raises:
        ValueError: An attribute is not from 0 to 10, or ``saturation`` not from 0 to 1.
    """

    exposure: float = 0.5
    gamma: float = 0.5
    balance: float = 0.2
    saturation: float = 1.0

    sensor = "rgb"

    def __post_init__(self) -> None:
        check_between(0, 10, exposure=self.exposure, gamma=self.gamma, balance=self.balance)
        check_between(0, 1, saturation=self.saturation)

    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Change images [N, H, W, 3] uint8, in place; see ``SensorNoise``."""
        widths = np.log1p([self.exposure, self.gamma, self.balance])
        run_on_images(jitter_all, images, keys, np.uint8, widths, float(self.saturation))


@lru_cache(maxsize=16)
def _normal_shifts(intensity: float, mean: float, sigma: float) -> np.ndarray:
    """Return whole numbers [65536] int16 that noise adds to a value, by random number."""
    shifts = 255 * intensity * (mean + sigma * normal_levels())
    # The sum of a whole number and the noise is rounded down, so the noise may be rounded down before.
    return np.clip(np.floor(shifts + _ROUNDING), -255, 255).astype(np.int16)


@lru_cache(maxsize=16)
def _normal_factors(intensity: float, mean: float, sigma: float) -> np.ndarray:
    """Return factors [65536] float32 by which noise multiplies a value, by random number."""
    return (1 + intensity * (mean + sigma * normal_levels())).astype(np.float32)


@lru_cache(maxsize=16)
def _salt_and_pepper_shifts(amount: float, salt: float) -> np.ndarray:
    """Return what is added to a value [65536] int16, by random number, before the sum is clipped to 0 to 255."""
    changed = round(NUM_LEVELS * amount)
    salted = round(changed * salt)
    shifts = np.zeros(NUM_LEVELS, np.int16)
    shifts[:salted] = 255
    shifts[salted:changed] = -255
    return shifts


@lru_cache(maxsize=1)
def _poisson_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tables of ``draw_counts``, which takes a random number of 16 bits to a Poisson number.

    Returns:
        [9, 256, 256] uint16: for L = 1, 2, 4, ..., 256, each value, and k from 0, the greatest random number that
        stands for a Poisson number of at most k. All Poisson numbers above 255 make the value 255.
        [9, 256, 256] uint16: for the first 8 bits of a random number, the least Poisson number that it may stand for.
        [9, 258] uint8: the value that a Poisson number makes; all above 255 make 255.
    """
    log_factorial = np.array([math.lgamma(k + 1) for k in range(256)])
    counts = np.arange(256)
    num_below = np.full((9, 256, 256), NUM_LEVELS)  # random numbers that stand for at most k; a mean of 0 makes only 0
    for power in range(9):
        mean = np.arange(1, 256)[:, None] / 255 * 2**power
        shares = np.cumsum(np.exp(counts * np.log(mean) - mean - log_factorial), axis=1)
        num_below[power, 1:] = np.round(np.minimum(shares, 1) * NUM_LEVELS)
    first = np.empty((9, 256, 256), np.uint16)
    for power in range(9):
        for value in range(256):
            first[power, value] = np.searchsorted(num_below[power, value], 256 * counts, side="right")
    cumulative = (np.maximum(num_below, 1) - 1).astype(np.uint16)
    made = np.minimum(255 * np.arange(258) / 2 ** np.arange(9)[:, None], 255)
    return cumulative, first, made.astype(np.uint8)


@njit(**INNER)
def shift_values(item: int, images: np.ndarray, keys: np.ndarray, shifts: np.ndarray) -> None:
    """Add ``shifts`` [65536] int16 to the values of image ``item`` of ``images`` [N, S] uint8."""
    words = np.empty(WORDS, np.uint64)
    levels = words.view(np.uint16)
    drawn = np.empty(len(levels), np.int16)
    for start in range(0, images.shape[1], len(levels)):
        values = images[item, start : start + len(levels)]
        draw_words(keys[item], to_int64(start // 4), words)
        for index in range(len(values)):
            drawn[index] = shifts[levels[index]]
        for index in range(len(values)):  # a loop without a table, so that it is vectorised
            shifted = np.int16(values[index]) + drawn[index]
            values[index] = min(max(shifted, np.int16(0)), np.int16(255))


@njit(**INNER)
def scale_values(item: int, images: np.ndarray, keys: np.ndarray, factors: np.ndarray) -> None:
    """Multiply the values of image ``item`` of ``images`` [N, S] uint8 by ``factors`` [65536] float32."""
    words = np.empty(WORDS, np.uint64)
    levels = words.view(np.uint16)
    drawn = np.empty(len(levels), np.float32)
    for start in range(0, images.shape[1], len(levels)):
        values = images[item, start : start + len(levels)]
        draw_words(keys[item], to_int64(start // 4), words)
        for index in range(len(values)):
            drawn[index] = factors[levels[index]]
        for index in range(len(values)):
            scaled = np.float32(values[index]) * drawn[index]
            values[index] = np.uint8(min(max(scaled, np.float32(0)), np.float32(255)))


@njit(**INNER)
def draw_counts(
    item: int, images: np.ndarray, keys: np.ndarray, cumulative: np.ndarray, first: np.ndarray, made: np.ndarray
) -> None:
    """Draw Poisson numbers for image ``item`` of ``images`` [N, S] uint8; see ``_poisson_tables``."""
    power = _log2_of_values(images[item])
    cumulative_of = cumulative[power].reshape(-1)
    first_of = first[power].reshape(-1)
    made_of = made[power]
    most = np.uint64(255)
    words = np.empty(WORDS, np.uint64)
    levels = words.view(np.uint16)
    for start in range(0, images.shape[1], len(levels)):
        values = images[item, start : start + len(levels)]
        draw_words(keys[item], to_int64(start // 4), words)
        for index in range(len(values)):
            random = levels[index]
            row = np.uint64(values[index]) << np.uint64(8)
            count = np.uint64(first_of[row + np.uint64(random >> np.uint16(8))])
            # The count is nearly always this or the next one. A sum takes less time than a branch would.
            count += np.uint64(random > cumulative_of[row + min(count, most)])
            while count <= most and random > cumulative_of[row + count]:
                count += np.uint64(1)
            values[index] = made_of[count]


@njit(**INNER)
def _log2_of_values(values: np.ndarray) -> int:
    """Return the power of two that is the number of different values, rounded up."""
    seen = np.zeros(256, np.bool_)
    for value in values:
        seen[value] = True
    num_values = seen.sum()
    power = 0
    while 2**power < num_values:
        power += 1
    return power


@njit(**INNER)
def jitter_colors(item: int, images: np.ndarray, keys: np.ndarray, widths: np.ndarray, saturation: float) -> None:
    """Change the colours of image ``item`` of ``images`` [N, S] uint8; see ColorJitter.

    Args:
        item: Its index.
        images: The images.
        keys: [N] uint64.
        widths: [3], logarithms of 1 plus exposure, gamma and balance.
        saturation: See ColorJitter.
    """
    words = np.empty(6, np.uint64)
    draw_words(keys[item], to_int64(0), words)
    drawn = 2 * ((words >> np.uint64(11)) * 2.0**-53) - 1  # [6], from -1 to 1
    exponent = np.exp(widths[1] * drawn[1])
    made = np.empty((3, 256), np.uint8)
    for channel in range(3):
        factor = 255 * np.exp(widths[0] * drawn[0] + widths[2] * drawn[2 + channel])
        for value in range(256):
            made[channel, value] = np.uint8(min(factor * (value / 255) ** exponent, 255.0))
    kept = np.float32(1 + saturation * drawn[5])
    values = images[item]
    for first in range(0, len(values), 3):
        red, green, blue = np.float32(values[first]), np.float32(values[first + 1]), np.float32(values[first + 2])
        grey = (red + green + blue) / np.float32(3)
        for channel in range(3):
            colored = grey + kept * (np.float32(values[first + channel]) - grey)
            values[first + channel] = made[channel, np.uint8(min(max(colored, np.float32(0)), np.float32(255)))]


@njit(**ENTRY)
def jitter_all(images: np.ndarray, keys: np.ndarray, widths: np.ndarray, saturation: float) -> None:
    """Run ``jitter_colors`` for all images."""
    for_each(jitter_colors, len(images), (images, keys, widths, saturation))


@njit(**ENTRY)
def shift_all(images: np.ndarray, keys: np.ndarray, shifts: np.ndarray) -> None:
    """Run ``shift_values`` for all images."""
    for_each(shift_values, len(images), (images, keys, shifts))


@njit(**ENTRY)
def scale_all(images: np.ndarray, keys: np.ndarray, factors: np.ndarray) -> None:
    """Run ``scale_values`` for all images."""
    for_each(scale_values, len(images), (images, keys, factors))


@njit(**ENTRY)
def count_all(
    images: np.ndarray, keys: np.ndarray, cumulative: np.ndarray, first: np.ndarray, made: np.ndarray
) -> None:
    """Run ``draw_counts`` for all images."""
    for_each(draw_counts, len(images), (images, keys, cumulative, first, made))
