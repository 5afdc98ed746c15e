"""The interface of sensor noise, which changes images after they have been rendered.

Pass objects to an environment as ``sensor_noise={"rgb": GaussianNoise(0.1)}``. Write your own as a frozen dataclass:
batches may share it, so it must not store anything about a run, not even a random generator.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import numpy as np


class SensorNoise(Protocol):
    """Noise of the images of one sensor.

    Attributes:
        sensor: The sensor that it belongs to: ``"rgb"`` or ``"depth"``.
    """

    sensor: str

    @abstractmethod
    def apply(self, images: np.ndarray, keys: np.ndarray) -> None:
        """Add noise to images, in place.

        Each image must depend only on its own pixels and its own key, so that results depend neither on the number of
        environments nor on that of threads. ``np.random.default_rng(int(key))`` makes a generator from a key. Return
        nothing.

        Args:
            images: Of ``"rgb"``: [N, H, W, 3] uint8. Of ``"depth"``: [N, H, W, 1] float32, metres from the camera, not
                clipped, and 0 where nothing is hit; the camera's encoding of depth is applied afterwards.
            keys: [N] uint64, one key per image: a function of seed, episode, step, and name of the image.
        """
