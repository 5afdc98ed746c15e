"""``gym-batchnav scene prepare``: fill the cache before a run, in several processes."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.flags import RayAddress, check_one_division
from gym_batchnav.cli.scene.choice import AgentSize, agent_settings

if TYPE_CHECKING:
    from gym_batchnav.episodes.samplers import EpisodeSampler
    from gym_batchnav.library.cache import DiskCache


class PreparedTask(str, Enum):
    """Tasks whose scenes are prepared differently; those with goals at points are all prepared as ``pointnav``."""

    POINTNAV = "pointnav"
    MULTIGOALNAV = "multigoalnav"
    OBJECTNAV = "objectnav"
    INSTANCEIMAGENAV = "instanceimagenav"
    DRONENAV = "dronenav"


def prepare(
    scenes: Annotated[list[str], typer.Argument(help="Files, folders, patterns or names, as for scenes=.")],
    workers: Annotated[
        int | None, typer.Option(help="Number of processes; by default at most 4, as cores and memory allow.", min=1)
    ] = None,
    shard: Annotated[
        str | None, typer.Option(help="Prepare part i of n, i from 1 to n, as in 2/8.", metavar="i/n")
    ] = None,
    max_triangles: Annotated[
        int | None,
        typer.Option(help="Simplify files with more triangles than this; navmeshes are built from the originals."),
    ] = None,
    agent: AgentSize = None,
    task: Annotated[
        PreparedTask,
        typer.Option(help="Task of your run; pointnav serves all tasks with goals at points on the floor."),
    ] = PreparedTask.POINTNAV,
    num_episodes: Annotated[
        int, typer.Option(help="Number of episodes to sample for a scene that has none.", min=1)
    ] = 1000,
    episode_file: Annotated[Path | None, typer.Option(help="Habitat dataset to read the episodes from.")] = None,
    ray: RayAddress = None,
) -> None:
    """Load or generate scenes, and build their navmeshes and episodes now, so that a run finds them in the cache.

    Entries that are already in the cache are only checked, so that a command that was interrupted or killed continues
    when it is run again. Scenes that cannot be used are listed in a table at the end, and the exit status is then 1.
    Ctrl-C stops at once and keeps all complete entries.

    Several machines that share a cache folder each take a part with --shard; as an array of Slurm jobs:
    sbatch --array=1-8 --wrap 'gym-batchnav scene prepare "scans/**/*.glb" --shard $SLURM_ARRAY_TASK_ID/8'

    With --ray, all nodes of a Ray cluster prepare scenes; they must share the cache folder and files of scenes.

    Example: gym-batchnav scene prepare "~/scenes/**/*.glb" procedural:0-63 --workers 4

    Example: gym-batchnav scene prepare apartments --task dronenav
    """
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.prepare import NavigationPreparer
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.library.workers import PreparationWorker, prepare_all
    from gym_batchnav.system.parts import Part
    from gym_batchnav.system.wording import counted

    part = Part.parse(shard)
    check_one_division(shard, ray)
    settings = agent_settings(agent)
    cache = DiskCache()
    if episode_file is not None and task not in (PreparedTask.POINTNAV, PreparedTask.OBJECTNAV):
        raise ValueError(f"episode_file='{episode_file}': task={task.value} reads no files: leave it out")
    _check(cache, episode_file, task)
    preparer = NavigationPreparer(settings, episode_file, num_episodes, cache, _sampler_of(task))
    options = {"max_triangles": max_triangles}
    sources = part.of(scene_sources(scenes, cache, options))
    console = Console(stderr=True)
    if not sources:
        refused = []
    elif ray is None:
        refused = prepare_all(sources, preparer, workers)
    else:
        from gym_batchnav.cluster.jobs import prepare_on

        names = [source.name for source in sources]
        refused = prepare_on(ray, scenes, options, names, preparer, workers)
    scenes_ready = f"{len(sources) - len(refused):,} of {counted(len(sources), 'scene')}"
    of_shard = f" of shard {part}" if shard else ""
    console.print(f"{scenes_ready}{of_shard} ready in '{cache.directory}'", highlight=False, markup=False)
    unusable = {name for name, _ in refused}
    first = next((source.recipe for source in sources if source.name not in unusable), None)
    if first is not None and not PreparationWorker(preparer).is_prepared(first):
        console.print(
            f"The cache is full ({cache.max_bytes / 1e9:g} GB), and scenes that were prepared first have been removed "
            "from it: set GYM_BATCHNAV_CACHE_GB to a larger number, here and for your runs",
            highlight=False,
        )
    if refused:
        table = Table("scene", "reason", title="Scenes that cannot be used")
        for name, reason in sorted(refused):
            table.add_row(escape(name), escape(reason))
        console.print(table)
        raise typer.Exit(1)


def _sampler_of(task: PreparedTask) -> EpisodeSampler:
    from gym_batchnav.flight.task import DroneNav
    from gym_batchnav.task.imagenav import InstanceImageNav
    from gym_batchnav.task.multigoal import MultiGoalNav
    from gym_batchnav.task.objectnav import ObjectNav
    from gym_batchnav.task.pointnav import PointNav

    tasks = (PointNav, MultiGoalNav, ObjectNav, InstanceImageNav, DroneNav)
    return dict(zip(PreparedTask, tasks, strict=True))[task]().sampler


def _check(cache: DiskCache, episode_file: Path | None, task: PreparedTask) -> None:
    """Raise an error early if the cache cannot be written, or the episode file is not a dataset of the task."""
    from gym_batchnav.episodes.habitat import content_of, read_episodes, scene_stem
    from gym_batchnav.episodes.habitat_objects import read_object_episodes
    from gym_batchnav.system.storage import is_writable

    with suppress(OSError):
        cache.directory.mkdir(parents=True, exist_ok=True)
    if not (cache.directory.is_dir() and is_writable(cache.directory)):
        raise PermissionError(
            f"the cache in '{cache.directory}' cannot be written: choose another folder with the environment "
            "variable GYM_BATCHNAV_CACHE"
        )
    if episode_file is not None:
        first = next((scene_stem(part.name) for part in content_of(episode_file)), None)  # one of many will do
        if task is PreparedTask.OBJECTNAV:
            read_object_episodes(episode_file, scene=first)
        else:
            read_episodes(episode_file, first)
