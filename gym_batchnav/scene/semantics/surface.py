"""Points on triangles, and the transfer of object numbers from one mesh to another that has the same surface.

The engine draws every sensor from one mesh, while scans come with two: one with pictures and one with annotations. They
agree in HM3D triangle by triangle, and in other datasets only as surfaces. So both are covered with points, each point
of the one takes the number of the nearest point of the other, and the points of a triangle vote. Meshes with the same
triangles have the same points, which makes the transfer exact.
"""

from __future__ import annotations

import numpy as np

REACH = 0.1  # metres between the two surfaces at most
_SPACING = 0.1  # metres between points, more for large scenes
_FREE_POINTS = 3_000_000  # in addition to one per triangle
_MAX_DIVISIONS = 64  # of an edge
_PLACES_PER_METRE = 1000
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)  # odd and large, as in hash functions


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
