"""Annotation of a scan: every triangle gets the object of the annotated mesh that lies where it lies.

The engine draws every sensor from one mesh, while scans come with two: one with pictures and one with annotations. They
agree in HM3D triangle by triangle, and in other datasets only as surfaces. So both are covered with points, each point
of the one takes the number of the nearest point of the other, and the points of a triangle vote. Meshes with the same
triangles have the same points, which makes the transfer exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from gym_batchnav.scene.builder import SceneBuilder
from gym_batchnav.scene.files import SceneFiles, naming_part
from gym_batchnav.scene.formats.gltf import read_gltf
from gym_batchnav.scene.formats.via_trimesh import read_object_ply
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.descriptors import MAX_DESCRIPTOR_BYTES, Descriptor, read_descriptor
from gym_batchnav.system.extras import OptionalPackage

REACH = 0.1  # metres between the two surfaces at most
_SPACING = 0.1  # metres between points, more for large scenes
_FREE_POINTS = 3_000_000  # in addition to one per triangle
_MAX_DIVISIONS = 64  # of an edge
_PLACES_PER_METRE = 1000
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)  # odd and large, as in hash functions
_SCIPY = OptionalPackage("scipy", "SciPy", "formats")
_LARGEST = 1e6  # metres, of the coordinates of annotated surfaces
_MOST_UNLISTED = 0.5  # share of the triangles with colours that are not listed, above which a warning is issued
_MOST_UNFOUND = 0.01  # share of the triangles without an annotated surface nearby, above which a warning is issued
_REMEDY = "check that the annotations are those of this scene"


class SemanticFiles(NamedTuple):
    """The two files of a scan's annotations: paths relative to the folder of the scene."""

    mesh: str  # GLB with colours, or PLY with object numbers
    descriptor: str  # lists the objects


def semantic_names(path: str) -> tuple[SemanticFiles, ...]:
    """Return the names that annotations of a scene's file have in the layouts of HM3D, MP3D, Gibson and Replica."""
    stem = Path(path).stem.removesuffix(".basis")
    found: tuple[SemanticFiles, ...] = (
        SemanticFiles(f"{stem}.semantic.glb", f"{stem}.semantic.txt"),
        SemanticFiles(f"{stem}_semantic.ply", f"{stem}.house"),
        SemanticFiles(f"{stem}_semantic.ply", f"{stem}.scn"),
    )
    if stem == "mesh":
        found += (SemanticFiles("habitat/mesh_semantic.ply", "habitat/info_semantic.json"),)
    elif stem == "mesh_semantic":
        found += (SemanticFiles("mesh_semantic.ply", "info_semantic.json"),)
    return found


def semantics_beside(path: Path) -> SemanticFiles | None:
    """Return the annotations next to a scene's file; None if there are none."""
    return next((one for one in semantic_names(path.name) if all((path.parent / name).is_file() for name in one)), None)


def annotate(scene: Scene, files: SceneFiles, names: SemanticFiles, place: Callable[[np.ndarray], np.ndarray]) -> Scene:
    """Replace the objects of a scene by those of its annotations.

    Triangles with no annotated surface nearby, and those of surfaces that the descriptor does not list, have no object.

    Args:
        scene: The scene.
        files: The scene's files, to whose ``python_warnings`` sentences are added that the user should see.
        names: The annotations.
        place: Transforms vertices [V, 3] of the annotated mesh to the scene's frame, in metres.

    Returns:
        The scene; ``metadata["semantics"]`` is the name of the descriptor. If SciPy is not installed, it is "" and
        the objects remain those of the scene.

    Raises:
        ValueError: If a file is damaged; the message names it.
        OSError: If one is missing.
    """
    if not _SCIPY.is_found():
        sentence = _SCIPY.missing(f"'{names.descriptor}' was not read, which", "remove these annotations")
        files.python_warnings.append(sentence)
        return replace(scene, warnings=(*scene.warnings, sentence), metadata={**scene.metadata, "semantics": ""})
    descriptor = read_descriptor(names.descriptor, files.beside(names.descriptor, max_bytes=MAX_DESCRIPTOR_BYTES))
    corners = scene.vertices[scene.triangles].astype(np.float64)
    spacing = choose_spacing(corners)
    part = files.part(names.mesh)
    with naming_part(names.mesh):
        points, ids = _annotated_points(part, descriptor, place, spacing)
    folder = PurePosixPath(names.mesh).parent
    files.digests.update({(folder / name).as_posix(): digest for name, digest in part.digests.items()})
    triangle_object, found = nearest_numbers(points, ids, corners, spacing)
    sentences = [f"'{names.mesh}': {sentence}" for sentence in part.warnings]
    files.python_warnings += [f"'{names.mesh}': {sentence}" for sentence in part.python_warnings]
    unfound = float((~found).mean())
    if unfound:
        sentence = f"{unfound:.1%} of the triangles lie nowhere near the surface of '{names.mesh}' and have no object"
        sentences.append(sentence)
        files.python_warnings += [f"{sentence}: {_REMEDY}"] if unfound > _MOST_UNFOUND else []
    unlisted = float((found & (triangle_object == 0)).mean())
    if descriptor.colors is not None and unlisted > _MOST_UNLISTED:
        sentence = (
            f"{unlisted:.1%} of the triangles have colours in '{names.mesh}' that '{names.descriptor}' does not list"
        )
        sentences.append(sentence)
        files.python_warnings.append(f"{sentence}: {_REMEDY}")
    return replace(
        scene,
        objects=descriptor.objects,
        triangle_object=triangle_object,
        warnings=(*scene.warnings, *sentences),
        metadata={**scene.metadata, "semantics": names.descriptor},
    )


def _annotated_points(
    files: SceneFiles, descriptor: Descriptor, place: Callable[[np.ndarray], np.ndarray], spacing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return points [P, 3] float64 on the annotated mesh, in the scene's frame, and their semantic ids [P] int64."""
    is_ply = files.path.suffix.lower() == ".ply"
    if is_ply:
        vertices, triangles, numbers = read_object_ply(files.main())
        painted = None
    else:
        if descriptor.colors is None:
            raise ValueError("its descriptor lists no colours: pass a PLY file with the property object_id")
        vertices, painted = read_painted_glb(files)
        triangles = painted.triangles
    with np.errstate(over="ignore", invalid="ignore"):
        corners = place(vertices)[triangles]
        usable = (np.abs(corners) < _LARGEST).all(axis=(1, 2))  # False for NaN too
    corners[~usable] = 0
    spacing = max(spacing, choose_spacing(corners))
    owner, weights = surface_points(corners, spacing)
    owner, weights = owner[usable[owner]], weights[usable[owner]]
    points = np.einsum("pk,pkx->px", weights, corners[owner])
    if painted is None:
        ids = numbers[owner] + 1 - descriptor.first_id
        return points, np.where((ids > 0) & (ids <= len(descriptor.objects)), ids, 0)
    assert descriptor.colors is not None
    colors = _colors_at(painted, owner, weights)
    table = np.array(sorted(descriptor.colors.items()), np.int64).reshape(-1, 2)
    row = np.minimum(np.searchsorted(table[:, 0], colors), len(table) - 1)
    return points, np.where(table[row, 0] == colors, table[row, 1], 0)


def read_painted_glb(files: SceneFiles) -> tuple[np.ndarray, Scene]:
    """Read a GLB whose colours mean something: its vertices [V, 3] float64 in the file's frame, and a scene of it.

    Raises:
        ValueError: If the file is damaged, uses an unsupported feature or has no triangles.
    """
    builder = SceneBuilder(files, filtered=False)  # averages of two objects' colours would mean a third
    read_gltf(files, builder)
    vertices, triangles = builder.vertices_and_triangles()
    return vertices, builder.build(files.path.stem, vertices.astype(np.float32), triangles, None, {})


def _colors_at(scene: Scene, owner: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the unlit colour [P] int64 of points on a scene's triangles: the nearest texel, or the nearest vertex.

    ``owner`` [P] is the triangle of every point, and ``weights`` [P, 3] are those of its corners.
    """
    corners = scene.triangles[owner]
    material = scene.triangle_material[owner]
    nearest = corners[np.arange(len(corners)), weights.argmax(axis=1)]
    rgb = np.rint(255 * scene.materials.base_color[material, :3]).astype(np.int64)
    if scene.colors is not None:
        rgb = rgb * scene.colors[nearest, :3] // 255
    texture = scene.materials.texture[material]
    for number in np.unique(texture[texture >= 0]).tolist():
        rows = np.flatnonzero(texture == number)
        assert scene.uvs is not None  # materials with a texture have them
        u, v = np.einsum("pk,pkx->xp", weights[rows], scene.uvs[corners[rows]]) % 1.0
        picture = scene.textures[number]
        height, width = picture.shape[:2]
        column = np.minimum((u * width).astype(np.int64), width - 1)
        row = np.minimum((v * height).astype(np.int64), height - 1)
        rgb[rows] = picture[row, column, :3]
    return (rgb[:, 0] << 16) | (rgb[:, 1] << 8) | rgb[:, 2]


def surface_points(corners: np.ndarray, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Cover triangles with points at most about ``spacing`` apart, and at least one for each.

    The points are the centroids of the n x n equal parts of a triangle, in which its edges are divided by n.

    Args:
        corners: [T, 3, 3], the corners of triangles, metres.
        spacing: Metres.

    Returns:
        The triangle [P] int64 of every point, and its weights [P, 3] float64 of the three corners.
    """
    divisions = _divisions(corners, spacing)
    owners = [np.zeros(0, np.int64)]
    weights = [np.zeros((0, 3))]
    for number in np.unique(divisions).tolist():
        rows = np.flatnonzero(divisions == number)
        pattern = _centroids(number)
        owners.append(np.repeat(rows, len(pattern)))
        weights.append(np.tile(pattern, (len(rows), 1)))
    return np.concatenate(owners), np.concatenate(weights)


def choose_spacing(corners: np.ndarray) -> float:
    """Return a distance between points at which triangles [T, 3, 3] do not get too many."""
    spacing = _SPACING
    while (_divisions(corners, spacing) ** 2).sum() > _FREE_POINTS + len(corners):
        spacing *= 1.5
    return spacing


def nearest_numbers(
    points: np.ndarray, numbers: np.ndarray, corners: np.ndarray, spacing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Give every triangle the number that most of its points find.

    Args:
        points: [P, 3], points of the annotated mesh, finite, metres.
        numbers: [P] int64, their numbers, from 0.
        corners: [T, 3, 3], the triangles, metres.
        spacing: Metres between the points of a triangle.

    Returns:
        The numbers [T] int32, and whether any point of a triangle lies near one of ``points``, [T] bool; others get 0.

    Raises:
        ImportError: If SciPy is not installed.
    """
    from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # its stubs are another package

    owner, weights = surface_points(corners, spacing)
    asked = np.einsum("pk,pkx->px", weights, corners[owner])
    single = _first_of_each(points)
    points, numbers = points[single], numbers[single]
    result = np.zeros(len(corners), np.int32)
    found = np.zeros(len(corners), bool)
    if not len(points):
        return result, found
    distance, nearest = cKDTree(points).query(asked, distance_upper_bound=max(REACH, spacing))
    near = np.isfinite(distance)
    found[owner[near]] = True
    base = int(numbers.max()) + 1
    votes, counts = np.unique(owner[near] * base + numbers[nearest[near]], return_counts=True)
    voters, chosen = np.divmod(votes, base)
    order = np.lexsort((-chosen, counts, voters))  # the last row of a triangle has the most votes
    result[voters[order]] = chosen[order]
    return result, found


def _first_of_each(points: np.ndarray) -> np.ndarray:
    """Return one row [U] of each place of points [P, 3], since a k-d tree searches equal points one by one."""
    cells = np.rint(points * _PLACES_PER_METRE).astype(np.int64).astype(np.uint64)
    hashed = (cells * np.array(_MULTIPLIERS, np.uint64)).sum(axis=1)  # modulo 2**64; a rare collision costs a point
    return np.unique(hashed, return_index=True)[1]


def _divisions(corners: np.ndarray, spacing: float) -> np.ndarray:
    """Return the number of parts [T] int64 into which the edges of triangles are divided."""
    longest = np.zeros(len(corners))
    for one, other in ((0, 1), (1, 2), (2, 0)):
        np.maximum(longest, np.linalg.norm(corners[:, one] - corners[:, other], axis=1), out=longest)
    return np.clip(np.ceil(longest / spacing - 1e-3), 1, _MAX_DIVISIONS).astype(np.int64)


def _centroids(number: int) -> np.ndarray:
    """Return the weights [n * n, 3] of the centroids of a triangle's parts."""
    first, second = np.mgrid[:number, :number].reshape(2, -1)
    upright = first + second < number
    inverted = first + second < number - 1
    thirds = np.concatenate([(np.stack([first, second], 1) + 1 / 3)[upright],
                             (np.stack([first, second], 1) + 2 / 3)[inverted]])  # fmt: skip
    weights = thirds / number
    return np.concatenate([weights, 1 - weights.sum(axis=1, keepdims=True)], axis=1)
