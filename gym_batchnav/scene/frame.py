"""The frame of a scene's file: its up axis, its unit and its origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.scene.files import SceneFiles

Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
UP_ROTATIONS = {"y": np.eye(3), "z": Z_UP}  # by the axis that they turn to y
_SPECIFIED = {".glb": "y", ".gltf": "y", ".xml": "z"}  # up axes of formats that specify it, and metres
_USUAL_UP = {".obj": "y"}  # z for other formats
_BLOCK = 2**18  # triangles processed at once, which limits memory
_CLEARLY = 2.0  # ratio of surface facing one axis to surface facing the other that decides which axis is up
_ROOM_HEIGHT = 1.5  # metres, above which a scene may be a building
_STOREY = (2.2, 4.5)  # metres: heights of a building of one storey,
_STOREY_WIDTH = 1.6  # which is at least this many times as wide and as deep as high
_STOREY_LEVEL = 0.5  # least ratio of its surface facing up to its surface facing another axis: walls may have more
_MILLIMETRES = 1000.0  # heights in units above which these are assumed to be the unit
_CENTIMETRES = 100.0
_FAR = 8192.0  # metres: beyond it, float32 coordinates are a millimetre or more apart


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The transform of a file's coordinates to metres with y up: ``factors * (rotation @ vertex) - origin``."""

    rotation: np.ndarray  # [3, 3] float64, to y up, and if a file states it with the front at -z
    factors: np.ndarray  # [3] float64, metres per unit along the axes after the rotation
    origin: np.ndarray  # [3] float64, metres
    up: str  # "y", "z" or the name of the file that states it

    def apply(self, vertices: np.ndarray) -> np.ndarray:
        """Transform vertices [V, 3] of the file, or of one in the same frame, to metres with y up, float64."""
        return vertices @ self.rotation.T * self.factors - self.origin

    def facts(self) -> dict[str, object]:
        """Return the entries of ``Scene.metadata``: ``up``, ``scale`` and ``origin``."""
        factors = self.factors.tolist()
        scale = factors[0] if len(set(factors)) == 1 else tuple(factors)
        return {"up": self.up, "scale": scale, "origin": tuple(self.origin.tolist())}


def place(
    files: SceneFiles,
    vertices: np.ndarray,
    triangles: np.ndarray,
    up: str,
    scale: str | float,
    stated: Frame | None = None,
) -> tuple[np.ndarray, Frame]:
    """Find a scene's frame and transform its vertices to metres with y up; guesses are added to the warnings.

    Args:
        files: The scene's files.
        vertices: [V, 3] float64, in the file's frame.
        triangles: [T, 3] integers.
        up: ``"y"``, ``"z"`` or ``"auto"``; see ``load_scene`` for the rules of up and scale.
        scale: Metres per unit, or ``"auto"``.
        stated: The frame that a configuration next to the file states, which decides if ``"auto"`` is given.

    Returns:
        The vertices [V, 3] float32 and the frame.

    Raises:
        ValueError: If coordinates exceed the range of float32.
    """
    if stated is not None:
        taken = [name for name, given in (("up", up), ("scale", scale)) if given == "auto"]
        options = " and ".join(f"{name}=" for name in taken)
        files.warnings.append(f"Taken from '{stated.up}': {' and '.join(taken)}; pass {options} to override")
    with np.errstate(over="ignore", invalid="ignore"):  # overflows are detected below
        suffix = files.path.suffix.lower()
        if up == "auto" and stated is not None:
            rotation = stated.rotation
            up = next((axis for axis, matrix in UP_ROTATIONS.items() if np.array_equal(matrix, rotation)), stated.up)
        else:
            if up == "auto" and suffix in _SPECIFIED:
                up = _SPECIFIED[suffix]
                _warn_of_its_side(files, vertices, triangles, up, 1.0 if scale == "auto" else float(scale))
            elif up == "auto":
                up = _guess_up(files, vertices, triangles, _USUAL_UP.get(suffix, "z"))
            rotation = UP_ROTATIONS[up]
        turned = vertices @ rotation.T
        factors = _factors(files, float(np.ptp(turned[:, 1])), scale, stated)
        turned *= factors
        origin = _origin(files, turned)
        placed = (turned - origin).astype(np.float32)
    if not np.isfinite(placed).all():
        raise ValueError("its vertices are not finite in world space: check the transforms of its nodes")
    return placed, Frame(rotation, factors, origin, up)


def _warn_of_its_side(files: SceneFiles, vertices: np.ndarray, triangles: np.ndarray, up: str, scale: float) -> None:
    """Warn if a glTF file, which should have y up, seems to be a building with z up, as exports for Habitat are."""
    wide, deep, high = np.ptp(vertices, axis=0) * scale
    if up != "y" or not _ROOM_HEIGHT < high < min(wide, deep):
        return
    facing_y, facing_z = _facing(vertices, triangles)
    is_storey = _STOREY[0] <= high <= _STOREY[1] and min(wide, deep) >= _STOREY_WIDTH * high
    if facing_z > (_STOREY_LEVEL if is_storey else _CLEARLY) * facing_y:
        unit = "" if scale == 1 else f', "units_to_meters": {scale:g}'
        config = f'\'{files.path.stem}.stage_config.json\' with {{"up": [0, 0, 1], "front": [0, 1, 0]{unit}}}'
        files.warn(
            "It seems to lie on its side: glTF has y up, but it has the shape of a building with z up, as in files for "
            f"Habitat: write {config} next to it, or pass up='z' to load_scene; pass up='y' if it stands right"
        )


def _guess_up(files: SceneFiles, vertices: np.ndarray, triangles: np.ndarray, usual: str) -> str:
    """Guess the up axis, "y" or "z": the one that clearly more surface faces, else ``usual``."""
    facing_y, facing_z = _facing(vertices, triangles)
    up = "y" if facing_y > _CLEARLY * facing_z else "z" if facing_z > _CLEARLY * facing_y else usual
    if "z" in (up, usual):
        other = "y" if up == "z" else "z"
        files.warnings.append(f"The up axis was guessed to be {up}: pass up='{other}' if the scene lies on its side")
    return up


def _facing(vertices: np.ndarray, triangles: np.ndarray) -> tuple[float, float]:
    """Return twice the surface that faces y and that which faces z, either way."""
    facing_y = facing_z = 0.0
    for first in range(0, len(triangles), _BLOCK):
        a, b, c = (vertices[triangles[first : first + _BLOCK, k]] for k in range(3))
        normals = np.cross(b - a, c - a)
        lengths = np.linalg.norm(normals, axis=1)
        facing_y += lengths[np.abs(normals[:, 1]) > 0.95 * lengths].sum()
        facing_z += lengths[np.abs(normals[:, 2]) > 0.95 * lengths].sum()
    return facing_y, facing_z


def _factors(files: SceneFiles, height: float, scale: str | float, stated: Frame | None) -> np.ndarray:
    """Return the metres per unit along each axis [3]."""
    if scale != "auto":
        return np.full(3, float(scale))
    if stated is not None:
        return stated.factors
    if files.path.suffix.lower() in _SPECIFIED:
        if height > _MILLIMETRES:
            remedy = "pass scale=0.001 (or units_to_meters in a stage_config) if its unit is the millimetre"
            files.warn(f"It is {height:g} m high if its unit is the metre, as its format specifies: {remedy}")
        return np.ones(3)
    unit, factor = ("millimetres", 0.001) if height > _MILLIMETRES else ("centimetres", 0.01)
    if height <= _CENTIMETRES:
        factor = 1.0
    else:
        files.warn(f"It is {height:g} units high, which were assumed to be {unit}: pass scale= if they are not")
    return np.full(3, factor)


def _origin(files: SceneFiles, vertices: np.ndarray) -> np.ndarray:
    """Return the new origin [3] float64 in whole metres; zero along axes on which the scene is near its own origin."""
    low = vertices.min(axis=0)
    high = vertices.max(axis=0)
    if not np.isfinite([low, high]).all():
        return np.zeros(3)
    farthest = np.maximum(-low, high)
    origin = np.where(farthest > _FAR, np.round((low + high) / 2), 0.0)
    if not origin.any():
        return origin
    if files.path.with_suffix(".navmesh").is_file():  # the navmesh and its episodes are in the file's own frame
        extent = f"It extends {farthest.max():,.0f} m from its origin, where float32 is coarse"
        files.warn(f"{extent}, and was not moved because it has a .navmesh: move both nearer to the origin")
        return np.zeros(3)
    point = ", ".join(f"{value:.0f}" for value in origin)
    files.warn(f"It lies so far away that float32 would be coarse: its origin was moved to ({point}) m")
    return origin


def rotation_matrix(w: float, x: float, y: float, z: float) -> np.ndarray:
    """Return the rotation [3, 3] float64 of a quaternion of any length but zero."""
    s = 2 / (w * w + x * x + y * y + z * z)
    return np.array(
        [
            [1 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)],
            [s * (x * y + z * w), 1 - s * (x * x + z * z), s * (y * z - x * w)],
            [s * (x * z - y * w), s * (y * z + x * w), 1 - s * (x * x + y * y)],
        ]
    )
