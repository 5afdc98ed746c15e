"""The scene library of a batch of environments."""

from __future__ import annotations

from collections.abc import Sequence

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.preparation.navigation import NavigationPreparer
from gym_batchnav.preparation.pool import PreparationPool
from gym_batchnav.system.wording import counted

FEW_SCENES = 8  # up to this number all are resident
ENVS_PER_SCENE = 32  # with more scenes; as in "Large Batch Simulation for Deep Reinforcement Learning"


def make_library(
    sources: Sequence[SceneSource],
    num_envs: int,
    preparer: NavigationPreparer,
    *,
    once: bool,
    resident_scenes: int | None,
    rotate_every: int,
    deterministic: bool,
    max_scene_bytes: int | None,
) -> SceneLibrary:
    """Make a library whose scenes are prepared ahead of their turn by worker processes.

    Args:
        sources: The scenes.
        num_envs: N, the number of environments that will share the library.
        preparer: Prepares the scenes.
        once: Whether every episode runs once, for which all scenes must be resident.
        resident_scenes: The number of lanes. By default all scenes if they are few or with ``once``, else one per 32
            environments.
        rotate_every: See SceneLibrary.
        deterministic: See SceneLibrary.
        max_scene_bytes: See SceneLibrary.

    Raises:
        ValueError: If episodes run once and not all scenes would be resident, or as SceneLibrary does.
    """
    if once and resident_scenes is not None and resident_scenes < len(sources):
        raise ValueError(
            f"episode_order='once' requires all scenes to be resident: pass {counted(resident_scenes, 'scene')} "
            f"instead of {len(sources)}, or leave resident_scenes={resident_scenes} out"
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
