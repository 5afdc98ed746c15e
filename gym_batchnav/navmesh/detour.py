"""Read and write Habitat's and Recast's ``.navmesh`` files: Detour tiles in an MSET container, versions 1 and 2.

Everything is little-endian and polygon references have 32 bits. Three sections of a tile are skipped: links, which
Detour rebuilds; the bounding-volume tree, which is only an index; and off-mesh connections, which agents do not use.
The layout is that of Detour 1.6 (dtMeshHeader, dtPoly, dtPolyDetail) and of habitat-sim's PathFinder
(NavMeshSetHeader, NavMeshSettings).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.navmesh.record import MAX_POINTS, NavMeshData, NavMeshSettings, label_islands
from gym_batchnav.system.storage import check_content, write_atomically

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


def read_navmesh(path: str | os.PathLike[str]) -> NavMeshData:
    """Read a navmesh that Habitat, Recast's demo or `write_navmesh` wrote.

    A version 1 file holds no settings: the agent and the cell size come from its tile, and the rest are the defaults.
    Polygons that are not walkable (flag bit 0 clear) are left out.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not a navmesh, or is damaged, of several tiles or larger than 64 MiB.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"navmesh file '{path}' does not exist: check the path")
    try:
        if not path.is_file():
            raise ValueError("it is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            size = f"it has more than {MAX_FILE_BYTES:,} bytes"
            raise ValueError(f"{size}: build with a larger cell_size or split the scene")
        check_content(data)
        return _mesh_of(*_parse(data))
    except ValueError as error:
        raise ValueError(f"navmesh file '{path}' cannot be used ({error}): build or copy it again") from None


def _parse(data: bytes) -> tuple[np.void, dict[str, np.ndarray], NavMeshSettings]:
    """Return the header and the sections of the tile in a file, and the settings."""
    if len(data) < SET_HEADER.itemsize:
        raise ValueError(f"it has {len(data)} bytes, fewer than its header of {SET_HEADER.itemsize}")
    header = np.frombuffer(data, SET_HEADER, 1)[0]
    if header["magic"] != SET_MAGIC:
        raise ValueError(
            f"it is not a .navmesh file: it starts with 0x{int(header['magic']) & 0xFFFFFFFF:08x}, not with MSET's "
            "number"
        )
    if header["version"] not in (1, 2):
        raise ValueError(f"its version is {header['version']}, and only 1 and 2 are supported")
    if header["num_tiles"] != 1:
        raise ValueError(
            f"it has {header['num_tiles']} tiles, and only files with one are read: build it as Habitat does, as a "
            "solo mesh in Recast's demo, or with NavMesh.build"
        )
    offset = SET_HEADER.itemsize
    settings = None
    if header["version"] == 2:
        settings = _settings(_take(data, offset, SET_SETTINGS, 1, "settings")[0])
        offset += SET_SETTINGS.itemsize
    size = int(_take(data, offset, TILE_ENTRY, 1, "entry of its tile")["size"][0])
    offset += TILE_ENTRY.itemsize
    if not 0 < size <= len(data) - offset:
        raise ValueError(f"its tile claims {size} bytes, but only {len(data) - offset} are left")
    if offset + size != len(data):
        raise ValueError(f"{len(data) - offset - size} bytes follow its tile")
    tile, sections = _parse_tile(data[offset:])
    return tile, sections, settings or _tile_settings(tile)


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


def _parse_tile(data: bytes) -> tuple[np.void, dict[str, np.ndarray]]:
    header = _take(data, 0, TILE_HEADER, 1, "header of its tile")[0]
    if header["magic"] != TILE_MAGIC or header["version"] != TILE_VERSION:
        raise ValueError(
            f"its tile has magic 0x{int(header['magic']) & 0xFFFFFFFF:08x} and version {header['version']}, "
            f"not Detour's 0x{TILE_MAGIC:08x} and {TILE_VERSION}"
        )
    counts = {name: int(header[name]) for name in COUNTS}
    if min(counts.values()) < 0:
        raise ValueError(f"its tile has negative counts: {counts}")
    expected = TILE_HEADER.itemsize + sum(dtype.itemsize * counts[name] for name, dtype in SECTIONS.items())
    if expected != len(data):
        raise ValueError(f"its tile has {len(data)} bytes, but its counts require {expected}")
    sections = {}
    offset = TILE_HEADER.itemsize
    for name, dtype in SECTIONS.items():
        sections[name] = np.frombuffer(data, dtype, counts[name], offset)
        offset += dtype.itemsize * counts[name]
    _check(header, sections)
    return header, sections


def _check(header: np.void, sections: dict[str, np.ndarray]) -> None:
    """Raise ValueError unless all indices are within the tile and all numbers finite."""
    polygons = sections["polygons"]
    details = sections["details"]
    vertices = sections["vertices"]
    detail_vertices = sections["detail_vertices"]
    ground = polygons["area_and_type"] >> 6 == 0
    size = polygons["size"].astype(np.int64)
    used = np.arange(6) < polygons["size"][:, None]
    used &= ground[:, None]  # The rest are off-mesh connections, which have two vertices and no edges.
    across = polygons["neighbours"]
    inner = used & (across < PORTAL)
    measures = [header[name] for name in ("height", "radius", "climb", "cells_per_metre")]
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
        (last_vertex > len(detail_vertices)).any() or (last_triangle > len(sections["detail_triangles"])).any()
    )
    for problem, present in problems.items():
        if present:
            raise ValueError(f"it has {problem}")


def _mesh_of(header: np.void, sections: dict[str, np.ndarray], settings: NavMeshSettings) -> NavMeshData:
    rows = sections["polygons"]
    vertices = sections["vertices"]
    walkable = (rows["flags"] & WALKABLE != 0) & (rows["area_and_type"] >> 6 == 0)
    polygons, neighbours = _own_polygons(rows, walkable)
    if not len(polygons):
        raise ValueError("it has no walkable polygon")
    detail_triangles = sections["detail_triangles"][:, :3]
    triangles = []
    counts = [0]
    details = sections["details"][walkable[: len(sections["details"])]]
    for row, (corners, detail) in enumerate(zip(polygons, details, strict=True)):
        extra = len(vertices) + int(detail["vertex_base"]) + np.arange(detail["vertices"])
        table = np.concatenate([corners[corners >= 0], extra])
        base = int(detail["triangle_base"])
        local = detail_triangles[base : base + int(detail["triangles"])]
        if not len(local):  # Recast could not make any: a fan
            local = np.array([[0, corner, corner + 1] for corner in range(1, (corners >= 0).sum() - 1)])
        if local.max() >= len(table):
            raise ValueError(f"the detail triangles of polygon {row} refer to vertices that do not exist")
        triangles.append(table[local])
        counts.append(counts[-1] + len(local))
        if counts[-1] > MAX_POINTS:  # polygons may refer to the same ones
            raise ValueError(f"it has more than {MAX_POINTS:,} detail triangles: split the scene")
    return NavMeshData(
        vertices=vertices.astype(np.float32),
        polygons=polygons.astype(np.int32),
        neighbours=neighbours.astype(np.int32),
        detail_vertices=sections["detail_vertices"].astype(np.float32),
        detail_triangles=np.concatenate(triangles).astype(np.int32),
        detail_start=np.array(counts, np.int32),
        polygon_island=label_islands(neighbours),
        settings=settings,
        bounds=np.stack([header["lower"], header["upper"]]),
    )


def _own_polygons(rows: np.ndarray, walkable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and neighbours of a tile's walkable polygons, both [P, 6] int64 padded with -1."""
    new_index = np.full(len(rows) + 1, -1)
    new_index[1:][walkable] = np.arange(walkable.sum())
    own = rows[walkable]
    used = np.arange(6) < own["size"][:, None]
    across = np.where(own["neighbours"] < PORTAL, own["neighbours"], 0)
    across = np.where(used, new_index[np.where(used, across, 0)], -1)
    return np.where(used, own["vertices"].astype(np.int64), -1), across


def _tile_settings(header: np.void) -> NavMeshSettings:
    """Return the settings that a tile's header holds, with defaults for the rest."""
    measures = {name: _shortest(header[name]) for name in ("height", "radius", "climb")}
    factor = header["cells_per_metre"]
    return NavMeshSettings(
        cell_size=_shortest(np.float32(1) / factor) if factor > 1e-6 else NavMeshSettings().cell_size,
        agent_height=measures["height"] or NavMeshSettings().agent_height,
        agent_radius=measures["radius"],
        agent_max_climb=measures["climb"],
    )


def write_navmesh(mesh: NavMeshData, path: str | os.PathLike[str]) -> None:
    """Write a navmesh as a single Detour tile in a file of version 2, Habitat's.

    The file is written under a temporary name and renamed, so a reader never sees an incomplete file.

    Args:
        mesh: The navmesh.
        path: The file, usually ``*.navmesh``.

    Raises:
        ValueError: If the mesh is empty, or too large for the 16-bit indices of a tile or the 8-bit indices of a detail
            mesh.
    """
    tile = _tile_bytes(mesh)
    header = np.zeros(1, SET_HEADER)
    lower, upper = _bounds(mesh)
    header["magic"] = SET_MAGIC
    header["version"] = 2
    header["num_tiles"] = 1
    header["max_tiles"] = 1
    header["origin"], header["max_polygons"] = lower, len(mesh.polygons)
    header["tile_width"] = upper[0] - lower[0]
    header["tile_height"] = upper[2] - lower[2]
    settings = np.zeros(1, SET_SETTINGS)
    for name in (*NUMBERS, *FLAGS):
        settings[name] = getattr(mesh.settings, name)
    entry = np.zeros(1, TILE_ENTRY)
    # A reference holds salt, tile and polygon from high to low bits: salt 1, tile 0 and no bits for the tile.
    entry["reference"], entry["size"] = 1 << (len(mesh.polygons) - 1).bit_length(), len(tile)
    write_atomically(Path(path), b"".join([header.tobytes(), settings.tobytes(), entry.tobytes(), tile]))


def _bounds(mesh: NavMeshData) -> tuple[np.ndarray, np.ndarray]:
    if len(mesh.bounds):
        return mesh.bounds[0], mesh.bounds[1]
    points = np.concatenate([mesh.vertices, mesh.detail_vertices])
    return points.min(axis=0), points.max(axis=0)


def _tile_bytes(mesh: NavMeshData) -> bytes:
    if not len(mesh.polygons):
        raise ValueError("an empty navmesh cannot be saved: build it for a smaller agent_radius")
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
