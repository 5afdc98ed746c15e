"""Read and write Habitat's and Recast's ``.navmesh`` files: Detour tiles in an MSET container, versions 1 and 2.

Everything is little-endian and polygon references have 32 bits. Three sections of a tile are skipped: links, which
Detour rebuilds; the bounding-volume tree, which is only an index; and off-mesh connections, which agents do not use.
The layout is that of Detour 1.6 (dtMeshHeader, dtPoly, dtPolyDetail) and of habitat-sim's PathFinder
(NavMeshSetHeader, NavMeshSettings).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.navmesh.detour_portals import Portal, link_tiles
from gym_batchnav.navmesh.record import MAX_POINTS, MAX_POLYGONS, NavMeshData, NavMeshSettings
from gym_batchnav.navmesh.topology import label_islands
from gym_batchnav.system.storage import write_atomically

SET_MAGIC = 0x4D534554
TILE_MAGIC = 0x444E4156
TILE_VERSION = 7
SET_HEADER = np.dtype(
    [
        *(("magic", "<i4"), ("version", "<i4"), ("num_tiles", "<i4"), ("origin", "<f4", 3)),
        *(("tile_width", "<f4"), ("tile_height", "<f4"), ("max_tiles", "<i4"), ("max_polygons", "<i4")),
    ]
)
# Fields of our NavMeshSettings, in the order of Habitat's C++ struct of the same name.
NUMBERS = (
    *("cell_size", "cell_height", "agent_height", "agent_radius", "agent_max_climb", "agent_max_slope_deg"),
    *("region_min_size", "region_merge_size", "edge_max_len", "edge_max_error", "verts_per_poly"),
    *("detail_sample_dist", "detail_sample_max_error"),
)
FLAGS = ("filter_low_hanging_obstacles", "filter_ledge_spans", "filter_walkable_low_height_spans")
SET_SETTINGS = np.dtype(
    [(name, "<f4") for name in NUMBERS] + [(name, "u1") for name in FLAGS] + [("include_static_objects", "u1")]
)
TILE_ENTRY = np.dtype([("reference", "<u4"), ("size", "<i4")])
COUNTS = (
    *("polygons", "vertices", "links", "details", "detail_vertices"),
    *("detail_triangles", "bounding_volumes", "off_mesh_connections"),
)
TILE_HEADER = np.dtype(
    [("magic", "<i4"), ("version", "<i4"), ("x", "<i4"), ("y", "<i4"), ("layer", "<i4"), ("user", "<u4")]
    + [(name, "<i4") for name in COUNTS]
    + [("off_mesh_base", "<i4"), ("height", "<f4"), ("radius", "<f4"), ("climb", "<f4")]
    + [("lower", "<f4", 3), ("upper", "<f4", 3), ("cells_per_metre", "<f4")]
)
POLYGON = np.dtype(
    [
        *(("first_link", "<u4"), ("vertices", "<u2", 6), ("neighbours", "<u2", 6)),
        *(("flags", "<u2"), ("size", "u1"), ("area_and_type", "u1")),
    ]
)
DETAIL = np.dtype(
    [("vertex_base", "<u4"), ("triangle_base", "<u4"), ("vertices", "u1"), ("triangles", "u1"), ("padding", "<u2")]
)
# The sections of a tile in the order of the file, with the dtype of their items.
SECTIONS = {
    "vertices": np.dtype(("<f4", 3)),
    "polygons": POLYGON,
    "links": np.dtype("V12"),
    "details": DETAIL,
    "detail_vertices": np.dtype(("<f4", 3)),
    "detail_triangles": np.dtype(("u1", 4)),
    "bounding_volumes": np.dtype("V16"),
    "off_mesh_connections": np.dtype("V36"),
}
WALKABLE = 1
PORTAL = 0x8000
NO_LINK = 0xFFFFFFFF
MAX_FILE_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class _Tile:
    """The header and the sections of one tile in a file."""

    header: np.void
    sections: dict[str, np.ndarray]


def read_navmesh(path: str | os.PathLike[str]) -> NavMeshData:
    """Read a navmesh that Habitat, Recast's demo or `write_navmesh` wrote.

    A version 1 file holds no settings: the agent and the cell size come from its tile, and the rest are the defaults.
    Polygons that are not walkable (flag bit 0 clear) are left out. Several tiles become one mesh, in which polygons are
    divided where those of other tiles touch parts of their edges.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is not a navmesh, or is damaged or larger than 64 MiB.
    """
    try:
        settings, tiles = _parse(_read_bounded(Path(path)))
        return _assemble(tiles, settings)
    except ValueError as error:
        raise ValueError(f"navmesh file '{path}': {error}") from None


def _read_bounded(path: Path) -> bytes:
    if not path.exists():
        raise FileNotFoundError(f"navmesh file '{path}' does not exist: check the path")
    if not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES:,} bytes: build with a larger cell_size or split the scene")
    return data


def _parse(data: bytes) -> tuple[NavMeshSettings | None, list[_Tile]]:
    if len(data) < SET_HEADER.itemsize:
        raise ValueError(f"it has {len(data)} bytes, fewer than its header of {SET_HEADER.itemsize}")
    header = np.frombuffer(data, SET_HEADER, 1)[0]
    if header["magic"] != SET_MAGIC:
        raise ValueError(f"it starts with 0x{int(header['magic']) & 0xFFFFFFFF:08x}, not with MSET's magic number")
    if header["version"] not in (1, 2):
        raise ValueError(f"version {header['version']} is not supported, only 1 and 2 are")
    offset = SET_HEADER.itemsize
    settings = None
    if header["version"] == 2:
        settings = _settings(_take(data, offset, SET_SETTINGS, 1, "settings")[0])
        offset += SET_SETTINGS.itemsize
    tiles = []
    for index in range(header["num_tiles"]):
        size = int(_take(data, offset, TILE_ENTRY, 1, f"entry of tile {index}")["size"][0])
        offset += TILE_ENTRY.itemsize
        if not 0 < size <= len(data) - offset:
            raise ValueError(f"tile {index} claims {size} bytes, but only {len(data) - offset} are left")
        tiles.append(_parse_tile(data[offset : offset + size], index))
        offset += size
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow the last tile")
    return settings, tiles


def _take(data: bytes, offset: int, dtype: np.dtype, count: int, name: str) -> np.ndarray:
    if len(data) - offset < dtype.itemsize * count:
        raise ValueError(f"it ends inside the {name}")
    return np.frombuffer(data, dtype, count, offset)


def _settings(record: np.void) -> NavMeshSettings:
    values: dict[str, Any] = {name: _shortest(record[name]) for name in NUMBERS}
    for name, value in values.items():
        if not np.isfinite(value):
            raise ValueError(f"its settings hold {name}={value}, which is not finite")
    values["verts_per_poly"] = int(values["verts_per_poly"])
    values |= {name: bool(record[name]) for name in FLAGS}
    return NavMeshSettings(**values)


def _shortest(number: np.float32) -> float:
    """Return the float that prints like a float32: 0.1 rather than 0.10000000149."""
    return float(str(number))


def _parse_tile(data: bytes, index: int) -> _Tile:
    header = _take(data, 0, TILE_HEADER, 1, f"header of tile {index}")[0]
    if header["magic"] != TILE_MAGIC or header["version"] != TILE_VERSION:
        raise ValueError(
            f"tile {index} has magic 0x{int(header['magic']) & 0xFFFFFFFF:08x} and version {header['version']}, "
            f"not Detour's 0x{TILE_MAGIC:08x} and {TILE_VERSION}"
        )
    counts = {name: int(header[name]) for name in COUNTS}
    if min(counts.values()) < 0:
        raise ValueError(f"tile {index} has negative counts: {counts}")
    expected = TILE_HEADER.itemsize + sum(dtype.itemsize * counts[name] for name, dtype in SECTIONS.items())
    if expected != len(data):
        raise ValueError(f"tile {index} has {len(data)} bytes, but its counts require {expected}")
    sections = {}
    offset = TILE_HEADER.itemsize
    for name, dtype in SECTIONS.items():
        sections[name] = np.frombuffer(data, dtype, counts[name], offset)
        offset += dtype.itemsize * counts[name]
    tile = _Tile(header, sections)
    _check(tile, index)
    return tile


def _check(tile: _Tile, index: int) -> None:
    """Raise ValueError unless all indices are within the tile and all numbers finite."""
    polygons = tile.sections["polygons"]
    details = tile.sections["details"]
    vertices = tile.sections["vertices"]
    detail_vertices = tile.sections["detail_vertices"]
    ground = polygons["area_and_type"] >> 6 == 0
    size = polygons["size"].astype(np.int64)
    used = np.arange(6) < polygons["size"][:, None]
    used &= ground[:, None]  # The rest are off-mesh connections, which have two vertices and no edges.
    across = polygons["neighbours"]
    inner = used & (across < PORTAL)
    measures = [tile.header[name] for name in ("height", "radius", "climb", "cells_per_metre")]
    problems = {
        "agent dimensions that are not finite": not np.isfinite(measures).all(),
        "vertices that are not finite": not (np.isfinite(vertices).all() and np.isfinite(detail_vertices).all()),
        "polygons with fewer than 3 or more than 6 vertices": bool(((size < 3) | (size > 6))[ground].any()),
        "polygons with vertices that do not exist": bool((polygons["vertices"][used] >= len(vertices)).any()),
        "polygons with neighbours that do not exist": bool((across[inner] > len(polygons)).any()),
        "ground polygons after off-mesh connections": bool(ground[int(ground.sum()) :].any()),
        f"{len(details)} detail meshes for {ground.sum()} polygons": len(details) != ground.sum(),
    }
    last_vertex = details["vertex_base"].astype(np.int64) + details["vertices"]
    last_triangle = details["triangle_base"].astype(np.int64) + details["triangles"]
    problems["detail meshes with vertices or triangles that do not exist"] = bool(
        (last_vertex > len(detail_vertices)).any() or (last_triangle > len(tile.sections["detail_triangles"])).any()
    )
    for problem, present in problems.items():
        if present:
            raise ValueError(f"tile {index} has {problem}")


def _assemble(tiles: list[_Tile], settings: NavMeshSettings | None) -> NavMeshData:
    """Join the tiles into one mesh."""
    vertices = []
    polygons = []
    neighbours = []
    extra = []
    triangles = []
    counts = []
    portals: list[Portal] = []
    num_polygons = num_vertices = num_triangles = 0
    total_vertices = sum(len(tile.sections["vertices"]) for tile in tiles)
    num_extra = total_vertices
    for tile in tiles:
        rows = tile.sections["polygons"]
        walkable = (rows["flags"] & WALKABLE != 0) & (rows["area_and_type"] >> 6 == 0)
        local = _local_triangles(tile, walkable)
        own, across = _own_polygons(rows, walkable)
        if len(tiles) > 1:
            portals += _portals(tile, walkable, num_polygons)
        for row, (corners, detail) in enumerate(
            zip(own, tile.sections["details"][walkable[: len(tile.sections["details"])]], strict=True)
        ):
            size = np.count_nonzero(corners >= 0)
            table = np.concatenate(
                [corners[:size] + num_vertices, num_extra + int(detail["vertex_base"]) + np.arange(detail["vertices"])]
            )
            if local[row].max() >= len(table):
                raise ValueError(
                    f"the detail triangles of polygon {num_polygons + row} refer to vertices that do not exist"
                )
            triangles.append(table[local[row]])
            counts.append(len(local[row]))
            num_triangles += len(local[row])
            if num_triangles > MAX_POINTS:  # polygons may refer to the same ones
                raise ValueError(f"it has more than {MAX_POINTS:,} detail triangles: split the scene")
        polygons.append(np.where(own >= 0, own + num_vertices, -1))
        neighbours.append(np.where(across >= 0, across + num_polygons, -1))
        vertices.append(tile.sections["vertices"])
        extra.append(tile.sections["detail_vertices"])
        num_polygons += len(own)
        num_vertices += len(tile.sections["vertices"])
        num_extra += len(tile.sections["detail_vertices"])
    if num_polygons == 0:
        raise ValueError("it has no walkable polygon")
    if num_polygons > MAX_POLYGONS:
        raise ValueError(f"it has {num_polygons:,} polygons, the limit is {MAX_POLYGONS:,}: split the scene")
    across = np.concatenate(neighbours).astype(np.int32)
    lower = [tile.header["lower"] for tile in tiles]
    upper = [tile.header["upper"] for tile in tiles]
    joined = NavMeshData(
        vertices=np.concatenate(vertices).astype(np.float32),
        polygons=np.concatenate(polygons).astype(np.int32),
        neighbours=across,
        detail_vertices=np.concatenate(extra).astype(np.float32),
        detail_triangles=np.concatenate(triangles).astype(np.int32),
        detail_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        polygon_island=label_islands(across),
        settings=settings or _tile_settings(tiles[0].header),
        bounds=np.stack([np.min(lower, axis=0), np.max(upper, axis=0)]),
    )
    return link_tiles(joined, portals, float(tiles[0].header["climb"])) if portals else joined


def _portals(tile: _Tile, walkable: np.ndarray, first: int) -> list[Portal]:
    """Return the edges on the borders of a tile, whose polygons are numbered from ``first``."""
    rows = tile.sections["polygons"][walkable]
    used = np.arange(6) < rows["size"][:, None]
    polygon, edge = np.nonzero(used & (rows["neighbours"] >= PORTAL))
    sides = rows["neighbours"][polygon, edge] & 0xFF
    place = int(tile.header["x"]), int(tile.header["y"])
    found = zip((polygon + first).tolist(), edge.tolist(), sides.tolist(), strict=True)
    return [Portal(*one, tile=place) for one in found]


def _own_polygons(rows: np.ndarray, walkable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and neighbours of a tile's walkable polygons, both [P, 6] int64 padded with -1."""
    new_index = np.full(len(rows) + 1, -1)
    new_index[1:][walkable] = np.arange(walkable.sum())
    own = rows[walkable]
    used = np.arange(6) < own["size"][:, None]
    across = np.where(own["neighbours"] < PORTAL, own["neighbours"], 0)
    across = np.where(used, new_index[np.where(used, across, 0)], -1)
    return np.where(used, own["vertices"].astype(np.int64), -1), across


def _local_triangles(tile: _Tile, walkable: np.ndarray) -> list[np.ndarray]:
    """Return the detail triangles [T, 3] of every walkable polygon; a fan if Recast could not make any."""
    triangles = tile.sections["detail_triangles"][:, :3]
    local = []
    for row in np.flatnonzero(walkable):
        detail = tile.sections["details"][row]
        base = int(detail["triangle_base"])
        count = int(detail["triangles"])
        size = int(tile.sections["polygons"]["size"][row])
        fan = np.array([[0, corner, corner + 1] for corner in range(1, size - 1)])
        local.append(triangles[base : base + count] if count else fan)
    return local


def _tile_settings(header: np.void) -> NavMeshSettings:
    """Return the settings that a tile's header holds, with defaults for the rest."""
    measures = {name: _shortest(header[name]) for name in ("height", "radius", "climb")}
    factor = header["cells_per_metre"]
    return NavMeshSettings(
        cell_size=_shortest(np.float32(1) / factor) if factor > 1e-6 else NavMeshSettings().cell_size,
        agent_height=measures["height"],
        agent_radius=measures["radius"],
        agent_max_climb=measures["climb"],
    )


def write_navmesh(mesh: NavMeshData, path: str | os.PathLike[str], version: int = 2) -> None:
    """Write a navmesh as a single Detour tile, which Habitat and Recast's tools load.

    The file is written under a temporary name and renamed, so a reader never sees an incomplete file.

    Args:
        mesh: The navmesh.
        path: The file, usually ``*.navmesh``.
        version: 2 keeps the settings (Habitat's), 1 does not (Recast's demo).

    Raises:
        ValueError: If the mesh is too large for the 16-bit indices of a tile or the 8-bit indices of a detail mesh.
    """
    if version not in (1, 2):
        raise ValueError(f"version={version}: choose 1 or 2")
    tile = _tile_bytes(mesh)
    header = np.zeros(1, SET_HEADER)
    lower, upper = _bounds(mesh)
    header["magic"] = SET_MAGIC
    header["version"] = version
    header["num_tiles"] = 1
    header["max_tiles"] = 1
    header["origin"], header["max_polygons"] = lower, len(mesh.polygons)
    header["tile_width"] = upper[0] - lower[0]
    header["tile_height"] = upper[2] - lower[2]
    parts = [header.tobytes()]
    if version == 2:
        settings = np.zeros(1, SET_SETTINGS)
        for name in (*NUMBERS, *FLAGS):
            settings[name] = getattr(mesh.settings, name)
        parts.append(settings.tobytes())
    entry = np.zeros(1, TILE_ENTRY)
    # A reference holds salt, tile and polygon from high to low bits: salt 1, tile 0 and no bits for the tile.
    entry["reference"], entry["size"] = 1 << (len(mesh.polygons) - 1).bit_length(), len(tile)
    parts += [entry.tobytes(), tile]
    write_atomically(Path(path), b"".join(parts))


def _bounds(mesh: NavMeshData) -> tuple[np.ndarray, np.ndarray]:
    if len(mesh.bounds):
        return mesh.bounds[0], mesh.bounds[1]
    points = np.concatenate([mesh.vertices, mesh.detail_vertices])
    return points.min(axis=0), points.max(axis=0)


def _tile_bytes(mesh: NavMeshData) -> bytes:
    if len(mesh.vertices) >= 0xFFFF or len(mesh.polygons) >= PORTAL:
        raise ValueError(
            f"{len(mesh.polygons)} polygons of {len(mesh.vertices)} vertices are too many for one Detour tile "
            f"({PORTAL - 1} and {0xFFFF - 1}): build with a larger cell_size"
        )
    used = mesh.polygons >= 0
    polygons = np.zeros(len(mesh.polygons), POLYGON)
    polygons["first_link"], polygons["flags"], polygons["size"] = NO_LINK, WALKABLE, used.sum(axis=1)
    polygons["vertices"] = np.where(used, mesh.polygons, 0)
    polygons["neighbours"] = mesh.neighbours + 1
    details, detail_vertices, detail_triangles = _detail_sections(mesh)
    sections = {
        "vertices": mesh.vertices.astype("<f4"),
        "polygons": polygons,
        "links": np.zeros(used.sum(), SECTIONS["links"]),  # Space for one link per edge, which Detour fills on loading.
        "details": details,
        "detail_vertices": detail_vertices.astype("<f4"),
        "detail_triangles": detail_triangles,
        # Without a bounding-volume tree Detour searches all polygons of the tile.
        "bounding_volumes": np.zeros(0, SECTIONS["bounding_volumes"]),
        "off_mesh_connections": np.zeros(0, SECTIONS["off_mesh_connections"]),
    }
    header = np.zeros(1, TILE_HEADER)
    header["magic"], header["version"], header["off_mesh_base"] = TILE_MAGIC, TILE_VERSION, len(polygons)
    for name, section in sections.items():
        header[name] = len(section)
    settings = mesh.settings
    header["height"] = settings.agent_height
    header["radius"] = settings.agent_radius
    header["climb"] = settings.agent_max_climb
    header["cells_per_metre"] = 1 / settings.cell_size
    header["lower"], header["upper"] = _bounds(mesh)
    return header.tobytes() + b"".join(sections[name].tobytes() for name in SECTIONS)


def _detail_sections(mesh: NavMeshData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the detail meshes, their vertices and their triangles, with Detour's 8-bit local indices."""
    details = np.zeros(len(mesh.polygons), DETAIL)
    points = np.concatenate([mesh.vertices, mesh.detail_vertices])
    vertices = []
    triangles = []
    base = 0
    for polygon, corners in enumerate(mesh.polygons):
        corners = corners[corners >= 0]
        own = mesh.detail_triangles[mesh.detail_start[polygon] : mesh.detail_start[polygon + 1]]
        extra = np.setdiff1d(own, corners)
        table = np.concatenate([corners, extra])
        if len(table) > 255 or len(own) > 255:
            raise ValueError(
                f"polygon {polygon} has {len(own)} detail triangles of {len(table)} vertices, the limit of the format "
                "is 255: build with a larger detail_sample_dist"
            )
        order = np.argsort(table)
        local = order[np.searchsorted(table[order], own)]
        row = details[polygon]
        row["vertex_base"], row["vertices"] = base, len(extra)
        row["triangle_base"], row["triangles"] = mesh.detail_start[polygon], len(own)
        vertices.append(points[extra])
        triangles.append(np.column_stack([local, _boundary_flags(local)]))
        base += len(extra)
    return details, np.concatenate(vertices), np.concatenate(triangles).astype(np.uint8)


def _boundary_flags(triangles: np.ndarray) -> np.ndarray:
    """Return Detour's edge flags [T]: bit 2 e is set if edge e of a triangle lies on the outline."""
    start = triangles
    end = np.roll(triangles, -1, axis=1)
    key = np.minimum(start, end) * 256 + np.maximum(start, end)
    _, inverse, count = np.unique(key, return_inverse=True, return_counts=True)
    outline = count[inverse.reshape(key.shape)] == 1
    return outline @ np.array([1, 4, 16])
