"""The camera and coordinate frames: headings, view and projection matrices, polar goals.

The world is Y up, in metres. A heading of 0 looks along -z, and headings increase to the left (counter-clockwise seen
from above), so the forward direction of heading ``h`` is ``(-sin h, 0, -cos h)``. A camera looks along its own -z, with
x to the right and y up. All functions are batched over N and use only NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera and the encoding of its images.

    Attributes:
        width: Pixels in a row.
        height: Rows of pixels.
        hfov_deg: Horizontal field of view, degrees, between 1 and 170.
        eye_height: Height above the visible floor under the agent, metres. ``AgentState.position`` is a point of the
            navmesh, which lies up to a few voxels higher.
        near: Distance of the near plane, metres. There is no far plane.
        max_depth: Depth is clipped to [0, max_depth] metres.
        normalize_depth: Divide the clipped depth by max_depth, so that it lies in [0, 1].
        depth_miss: Depth of a pixel where nothing is hit: ``"far"`` (max_depth) or ``"zero"`` (as in Habitat).
        lit: Light the albedo with the head-and-sky light; False renders the bare albedo.
        cull_backfaces: Honour glTF's doubleSided instead of drawing every triangle from both sides.
    """

    width: int = 64
    height: int = 64
    hfov_deg: float = 90.0
    eye_height: float = 1.25
    near: float = 0.05
    max_depth: float = 10.0
    normalize_depth: bool = True
    depth_miss: str = "far"
    lit: bool = True
    cull_backfaces: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError unless every field is within its bounds."""
        for name in ("width", "height"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= 4096:
                raise ValueError(f"{name}={size!r}: pass a whole number of pixels from 1 to 4096")
        for name in ("hfov_deg", "eye_height", "near", "max_depth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
                raise ValueError(f"{name}={value!r}: pass a finite number")
        for name in ("normalize_depth", "lit", "cull_backfaces"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name}={getattr(self, name)!r}: pass True or False")
        if not 1.0 <= self.hfov_deg <= 170.0:
            raise ValueError(f"hfov_deg={self.hfov_deg}: pass a horizontal field of view from 1 to 170 degrees")
        if abs(self.eye_height) > 1000.0:
            raise ValueError(f"eye_height={self.eye_height}: pass metres from -1000 to 1000")
        if not self.near > 0.0:
            raise ValueError(f"near={self.near}: the near plane must lie in front of the camera")
        if not self.max_depth > self.near:
            raise ValueError(f"max_depth={self.max_depth}: it must be greater than near={self.near}")
        if self.depth_miss not in ("far", "zero"):
            raise ValueError(f"depth_miss={self.depth_miss!r}: choose 'far' or 'zero'")

    @property
    def intrinsics(self) -> np.ndarray:
        """[3, 3] float64 pinhole matrix K in pixels, as in OpenCV: x to the right, y down, z ahead.

        A point (x, y, z) in this package's camera frame (y up, looking along -z) projects to
        ``(u, v, 1) = K @ (x, -y, -z) / -z``. Pixel (column, row) covers [column, column + 1] x [row, row + 1], so
        its centre is at (column + 0.5, row + 0.5).
        """
        focal = self.width / (2 * self.tan_half_width)
        return np.array([[focal, 0, self.width / 2], [0, focal, self.height / 2], [0, 0, 1]])

    @property
    def tan_half_width(self) -> float:
        """Half the width of the image plane at unit distance."""
        return float(np.tan(np.radians(self.hfov_deg) / 2))

    @property
    def tan_half_height(self) -> float:
        """Half the height of the image plane at unit distance; pixels are square."""
        return self.tan_half_width * self.height / self.width


def forward_vectors(heading: np.ndarray) -> np.ndarray:
    """Return unit vectors [N, 3] in the forward direction of headings [N] (radians)."""
    zero = np.zeros_like(heading)
    return np.stack([-np.sin(heading), zero, -np.cos(heading)], axis=-1)


def view_matrices(position: np.ndarray, heading: np.ndarray, eye_height: float) -> np.ndarray:
    """Return the world-to-camera matrices of level cameras above agents.

    Args:
        position: [N, 3], metres, on the visible floor under the agents.
        heading: [N], radians.
        eye_height: Metres from the floor to the camera.

    Returns:
        [N, 4, 4] float32; ``p_camera = (V @ [p_world, 1])[:3]``.
    """
    cos = np.cos(heading).astype(np.float32)
    sin = np.sin(heading).astype(np.float32)
    x = position[:, 0]
    y = position[:, 1] + np.float32(eye_height)
    z = position[:, 2]
    views = np.zeros((len(position), 4, 4), np.float32)
    views[:, 0, 0] = cos
    views[:, 0, 2] = -sin
    views[:, 0, 3] = sin * z - cos * x
    views[:, 1, 1] = 1
    views[:, 1, 3] = -y
    views[:, 2, 0] = sin
    views[:, 2, 2] = cos
    views[:, 2, 3] = -sin * x - cos * z
    views[:, 3, 3] = 1
    return views


def camera_to_world(views: np.ndarray) -> np.ndarray:
    """Return camera poses: the inverses of rigid world-to-camera matrices.

    Args:
        views: [..., 4, 4], as from ``view_matrices`` or ``look_at``.

    Returns:
        [..., 4, 4] of the same type; ``p_world = (P @ [p_camera, 1])[:3]``. The columns of the rotation are the
        camera's right, up and backward axes in the world, the last column is the eye. This is OpenGL's and Habitat's
        convention; for OpenCV's (y down, z ahead) negate the second and third column.
    """
    poses = np.zeros_like(views)
    poses[..., :3, :3] = np.swapaxes(views[..., :3, :3], -1, -2)
    poses[..., :3, 3] = -(poses[..., :3, :3] @ views[..., :3, 3:])[..., 0]
    poses[..., 3, 3] = 1
    return poses


def look_at(eye: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the world-to-camera matrix [4, 4] float32 of an upright camera at ``eye`` [3] facing ``target`` [3]."""
    backward = np.asarray(eye, np.float64) - np.asarray(target, np.float64)
    backward /= np.linalg.norm(backward)
    up = np.array([0.0, 1.0, 0.0]) if abs(backward[1]) < 0.999 else np.array([0.0, 0.0, -1.0])
    right = np.cross(up, backward)
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3] = np.stack([right, np.cross(backward, right), backward])
    view[:3, 3] = -view[:3, :3] @ np.asarray(eye, np.float64)
    return view.astype(np.float32)


def projection_matrix(camera: Camera) -> np.ndarray:
    """Return the projection matrix [4, 4] float32 in OpenGL's convention, with an infinite far plane."""
    matrix = np.zeros((4, 4), np.float32)
    matrix[0, 0] = 1 / camera.tan_half_width
    matrix[1, 1] = 1 / camera.tan_half_height
    matrix[2, 2] = -1
    matrix[2, 3] = -2 * camera.near
    matrix[3, 2] = -1
    return matrix


def polar_goals(position: np.ndarray, heading: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return goals in the agents' polar coordinates: Habitat's ``pointgoal_with_gps_compass``.

    Args:
        position: [N, 3], metres.
        heading: [N], radians.
        goal: [N, 3], metres.

    Returns:
        [N, 2] float32: horizontal distance in metres, and angle from straight ahead in radians, left positive.
    """
    dx = goal[:, 0] - position[:, 0]
    dz = goal[:, 2] - position[:, 2]
    cos = np.cos(heading)
    sin = np.sin(heading)
    right = cos * dx - sin * dz
    backward = sin * dx + cos * dz
    return np.stack([np.hypot(dx, dz), -np.arctan2(right, -backward)], axis=-1).astype(np.float32)
