"""The scene library of a batch of environments."""

from __future__ import annotations

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec, scene_sources
from gym_batchnav.preparation.navigation import NavigationPreparer
from gym_batchnav.preparation.pool import PreparationPool

FEW_SCENES = 8  # up to this number all are resident
ENVS_PER_SCENE = 32  # of more scenes; as in "Large Batch Simulation for Deep Reinforcement Learning"


def make_library(
    scenes: SceneSpec,
    num_envs: int,
    preparer: NavigationPreparer,
    *,
    once: bool,
    resident_scenes: int | None,
    rotate_every: int,
    deterministic: bool,
    max_scene_bytes: int | None,
) -> SceneLibrary:
    """A library whose scenes are prepared ahead of their turn by worker processes.

    Args:
        scenes: The scenes, see ``scene_sources``.
        num_envs: N, the number of environments that will share it.
        preparer: What is prepared ahead; its cache also keeps the scenes.
        once: Every episode runs once, for which all scenes have to be resident.
        resident_scenes: The number of lanes. By default all scenes if they are few or with ``once``, else one per 32
            environments.
        rotate_every: See SceneLibrary.
        deterministic: See SceneLibrary.
        max_scene_bytes: See SceneLibrary.

    Raises:
        ValueError: Episodes are to run once and not all scenes to be resident, or as for ``scene_sources`` and
            SceneLibrary.
    """
    sources = scene_sources(scenes, preparer.cache)
    if once and resident_scenes is not None and resident_scenes < len(sources):
        raise ValueError(
            f"episode_order='once' needs every scene resident: list {resident_scenes} instead of {len(sources)}, or "
            f"leave resident_scenes={resident_scenes} out"
        )
    if resident_scenes is None and not once and len(sources) > FEW_SCENES:
        resident_scenes = -(-num_envs // ENVS_PER_SCENE)
    pool = PreparationPool(preparer)
    return SceneLibrary(
        sources,
        resident_scenes,
        rotate_every=rotate_every,
        deterministic=deterministic,
        max_scene_bytes=max_scene_bytes,
        prepare_ahead=pool.prepare_ahead,
        release_worker=pool.release,
    )
