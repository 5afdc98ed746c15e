"""Connectivity of polygons: neighbours across shared edges, and islands."""

from __future__ import annotations

import numpy as np


def shared_edge_neighbours(polygons: np.ndarray) -> np.ndarray:
    """Find the polygon across every edge.

    Two polygons are neighbours if one traverses an edge from a to b and the other from b to a. If more than two
    polygons share an edge, the first polygon in each direction is used, so the relation is always symmetric.

    Args:
        polygons: [P, 6] int32, vertex indices, padded with -1.

    Returns:
        [P, 6] int32, -1 for a wall and after the last vertex.
    """
    neighbours = np.full(polygons.shape, -1, np.int32)
    owner, edge, start, end = polygon_edges(polygons)
    if len(owner) == 0:
        return neighbours
    width = np.int64(polygons.max()) + 1
    key, first = np.unique(start * width + end, return_index=True)
    reverse = end[first] * width + start[first]
    place = np.minimum(np.searchsorted(key, reverse), len(key) - 1)
    found = key[place] == reverse
    here = first[found]
    there = first[place[found]]
    neighbours[owner[here], edge[here]] = owner[there]
    return neighbours


def polygon_edges(polygons: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """List the edges of padded polygons [P, 6]: polygon, index in it, first and second vertex, each [E] int64."""
    owner, edge = np.nonzero(polygons >= 0)
    size = (polygons >= 0).sum(axis=1)
    start = polygons[owner, edge].astype(np.int64)
    end = polygons[owner, (edge + 1) % size[owner]].astype(np.int64)
    return owner, edge, start, end


def label_islands(neighbours: np.ndarray) -> np.ndarray:
    """Label the connected components of polygons, numbered in the order of their first polygons.

    Args:
        neighbours: [P, 6] int32, polygon across every edge, -1 for none.

    Returns:
        [P] int32, island of every polygon.
    """
    islands = np.full(len(neighbours), -1, np.int32)
    rows = neighbours.tolist()
    count = 0
    for seed in range(len(rows)):
        if islands[seed] >= 0:
            continue
        islands[seed] = count
        stack = [seed]
        while stack:
            for other in rows[stack.pop()]:
                if other >= 0 and islands[other] < 0:
                    islands[other] = count
                    stack.append(other)
        count += 1
    return islands
