"""Building of navmeshes from triangles, in the stages of Recast 1.6 and with Habitat's settings.

Each stage names the Recast function that it re-creates; none of the code is Recast's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gym_batchnav.navmesh.build import voxel
from gym_batchnav.navmesh.build.contours import region_outlines, trace
from gym_batchnav.navmesh.build.detail import Floors, triangulate_floors
from gym_batchnav.navmesh.build.polygons import polygonise, weld
from gym_batchnav.navmesh.build.regions import merge_regions, region_rings, watershed
from gym_batchnav.navmesh.record import (
    NavMeshData,
    NavMeshSettings,
    label_islands,
    shared_edge_neighbours,
)

MAX_COLUMNS = 3 * 2**21  # of the grid: 125 m x 125 m with cells of 5 cm; a column takes about 20 bytes
MAX_SPANS = 3 * 2**23  # solid spans of all columns; one takes up to 14 bytes
MAX_FLOORS = 3 * 2**22  # open spans, on which the agent can stand; one takes up to 45 bytes
MAX_PAIRS = 2**27  # pairs of spans in the same column; they take at most four seconds
MAX_CELL_VISITS = 2**27  # cells that triangles cover, summed over triangles; they take at most five seconds
MAX_ROW = 2**20  # cells along x or z that float32 can still distinguish
MAX_LEVELS = 2**15 - 2  # voxels along y, as int16; four times what Recast's 13 bits hold
MIN_SAMPLE_DIST = 0.9  # cells: heights are not sampled with a smaller detail_sample_dist
_BLOCK = 2**14  # triangles
_HIGH = 100.0  # metres: the unit of higher scenes is rarely the metre
SMALLEST_CROSS = 1e-12  # square metres: triangles whose sides have a shorter cross product are dropped


@dataclass(frozen=True, slots=True)
class _Grid:
    """The voxel grid and the agent's dimensions in it."""

    origin: np.ndarray  # [3] float32, metres
    width: int  # cells along x
    depth: int  # cells along z
    expected_spans: int  # an estimate, usually too high
    height: int  # voxels that the agent needs above the floor
    climb: int  # voxels
    radius: int  # cells


@dataclass(frozen=True, slots=True)
class _Floor:
    """The cells where the agent's centre can be, sorted by column and from low to high."""

    column: np.ndarray  # [S] int32, z * width + x
    floor: np.ndarray  # [S] int16, voxels
    links: np.ndarray  # [S, 4] int32


def build_navmesh(
    vertices: np.ndarray,
    triangles: np.ndarray,
    settings: NavMeshSettings | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> NavMeshData:
    """Build the navmesh of a triangle soup.

    Triangles are walkable on the side from which they wind counter-clockwise. The surface need not be closed, and
    triangles may intersect each other, repeat or have no area.

    Args:
        vertices: [V, 3] float, metres, Y up.
        triangles: [T, 3] int, rows of ``vertices``.
        settings: The agent and the resolution; Habitat's by default.
        progress: Called at the beginning of each stage with its name and the fraction of the work done before it.

    Raises:
        ValueError: If the input is malformed, too large for the cell size, or has no walkable area.
    """
    settings = settings or NavMeshSettings()
    report = progress or (lambda stage, share: None)
    _check_settings(settings)
    report("voxelise", 0.0)
    points, triangles, walkable = _clean(vertices, triangles, settings)
    grid = _make_grid(points, triangles, settings)
    floor = _find_floor(points, triangles, walkable, grid, settings, report)
    report("divide into regions", 0.6)
    region = _divide(floor, settings)
    report("trace outlines", 0.75)
    mesh = _polygonise(floor, region, grid, settings, report) if region.any() else None
    if mesh is None:
        raise ValueError(
            f"the scene has no walkable area for an agent of radius {settings.agent_radius:g} m and height "
            f"{settings.agent_height:g} m: check that Y is up, that the unit is the metre and that floors wind "
            "counter-clockwise seen from above, or reduce agent_radius or region_min_size"
        )
    report("done", 1.0)
    return mesh


def _check_settings(settings: NavMeshSettings) -> None:
    if settings.agent_max_climb > settings.agent_height:
        # Otherwise an agent could step to two floors of one column, and links would not be mutual.
        raise ValueError(
            f"agent_max_climb={settings.agent_max_climb}: it must not exceed agent_height={settings.agent_height}"
        )
    if settings.agent_height / settings.cell_height > MAX_LEVELS:
        raise ValueError(
            f"cell_height={settings.cell_height}: an agent of height {settings.agent_height} would have more than "
            f"{MAX_LEVELS:,} voxels; give a larger cell_height"
        )


def _clean(
    vertices: np.ndarray, triangles: np.ndarray, settings: NavMeshSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the vertices as float32, the triangles that have an area, and a mask of those flat enough to walk on."""
    with np.errstate(over="ignore"):
        points = np.asarray(vertices, np.float32)
    triangles = np.asarray(triangles)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"vertices have the shape {points.shape}: give [V, 3]")
    if triangles.ndim != 2 or triangles.shape[1] != 3 or not np.issubdtype(triangles.dtype, np.integer):
        raise ValueError(f"triangles have the shape {triangles.shape} of {triangles.dtype}: give [T, 3] of integers")
    if len(triangles) == 0:
        raise ValueError("there are no triangles to build a navmesh from")
    if triangles.min() < 0 or triangles.max() >= len(points):
        raise ValueError(
            f"triangles refer to vertices {triangles.min()} to {triangles.max()}, but there are {len(points)}"
        )
    if not np.isfinite(points).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(points).all(axis=1))} vertices are not finite")
    steepest = np.float32(np.cos(np.radians(settings.agent_max_slope_deg)))
    kept = np.empty(len(triangles), bool)
    walkable = np.empty(len(triangles), bool)
    for rows in _blocks(len(triangles)):
        a, b, c = (points[triangles[rows, k]] for k in range(3))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            normal = np.cross(b - a, c - a)
            length = np.sqrt((normal * normal).sum(axis=1))
            walkable[rows] = normal[:, 1] / length > steepest
        kept[rows] = ~(length <= SMALLEST_CROSS)  # Triangles that overflow are kept; _make_grid rejects them.
    if not kept.any():
        raise ValueError(f"none of the {len(triangles)} triangles has an area")
    if kept.all():
        return points, triangles.astype(np.int32, copy=False), walkable
    return points, triangles[kept].astype(np.int32), walkable[kept]


def _blocks(count: int) -> Iterator[slice]:
    """Yield slices of ``count`` triangles, so that intermediate values fit into the processor's cache."""
    return (slice(start, start + _BLOCK) for start in range(0, count, _BLOCK))


def _make_grid(points: np.ndarray, triangles: np.ndarray, settings: NavMeshSettings) -> _Grid:
    used = np.zeros(len(points), bool)
    used[triangles] = True
    origin = points[used].min(axis=0)
    upper = points[used].max(axis=0)
    cell_size = np.float32(settings.cell_size)
    cell_height = np.float32(settings.cell_height)
    size = upper.astype(np.float64) - origin
    columns = size[0] / settings.cell_size * size[2] / settings.cell_size
    levels = size[1] / settings.cell_height
    is_wide = columns > MAX_COLUMNS or max(size[0], size[2]) / settings.cell_size > MAX_ROW
    if is_wide or levels > MAX_LEVELS:
        raise ValueError(
            f"the scene measures {size[0]:g} x {size[1]:g} x {size[2]:g} m: {_unit_hint(size[1])}; it has "
            f"{columns:.3g} columns of voxels with cell_size={settings.cell_size} and {levels:.3g} levels with "
            f"cell_height={settings.cell_height}; the limits are {MAX_COLUMNS:,} columns, {MAX_ROW:,} in a row, and "
            f"{MAX_LEVELS:,} levels: give a larger {'cell_size' if is_wide else 'cell_height'}"
        )
    visits = _cell_visits(points, triangles, settings.cell_size)
    if visits > MAX_CELL_VISITS:
        raise ValueError(
            f"the {len(triangles):,} triangles cover {visits:.3g} cells with cell_size={settings.cell_size}; the limit "
            f"is {MAX_CELL_VISITS:,}: give a larger cell_size, or check that the unit is the metre"
        )
    width, _, depth = (max(int(extent / cell_size + np.float32(0.5)), 1) for extent in upper - origin)
    return _Grid(
        origin=origin,
        width=width,
        depth=depth,
        expected_spans=int(visits),
        height=max(int(np.ceil(np.float32(settings.agent_height) / cell_height)), 1),
        climb=int(np.floor(np.float32(settings.agent_max_climb) / cell_height)),
        radius=int(np.ceil(np.float32(settings.agent_radius) / cell_size)),
    )


def _unit_hint(height: float) -> str:
    """Return what to do about the unit of a scene of a height in metres."""
    if height < _HIGH:
        return "check that the unit is the metre"
    unit, scale = ("centimetre", 0.01) if height < 10 * _HIGH else ("millimetre", 0.001)
    return (
        f"that is hardly the size of a building; if its unit is the {unit}, pass scale={scale} to load_scene, or set "
        f"units_to_meters in the stage_config that 'gym-batchnav scene info FILE --scale {scale}' prints"
    )


def _cell_visits(points: np.ndarray, triangles: np.ndarray, cell_size: float) -> float:
    """Estimate the number of cells that triangles touch seen from above, summed over triangles."""
    visits = 0.0
    for rows in _blocks(len(triangles)):
        a, b, c = (points[triangles[rows, k]][:, ::2].astype(np.float64) / cell_size for k in range(3))
        area = np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
        longest = np.maximum(np.abs(b - a), np.maximum(np.abs(c - a), np.abs(c - b))).max(axis=1)
        visits += float((area + 2 * longest + 1).sum())
    return visits


def _find_floor(
    points: np.ndarray,
    triangles: np.ndarray,
    walkable: np.ndarray,
    grid: _Grid,
    settings: NavMeshSettings,
    report: Callable[[str, float], None],
) -> _Floor:
    """Voxelise, filter and erode, as Recast does from rcRasterizeTriangles to rcErodeWalkableArea."""
    cell_size = np.float32(settings.cell_size)
    cell_height = np.float32(settings.cell_height)
    head, linked, num_spans = voxel.rasterise(
        *(points - grid.origin, triangles, walkable, cell_size, cell_height),
        *(grid.width, grid.depth, MAX_SPANS, grid.expected_spans),
    )
    if num_spans == -1:
        raise ValueError(
            f"the scene fills more than {MAX_SPANS:,} spans of voxels: give a larger cell_size than "
            f"{settings.cell_size}, or split the scene"
        )
    report("filter", 0.4)
    pairs: float = np.inf
    if num_spans >= 0:
        spans = voxel.flatten(head, linked)
        del head, linked  # the largest arrays of the build
        heights = np.bincount(np.diff(spans.start)).astype(float)  # columns by their number of spans
        pairs = float(heights @ np.arange(len(heights)) ** 2) / 2
    if pairs > MAX_PAIRS:
        raise ValueError(
            f"too many floors lie above each other: {pairs:.3g} pairs of voxel spans share a column; the limit is "
            f"{MAX_PAIRS:,}: give a larger cell_size than {settings.cell_size}, or split the scene by storeys"
        )
    if settings.filter_low_hanging_obstacles:
        voxel.filter_low_hanging(spans, grid.climb)
    if settings.filter_ledge_spans:
        voxel.filter_ledges(spans, grid.width, grid.height, grid.climb)
    floors = voxel.find_floors(spans, grid.height if settings.filter_walkable_low_height_spans else 0)
    del spans
    if len(floors.floor) > MAX_FLOORS:
        raise ValueError(
            f"the scene has {len(floors.floor):,} spans of voxels to stand on; the limit is {MAX_FLOORS:,}: give a "
            f"larger cell_size than {settings.cell_size}, or split the scene"
        )
    report("erode", 0.5)
    links = voxel.link(floors, grid.width, grid.height, grid.climb)
    column = floors.column
    floor = floors.floor
    del floors
    kept = voxel.boundary_distance(links) >= 2 * grid.radius
    return _Floor(column[kept], floor[kept], voxel.keep_spans(links, kept))


def _divide(floor: _Floor, settings: NavMeshSettings) -> np.ndarray:
    """Return the region of every span [S] int32, 0 for spans of areas that are too small to keep."""
    if len(floor.links) == 0:
        return np.zeros(0, np.int32)
    region, count = watershed(floor.links, voxel.boundary_distance(floor.links))
    start, met = region_rings(floor.links, region, count)
    rings = [met[start[number] : start[number + 1]].tolist() for number in range(count)]
    smallest = settings.region_min_size**2
    merged = settings.region_merge_size**2
    return merge_regions(region, rings, floor.column, smallest, merged)


def _polygonise(
    floor: _Floor, region: np.ndarray, grid: _Grid, settings: NavMeshSettings, report: Callable[[str, float], None]
) -> NavMeshData | None:
    """Outline the regions, divide them into convex polygons and add heights; return None if no polygon is left."""
    max_length = int(np.float32(settings.edge_max_len) / np.float32(settings.cell_size))
    points, start, owners = trace(floor.links, floor.floor, floor.column, region, grid.width)
    outlines = region_outlines(points, start, owners, settings.edge_max_error, max_length)
    numbers = [number for number, rings in sorted(outlines.items()) for _ in rings]
    tolerance = min(2 * grid.climb, grid.height - 1)
    # Two regions may take a shared corner's height from spans up to two steps apart. Other storeys are farther away.
    corners, rings = weld([ring for _, rings in sorted(outlines.items()) for ring in rings], tolerance)
    pieces = [polygonise(corners, ring, settings.verts_per_poly) for ring in rings]
    if not any(len(piece) for piece in pieces):
        return None
    polygons = np.concatenate(pieces)
    owner = np.repeat(np.array(numbers, np.int32), [len(piece) for piece in pieces])
    used, renumbered = np.unique(polygons[polygons >= 0], return_inverse=True)
    corners = corners[used]
    polygons[polygons >= 0] = renumbered
    neighbours = shared_edge_neighbours(polygons)
    report("follow heights", 0.9)
    # As in Habitat and Recast's demo: denser samples than cells would see the voxels' steps.
    spacing = settings.detail_sample_dist if settings.detail_sample_dist >= MIN_SAMPLE_DIST else 0
    added, faces, first_face = triangulate_floors(
        *(corners, polygons, neighbours, owner),
        Floors(voxel.column_starts(floor.column, grid.width * grid.depth), floor.floor, region, grid.width),
        *(float(spacing), float(settings.detail_sample_max_error)),
    )
    scale = np.array([settings.cell_size, settings.cell_height, settings.cell_size], np.float32)
    return NavMeshData(
        vertices=grid.origin + corners.astype(np.float32) * scale,
        polygons=polygons,
        neighbours=neighbours,
        detail_vertices=grid.origin + added.astype(np.float32) * scale,
        detail_triangles=faces,
        detail_start=first_face,
        polygon_island=label_islands(neighbours),
        settings=settings,
    )
