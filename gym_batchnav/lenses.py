"""Lenses other than the pinhole: which ray each pixel of an image sees.

A lens maps image coordinates to rays in the camera's frame: x to the right, y up, and the third number *ahead*, along
the view axis. Image coordinates run from (0, 0) at the upper left corner to (width, height) at the lower right corner,
in pixels, so that the centre of the pixel (column, row) is (column + 0.5, row + 0.5). Sizes of lenses do not depend on
the number of pixels, except for the aspect ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.system.numbers import is_number


class Rays(NamedTuple):
    """Rays in the camera's frame, float64; NaN where an image has no ray, such as outside of its circle."""

    direction: np.ndarray  # [..., 3] right, up, ahead; unit vectors
    origin: np.ndarray  # [..., 2] right, up; metres from the camera


class Lens:
    """The base class of lenses; each is a frozen dataclass.

    Attributes:
        is_parallel: Whether all rays are parallel to the view axis.
    """

    is_parallel = False

    def rays(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> Rays:
        """Return the rays at image coordinates.

        Args:
            x: [...], pixels from the left edge.
            y: [...], pixels from the upper edge.
            width: Pixels in a row of the image.
            height: Rows of the image.
        """
        direction = self._directions(np.asarray(x, np.float64), np.asarray(y, np.float64), width, height)
        return Rays(direction, np.zeros((*direction.shape[:-1], 2)))

    def _directions(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
        """Return unit vectors [..., 3]; see ``rays``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Equirectangular(Lens):
    """A panorama in which columns are evenly spaced azimuths and rows evenly spaced elevations.

    Attributes:
        hfov_deg: Azimuths from the left to the right edge, degrees; the centre of the image looks ahead.
        vfov_deg: Elevations from the upper to the lower edge, degrees.
    """

    hfov_deg: float = 360.0
    vfov_deg: float = 180.0

    def __post_init__(self) -> None:
        _check("Equirectangular", "hfov_deg", self.hfov_deg, 1, 360)
        _check("Equirectangular", "vfov_deg", self.vfov_deg, 1, 180)

    def _directions(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
        return _at_angles(_azimuth(self.hfov_deg, x, width), np.radians(self.vfov_deg) * (0.5 - y / height))


@dataclass(frozen=True, slots=True)
class Cylindrical(Lens):
    """A panorama on an upright cylinder: columns are evenly spaced azimuths, upright lines stay straight.

    Attributes:
        hfov_deg: Azimuths from the left to the right edge, degrees; the centre of the image looks ahead.
        vfov_deg: Elevations from the upper to the lower edge, degrees.
    """

    hfov_deg: float = 360.0
    vfov_deg: float = 90.0

    def __post_init__(self) -> None:
        _check("Cylindrical", "hfov_deg", self.hfov_deg, 1, 360)
        _check("Cylindrical", "vfov_deg", self.vfov_deg, 1, 170)

    def _directions(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
        rise = np.tan(np.radians(self.vfov_deg) / 2) * (1 - 2 * y / height)
        return _at_angles(_azimuth(self.hfov_deg, x, width), np.arctan(rise))


@dataclass(frozen=True, slots=True)
class Fisheye(Lens):
    """An equidistant fisheye: the angle from the view axis is proportional to the distance from the image's centre.

    Pixels outside of the circle that touches the longer edges have no ray.

    Attributes:
        fov_deg: Field of view across the circle, degrees.
    """

    fov_deg: float = 180.0

    def __post_init__(self) -> None:
        _check("Fisheye", "fov_deg", self.fov_deg, 1, 360)

    def _directions(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
        radius = min(width, height) / 2
        right = (x - width / 2) / radius
        up = (height / 2 - y) / radius
        from_centre = np.hypot(right, up)
        angle = np.radians(self.fov_deg) / 2 * from_centre
        across = np.divide(np.sin(angle), from_centre, out=np.zeros_like(angle), where=from_centre > 0)
        direction = np.stack([right * across, up * across, np.cos(angle)], axis=-1)
        return np.where(from_centre[..., None] <= 1, direction, np.nan)


@dataclass(frozen=True, slots=True)
class DoubleSphere(Lens):
    """The double sphere model of fisheye lenses (Usenko, Demmel and Cremers, 3DV 2018, equations 46 to 52).

    Pixels to which the model projects nothing have no ray. A calibration in pixels (as of Kalibr, or Habitat's
    ``focal_length`` and ``principal_point_offset``) is divided by the size of its images.

    Attributes:
        xi: Distance between the centres of the two spheres.
        alpha: From 0 to 1; the third projection centre is alpha / (1 - alpha) behind the second sphere's.
        focal: Focal length, divided by the width of the image; pixels are square.
        center: Principal point from the upper left corner, divided by the width and the height of the image.
    """

    xi: float
    alpha: float
    focal: float
    center: tuple[float, float] = (0.5, 0.5)

    def __post_init__(self) -> None:
        _check("DoubleSphere", "xi", self.xi, -1, 1)
        _check("DoubleSphere", "alpha", self.alpha, 0, 1)
        _check("DoubleSphere", "focal", self.focal, 1e-3, 100)
        if not isinstance(self.center, (tuple, list)) or len(self.center) != 2:
            raise ValueError(f"DoubleSphere(center={self.center!r}): pass two numbers")
        for value in self.center:
            _check("DoubleSphere", "center", value, -10, 10)
        object.__setattr__(self, "center", tuple(self.center))

    def _directions(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
        right = (x - self.center[0] * width) / (self.focal * width)
        up = (self.center[1] * height - y) / (self.focal * width)
        square = right**2 + up**2
        with np.errstate(invalid="ignore"):  # square roots of negative numbers are NaN: no ray
            ahead = (1 - self.alpha**2 * square) / (
                self.alpha * np.sqrt(1 - (2 * self.alpha - 1) * square) + 1 - self.alpha
            )
            root = np.sqrt(ahead**2 + (1 - self.xi**2) * square)
        scale = (ahead * self.xi + root) / (ahead**2 + square)
        direction = np.stack([scale * right, scale * up, scale * ahead - self.xi], axis=-1)
        return direction / np.linalg.norm(direction, axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True)
class Orthographic(Lens):
    """A parallel projection along the view axis. Depth is measured from the camera's plane, along the axis.

    Attributes:
        extent: Width of the image in the world, metres.
    """

    extent: float = 4.0

    is_parallel = True

    def __post_init__(self) -> None:
        _check("Orthographic", "extent", self.extent, 1e-3, 1e4)

    def rays(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> Rays:
        """Return the rays at image coordinates; see ``Lens.rays``."""
        pixel = self.extent / width
        origin = np.stack(np.broadcast_arrays((x - width / 2) * pixel, (height / 2 - y) * pixel), axis=-1)
        direction = np.zeros((*origin.shape[:-1], 3))
        direction[..., 2] = 1
        return Rays(direction, origin)


@dataclass(frozen=True, slots=True)
class Beams(Lens):
    """The beams of a lidar: columns are evenly spaced azimuths, rows are given elevations; see ``Camera.lidar``.

    An image of another height than the number of elevations interpolates them.

    Attributes:
        hfov_deg: Azimuths from the left to the right edge, degrees; the centre looks ahead.
        elevations_deg: Elevation of each row above the horizon, from the first row to the last, degrees.
    """

    hfov_deg: float = 360.0
    elevations_deg: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        _check("Beams", "hfov_deg", self.hfov_deg, 1, 360)
        if not isinstance(self.elevations_deg, (tuple, list)) or not self.elevations_deg:
            raise ValueError(f"Beams(elevations_deg={self.elevations_deg!r}): pass a tuple of one or more degrees")
        for value in self.elevations_deg:
            _check("Beams", "elevations_deg", value, -90, 90)
        object.__setattr__(self, "elevations_deg", tuple(self.elevations_deg))

    def _directions(self, x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
        count = len(self.elevations_deg)
        elevation = np.interp(y / height * count - 0.5, np.arange(count), np.radians(self.elevations_deg))
        return _at_angles(_azimuth(self.hfov_deg, x, width), elevation)


LENSES: tuple[type[Any], ...] = (Equirectangular, Cylindrical, Fisheye, DoubleSphere, Orthographic, Beams)


def _azimuth(hfov_deg: float, x: np.ndarray, width: int) -> np.ndarray:
    """Return azimuths in radians, to the right, at columns of an image."""
    return np.radians(hfov_deg) * (x / width - 0.5)


def _at_angles(azimuth: np.ndarray, elevation: np.ndarray) -> np.ndarray:
    """Return unit vectors [..., 3] at azimuths to the right and elevations, radians."""
    level = np.cos(elevation)
    return np.stack(np.broadcast_arrays(level * np.sin(azimuth), np.sin(elevation), level * np.cos(azimuth)), axis=-1)


def _check(lens: str, name: str, value: object, least: float, most: float) -> None:
    """Raise ValueError unless a value is a number from ``least`` to ``most``."""
    if not is_number(value) or not least <= value <= most:
        raise ValueError(f"{lens}({name}={value!r}): pass a number from {least:g} to {most:g}")
