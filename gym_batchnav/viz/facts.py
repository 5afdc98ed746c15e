"""Facts about scenes and navmeshes, as plain values and as text, for tables, JSON and notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gym_batchnav.episodes.floors import cut_off_islands, island_kinds
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.cost import resident_cost
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.wording import counted

_GUESSES = ("up", "scale", "origin")  # keys of Scene.metadata
_MAX_CATEGORIES = 10
_MAX_LISTED = 4  # names or numbers


def describe_scene(scene: Scene) -> dict[str, Any]:
    """Return the facts of a scene as plain values; lengths are in metres."""
    low, high = scene.bounds.tolist()
    pixels = [picture.shape[0] * picture.shape[1] for picture in scene.textures]
    counts = len(scene.triangles), len(scene.vertices), len(scene.textures)
    return {
        "name": scene.name,
        "triangles": len(scene.triangles),
        "vertices": len(scene.vertices),
        "objects": len(scene.objects),
        "categories": dict(Counter(one.category for one in scene.objects if one.category).most_common()),
        "materials": len(scene.materials),
        "textures": len(scene.textures),
        "texture_pixels": sum(pixels),
        "texture_size": scene.metadata.get("texture_size"),
        "bytes": scene.nbytes,
        "resident_bytes": resident_cost(*counts, 4 * sum(pixels)),
        "size": [end - start for start, end in zip(low, high, strict=True)],
        "bounds": [low, high],
        **{key: scene.metadata[key] for key in _GUESSES if key in scene.metadata},
        "semantics": scene.metadata.get("semantics", ""),
        "brings_navmesh": scene.navmesh is not None,
        "warnings": list(scene.warnings),
    }


def describe_navmesh(navmesh: NavMesh) -> dict[str, Any]:
    """Return the total walkable area and that of each island, the largest first, in m2, and the agent's radius in m."""
    islands = sorted((island.area for island in navmesh.islands), reverse=True)
    radius = navmesh.settings.agent_radius
    return {"walkable_area": navmesh.navigable_area, "islands": islands, "agent_radius": radius}


def describe_islands(scene: Scene, navmesh: NavMesh) -> dict[str, Any]:
    """Return the kind of each island, in the order of ``describe_navmesh``, and the area of the floors, in m2."""
    found = zip((island.area for island in navmesh.islands), island_kinds(scene, navmesh), strict=True)
    islands = sorted(found, key=lambda one: -one[0])
    floors = sum(area for area, kind in islands if kind == "floor")
    return {"island_kinds": [kind for _, kind in islands], "episode_area": floors}


def cut_off_in_words(scene: Scene, navmesh: NavMesh) -> list[str]:
    """Return a sentence on the floor that agents cannot reach, with the remedies; none if they reach all of it."""
    areas = [navmesh.islands[number].area for number in np.flatnonzero(cut_off_islands(scene, navmesh))]
    if not areas:
        return []
    floor = f"{sum(areas):.1f} m2 of floor ({counted(len(areas), 'island')})"
    return [
        f"An agent of radius {navmesh.settings.agent_radius:g} m cannot reach {floor} from the largest island of the "
        "storey, and sampled episodes leave it out: use a smaller radius, make doors wider, or pass "
        "episodes=Episodes(floors='habitat')"
    ]


def scene_in_words(facts: dict[str, Any], most_warnings: int | None = None) -> dict[str, str]:
    """Format the facts of ``describe_scene``, and of ``describe_navmesh`` and ``describe_islands``, as text by name.

    ``walkable`` may be the reason why the navmesh is missing. At most ``most_warnings`` are included.
    """
    words = {name: f"{facts[name]:,}" for name in ("triangles", "vertices", "objects", "materials")}
    words["textures"] = "none"
    if facts["textures"]:
        most = f", at most {facts['texture_size']:,} per side" if facts.get("texture_size") else ""
        words["textures"] = f"{facts['textures']:,} of {facts['texture_pixels'] / 1e6:.1f} million pixels{most}"
    if facts.get("semantics"):
        words["annotations"] = facts["semantics"]
    words["memory"] = f"{facts['bytes'] / 1e6:,.2f} MB"
    words["resident"] = cost_in_words(facts["resident_bytes"])
    words["size"] = size_in_words(facts["size"])
    for name, corner in zip(("from", "to"), facts["bounds"], strict=True):
        words[name] = ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in corner)  # + 0.0: no "-0.00"
    words |= {name: str(facts[name]) for name in _GUESSES if name in facts}
    if "walkable" in facts:
        words["walkable"] = facts["walkable"]
    if "islands" in facts:
        origin = "the navmesh that came with it"
        if not facts["brings_navmesh"]:
            origin = f"built for an agent of radius {facts['agent_radius']:g} m"
        used = f", of which episodes use {facts['episode_area']:,.1f} m2" if "episode_area" in facts else ""
        words["walkable"] = f"{facts['walkable_area']:,.1f} m2{used} ({origin})"
        words["islands"] = islands_in_words(facts["islands"], facts.get("island_kinds"))
    notes = facts["warnings"][:most_warnings]
    words |= {f"note {number}": sentence for number, sentence in enumerate(notes, start=1)}
    if facts["categories"]:
        counts = [f"{category} {count:,}" for category, count in facts["categories"].items()]
        words["categories"] = listed(counts, _MAX_CATEGORIES)
    return words


def cost_in_words(cost: dict[str, int]) -> str:
    """Format a ``resident_cost``."""
    embree, opengl, gpu = (f"{cost[name] / 1e6:,.1f} MB" for name in ("embree", "opengl", "gpu"))
    return f"about {embree} with Embree; with OpenGL {opengl}, and {gpu} of the GPU's memory"


def islands_in_words(areas: Sequence[float], kinds: Sequence[str] | None = None) -> str:
    """Format the number of islands and the largest areas; ``areas`` are in square metres, the largest first."""
    words = [f"{area:.1f}" + (f" ({kinds[row]})" if kinds else "") for row, area in enumerate(areas)]
    return f"{len(areas)}: {listed(words)} m2"


def size_in_words(size: Sequence[float] | np.ndarray) -> str:
    """Format lengths along x, y and z, in metres."""
    return " x ".join(f"{length:.2f}" for length in size) + " m (x, y up, z)"


def listed(names: Sequence[str], most: int = _MAX_LISTED) -> str:
    """Join the first names and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
