"""What a set of scenes is to a renderer, as a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.library.library import SceneLibrary

MAX_MEASURED_SCENES = 8  # over which the features of scenes are averaged


@dataclass(frozen=True, slots=True)
class SceneFeatures:
    """What a set of scenes is to a renderer; means over up to eight of its scenes.

    Attributes:
        num_scenes: Number of scenes in the set.
        triangles: Triangles of a scene.
        texture_bytes: Bytes of its textures, scaled as they are drawn.
        extent: Length of the diagonal of its box, metres.
    """

    num_scenes: float
    triangles: float
    texture_bytes: float
    extent: float


def scene_features(library: SceneLibrary) -> SceneFeatures:
    """Return the features of the scenes that a library holds."""
    slots = library.active[:MAX_MEASURED_SCENES].tolist()
    scenes = [library.scene(slot) for slot in slots]
    return SceneFeatures(
        num_scenes=float(len(library.names)),
        triangles=float(np.mean([max(len(scene.triangles), 1) for scene in scenes])),
        texture_bytes=float(np.mean([sum(one.nbytes for one in scene.textures) for scene in scenes])),
        extent=float(np.mean([np.linalg.norm(np.ptp(scene.vertices, axis=0)) for scene in scenes])),
    )
