"""The camera and coordinate frames: headings, view and projection matrices, polar goals.

The world is Y up, in metres. A heading of 0 looks along -z, and headings increase to the left (counter-clockwise seen
from above), so the forward direction of heading ``h`` is ``(-sin h, 0, -cos h)``. A camera looks along its own -z, with
x to the right and y up. All functions are batched over N and use only NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.lenses import Beams, Lens
from gym_batchnav.system.numbers import check_finite, check_flags, is_number

_FEW = 100  # points; the hull of fewer is found as soon without dropping inner points first


class DepthEncoding(NamedTuple):
    """The encoding of depth: d metres are written as ``(clip(d, nearest, farthest) - offset) / unit``."""

    nearest: float  # metres
    farthest: float  # metres
    offset: float  # metres
    unit: float  # metres
    low: float  # written for the nearest depth
    high: float  # written for the farthest depth
    miss: float  # written where nothing is hit


class CameraPlaces(NamedTuple):
    """The places of one camera on N agents, instead of those of ``Camera``."""

    eye_height: np.ndarray  # [N] float64, metres
    pitch: np.ndarray  # [N] float64, radians
    yaw: np.ndarray  # [N] float64, radians


@dataclass(frozen=True, slots=True)
class CameraJitter:
    """Ranges from which the place of a camera is drawn for each episode, for training.

    The draws depend on the episode alone, not on the number of environments; all cameras of an agent share them. None
    keeps the value of the camera. Pictures of goals (``ImageNav``, ``InstanceImageNav``) are taken without jitter: how
    an agent's camera is placed in an episode does not change its goal.

    Attributes:
        eye_height: Lowest and highest height, metres.
        pitch_deg: Lowest and highest angle above the horizon, degrees.
        yaw_deg: Smallest and largest angle to the left, degrees.

    Raises:
        ValueError: A range is not a pair of finite numbers, the smaller one first.
    """

    eye_height: tuple[float, float] | None = None
    pitch_deg: tuple[float, float] | None = None
    yaw_deg: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name, limit in (("eye_height", 1000.0), ("pitch_deg", 90.0), ("yaw_deg", 360.0)):
            given = getattr(self, name)
            if given is None:
                continue
            if not isinstance(given, (tuple, list)) or len(given) != 2 or not all(map(is_number, given)):
                raise ValueError(f"{name}={given!r}: pass the lowest and the highest value, such as (0.9, 1.5)")
            if not -limit <= given[0] <= given[1] <= limit:
                raise ValueError(f"{name}={given!r}: pass two numbers from {-limit:g} to {limit:g}, the smaller first")
            object.__setattr__(self, name, tuple(given))

    def places(self, camera: Camera, uniform: np.ndarray) -> CameraPlaces:
        """Return the places of a camera for random numbers [N, 3] in [0, 1)."""
        drawn = []
        for column, name in enumerate(("eye_height", "pitch_deg", "yaw_deg")):
            low, high = getattr(self, name) or (getattr(camera, name),) * 2
            drawn.append(low + (high - low) * uniform[:, column])
        return CameraPlaces(drawn[0], np.radians(drawn[1]), np.radians(drawn[2]))


@dataclass(frozen=True, slots=True)
class Camera:
    """A camera with a pinhole or another lens, its place on the agent, and the encoding of its images.

    The camera is turned left by ``yaw_deg``, then tilted up by ``pitch_deg`` plus the agent's own pitch, and then
    rolled about its view axis.

    Attributes:
        width: Pixels in a row.
        height: Rows of pixels.
        hfov_deg: Horizontal field of view of a pinhole, degrees, between 1 and 170.
        eye_height: Height above the visible floor under the agent, metres. ``AgentState.position`` is a point of the
            navmesh, which lies up to a few voxels higher.
        near: Distance of the near plane, metres; with another lens than a pinhole, where rays begin. There is no far
            plane.
        max_depth: Depth is clipped to [min_depth, max_depth] metres.
        normalize_depth: Map the clipped depth linearly from [min_depth, max_depth] to [0, 1].
        depth_miss: Depth of a pixel where nothing is hit: ``"far"`` (max_depth) or ``"zero"``. As in Habitat, the zero
            is clipped like any other depth, so that it reads min_depth, or 0 if normalised.
        lit: Light the albedo with the head-and-sky light; False renders the bare albedo.
        cull_backfaces: Honour glTF's doubleSided instead of drawing every triangle from both sides.
        min_depth: See ``max_depth``.
        offset: Metres from the agent's vertical axis to the camera: to the right, and forward.
        yaw_deg: Angle by which the camera is turned away from the agent's heading, degrees; left is positive.
        pitch_deg: Angle above the horizon, degrees; up is positive.
        lens: Another lens than a pinhole, see ``gym_batchnav.lenses``, which Warp and Embree draw. Depth is then the
            distance along the ray.
        roll_deg: Angle about the view axis, degrees; positive turns the camera counter-clockwise, seen from behind it.
        jitter: Draws another height, pitch and yaw for each episode; None for those above.
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
    min_depth: float = 0.0
    offset: tuple[float, float] = (0.0, 0.0)
    yaw_deg: float = 0.0
    pitch_deg: float = 0.0
    roll_deg: float = 0.0
    lens: Lens | None = None
    jitter: CameraJitter | None = None

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= 4096:
                raise ValueError(f"{name}={size!r}: pass a whole number of pixels from 1 to 4096")
        numbers = ("hfov_deg", "eye_height", "near", "max_depth", "min_depth", "yaw_deg", "pitch_deg", "roll_deg")
        check_finite(**{name: getattr(self, name) for name in numbers})
        check_flags(**{name: getattr(self, name) for name in ("normalize_depth", "lit", "cull_backfaces")})
        if not 1.0 <= self.hfov_deg <= 170.0:
            raise ValueError(f"hfov_deg={self.hfov_deg}: pass a horizontal field of view from 1 to 170 degrees")
        if abs(self.eye_height) > 1000.0:
            raise ValueError(f"eye_height={self.eye_height}: pass metres from -1000 to 1000")
        if not self.near > 0.0:
            raise ValueError(f"near={self.near}: pass a distance in metres greater than 0")
        if not self.near < self.max_depth <= float(np.finfo(np.float32).max):
            raise ValueError(f"max_depth={self.max_depth}: pass metres greater than near={self.near}, at most 3.4e38")
        if not (0.0 <= self.min_depth and np.float32(self.min_depth) < np.float32(self.max_depth)):
            raise ValueError(f"min_depth={self.min_depth}: pass metres from 0 to less than max_depth={self.max_depth}")
        if not isinstance(self.offset, (tuple, list)) or len(self.offset) != 2 or not all(map(is_number, self.offset)):
            raise ValueError(f"offset={self.offset!r}: pass two numbers of metres, to the right and forward")
        if max(map(abs, self.offset)) > 1000.0:
            raise ValueError(f"offset={self.offset!r}: pass metres from -1000 to 1000")
        object.__setattr__(self, "offset", tuple(self.offset))
        if self.depth_miss not in ("far", "zero"):
            raise ValueError(f"depth_miss={self.depth_miss!r}: choose 'far' or 'zero'")
        if self.lens is not None and not isinstance(self.lens, Lens):
            raise ValueError(f"lens={self.lens!r}: pass a lens of gym_batchnav.lenses, or None for a pinhole")

        if self.jitter is not None and not isinstance(self.jitter, CameraJitter):
            raise ValueError(f"jitter={self.jitter!r}: pass a CameraJitter, or None")

    @classmethod
    def lidar(
        cls,
        num_beams: int = 360,
        elevations_deg: tuple[float, ...] = (0.0,),
        hfov_deg: float = 360.0,
        max_range: float = 10.0,
        eye_height: float = 0.25,
        **fields: Any,
    ) -> Camera:
        """Return a lidar: a camera whose depth is the range of each beam, in metres, [elevations, beams, 1].

        Args:
            num_beams: Beams per elevation, evenly spaced from left to right.
            elevations_deg: Elevations of the beams above the horizon, degrees, in the order of the rows.
            hfov_deg: Angle that the beams of one elevation cover, centred ahead, degrees.
            max_range: Beams that hit nothing nearer read this range, metres.
            eye_height: Metres above the visible floor. At the usual height of a camera, beams miss most furniture.
            **fields: Other fields of the camera.
        """
        lens = Beams(hfov_deg, elevations_deg)
        fields = {"normalize_depth": False, **fields}
        height = len(lens.elevations_deg)
        return cls(width=num_beams, height=height, eye_height=eye_height, max_depth=max_range, lens=lens, **fields)

    @property
    def depth_encoding(self) -> DepthEncoding:
        """The encoding of depth, for renderers."""
        nearest = self.min_depth
        farthest = self.max_depth
        is_far = self.depth_miss == "far"
        if not self.normalize_depth:
            return DepthEncoding(nearest, farthest, 0.0, 1.0, nearest, farthest, farthest if is_far else nearest)
        # The difference of float32, as renderers compute it, so that the farthest depth is exactly 1.
        unit = float(np.float32(farthest) - np.float32(nearest))
        return DepthEncoding(nearest, farthest, nearest, unit, 0.0, 1.0, 1.0 if is_far else 0.0)

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
        """Half the width of a pinhole's image plane at unit distance; ValueError for another lens."""
        if self.lens is not None:
            raise ValueError(f"lens={self.lens}: only a pinhole has an image plane; use lens.rays() for directions")
        return float(np.tan(np.radians(self.hfov_deg) / 2))

    @property
    def tan_half_height(self) -> float:
        """Half the height of the image plane at unit distance; pixels are square."""
        return self.tan_half_width * self.height / self.width


def forward_vectors(heading: np.ndarray) -> np.ndarray:
    """Return unit vectors [N, 3] in the forward direction of headings [N] (radians)."""
    zero = np.zeros_like(heading)
    return np.stack([-np.sin(heading), zero, -np.cos(heading)], axis=-1)


def view_matrices(position: np.ndarray, heading: np.ndarray, eye_height: float | np.ndarray) -> np.ndarray:
    """Return the world-to-camera matrices of level cameras above agents.

    Args:
        position: [N, 3], metres, on the visible floor under the agents.
        heading: [N], radians.
        eye_height: Metres from the floor to the camera, a number or [N].

    Returns:
        [N, 4, 4] float32; ``p_camera = (V @ [p_world, 1])[:3]``.
    """
    cos = np.cos(heading).astype(np.float32)
    sin = np.sin(heading).astype(np.float32)
    x = position[:, 0]
    y = position[:, 1] + np.asarray(eye_height, np.float32)
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


def camera_views(
    camera: Camera,
    position: np.ndarray,
    heading: np.ndarray,
    pitch: np.ndarray | None = None,
    places: CameraPlaces | None = None,
) -> np.ndarray:
    """Return the world-to-camera matrices of a camera that agents carry.

    Args:
        camera: The camera, for its place on the agent.
        position: [N, 3], metres, on the visible floor under the agents.
        heading: [N], radians.
        pitch: [N], radians by which the agents tilt their cameras, up positive; none by default.
        places: The camera's height, pitch and yaw on each agent, instead of the camera's own.

    Returns:
        [N, 4, 4] float32; ``p_camera = (V @ [p_world, 1])[:3]``.
    """
    right, forward = camera.offset
    if right or forward:
        cos = np.cos(heading)
        sin = np.sin(heading)
        zero = np.zeros_like(heading)
        position = position + np.stack([right * cos - forward * sin, zero, -right * sin - forward * cos], axis=-1)
    if places is not None:
        views = view_matrices(position, heading + places.yaw.astype(np.float32), places.eye_height)
        _turn_axes(views, 1, 2, places.pitch if pitch is None else places.pitch + pitch)
        return _rolled(views, camera)
    if camera.yaw_deg:
        heading = heading + np.float32(np.radians(camera.yaw_deg))
    views = view_matrices(position, heading, camera.eye_height)
    tilt = np.float32(np.radians(camera.pitch_deg))
    if pitch is not None and pitch.any():
        _turn_axes(views, 1, 2, tilt + pitch)
    elif tilt:
        _turn_axes(views, 1, 2, np.full(len(views), tilt))
    return _rolled(views, camera)


def _rolled(views: np.ndarray, camera: Camera) -> np.ndarray:
    """Roll views [N, 4, 4] about their axes by the camera's roll, in place, and return them."""
    if camera.roll_deg:
        _turn_axes(views, 0, 1, np.full(len(views), np.radians(camera.roll_deg)))
    return views


def _turn_axes(views: np.ndarray, first: int, second: int, angle: np.ndarray) -> None:
    """Turn two axes (rows) of views [N, 4, 4], in place, by angles [N] in radians from the first to the second."""
    cos = np.cos(angle).astype(np.float32)[:, None]
    sin = np.sin(angle).astype(np.float32)[:, None]
    old_first = views[:, first].copy()
    old_second = views[:, second].copy()
    views[:, first] = cos * old_first + sin * old_second
    views[:, second] = cos * old_second - sin * old_first


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
    """Return the world-to-camera matrices of upright cameras.

    Args:
        eye: [..., 3], metres, the cameras.
        target: [..., 3], metres, the points that they face.

    Returns:
        [..., 4, 4] float32.
    """
    eye = np.asarray(eye, np.float64)
    backward = eye - np.asarray(target, np.float64)
    backward /= np.linalg.norm(backward, axis=-1, keepdims=True)
    is_steep = np.abs(backward[..., 1:2]) >= 0.999
    right = np.cross(np.where(is_steep, [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]), backward)
    right /= np.linalg.norm(right, axis=-1, keepdims=True)
    views = np.zeros((*backward.shape[:-1], 4, 4))
    views[..., :3, :3] = np.stack([right, np.cross(backward, right), backward], axis=-2)
    views[..., :3, 3] = -(views[..., :3, :3] @ eye[..., None])[..., 0]
    views[..., 3, 3] = 1
    return views.astype(np.float32)


def polar_goals(position: np.ndarray, heading: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return goals in the agents' polar coordinates: Habitat's ``pointgoal_with_gps_compass``.

    Args:
        position: [N, 3], metres.
        heading: [N], radians.
        goal: [N, 3], metres.

    Returns:
        [N, 2] float32: horizontal distance in metres, and angle from straight ahead in radians, left positive.
    """
    way = goal - position
    ahead, right = to_agent_frame(way, heading)
    return np.stack([np.hypot(way[:, 0], way[:, 2]), -np.arctan2(right, ahead)], axis=-1).astype(np.float32)


def to_agent_frame(vectors: np.ndarray, heading: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of vectors [..., 3] ahead and to the right of agents with headings [...], in radians."""
    sin = np.sin(heading)
    cos = np.cos(heading)
    ahead = -sin * vectors[..., 0] - cos * vectors[..., 2]
    right = cos * vectors[..., 0] - sin * vectors[..., 2]
    return ahead, right


def wrap_angle(angle: np.ndarray) -> np.ndarray:
    """Return the same angles from -pi to pi, radians."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def convex_hull(points: np.ndarray) -> np.ndarray:
    """Return the corners [K, 2] of the convex hull of points [N, 2], in order (Andrew's monotone chain)."""
    unique = np.unique(_outer_points(points).round(4), axis=0)
    if len(unique) < 2:
        return unique
    chains = []
    for run in (unique.tolist(), unique[::-1].tolist()):
        chain: list[list[float]] = []
        for x, z in run:
            while len(chain) > 1 and _cross(chain[-2], chain[-1], (x, z)) <= 0:
                chain.pop()
            chain.append([x, z])
        chains += chain[:-1]
    return np.array(chains).reshape(-1, 2)


def _outer_points(points: np.ndarray) -> np.ndarray:
    """Drop points [N, 2] that lie more than a millimetre inside the octagon of the outermost points."""
    if len(points) < _FEW:
        return points
    angle = np.arange(8) * (np.pi / 4)
    corners = points[(points @ np.array([np.cos(angle), np.sin(angle)])).argmax(axis=0)]
    sides = np.roll(corners, -1, axis=0) - corners
    length = np.hypot(*sides.T)
    if not length.any():
        return points[:1]
    corners = corners[length > 0]
    sides = sides[length > 0] / length[length > 0, None]
    inward = np.array([-sides[:, 1], sides[:, 0]])
    inside = (points @ inward > (corners * inward.T).sum(axis=1) + 0.001).all(axis=1)
    return points[~inside]


def _cross(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    """Return a positive number if the path from a through b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
