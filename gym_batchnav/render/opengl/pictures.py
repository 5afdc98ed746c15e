"""Read-back: pictures are gathered in buffers on the device and then read into main memory."""

from __future__ import annotations

from typing import Any

import moderngl

from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import SENSOR_FORMATS, empty_pictures, most_in_flight
from gym_batchnav.render.opengl.context import Context

Buffers = dict[str, moderngl.Buffer]  # one per sensor


def picture_bytes(camera: Camera, sensor: str) -> int:
    """Return the size of one picture in bytes."""
    dtype, channels = SENSOR_FORMATS[sensor]
    return camera.height * camera.width * channels * dtype.itemsize


def batch_buffers(context: Context, camera: Camera, sensors: tuple[str, ...], num_views: int) -> Buffers:
    """Allocate buffers for the pictures of one batch, one per sensor."""
    return {sensor: context.moderngl.buffer(reserve=num_views * picture_bytes(camera, sensor)) for sensor in sensors}


class HostPictures:
    """Pictures that are read back into a ring of NumPy arrays, taken in order.

    Two sets of buffers take turns, so that one batch is read while the next is drawn.

    Args:
        context: Entered for every method.
        camera: The camera, whose pictures have this size.
        sensors: Names of the sensors.
        num_views: N, the largest number of views in a batch.
        num_sets: Number of sets of arrays.
    """

    def __init__(
        self, context: Context, camera: Camera, sensors: tuple[str, ...], num_views: int, num_sets: int
    ) -> None:
        self._arguments = (context, camera, sensors, num_views)
        self._buffers: list[Buffers] = [{} for _ in range(most_in_flight(num_sets))]
        self._arrays = [empty_pictures(camera, sensors, num_views) for _ in range(num_sets)]

    def buffers(self, batch: int) -> Buffers:
        """Return the buffers for the pictures of a batch, one per sensor; batches are counted from 0."""
        turn = batch % len(self._buffers)
        if not self._buffers[turn]:
            self._buffers[turn] = batch_buffers(*self._arguments)
        return self._buffers[turn]

    def take(self, batch: int, count: int) -> dict[str, Any]:
        """Wait for the device and return the first ``count`` pictures of a batch."""
        images = {name: array[:count] for name, array in self._arrays[batch % len(self._arrays)].items()}
        for name, image in images.items():
            self._buffers[batch % len(self._buffers)][name].read_into(image, image.nbytes)
        return images

    def release(self) -> None:
        """Release the buffers; idempotent."""
        for buffers in self._buffers:
            for buffer in buffers.values():
                buffer.release()
        self._buffers = []
