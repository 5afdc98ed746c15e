"""``gym-batchnav episodes``: sample and describe episodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.flags import listed, refuse_options

if TYPE_CHECKING:
    from gym_batchnav.episodes.samplers import ObjectEpisodes, PointEpisodes
    from gym_batchnav.library.prepare import NavigationPreparer
    from gym_batchnav.library.sources import SceneSource
    from gym_batchnav.navmesh.mesh import NavMeshSettings


class TaskName(str, Enum):
    """The tasks whose episodes can be sampled and described."""

    POINTNAV = "pointnav"
    OBJECTNAV = "objectnav"


def episodes(
    context: typer.Context,
    scenes: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders, patterns or names, as for scenes=; or one file of episodes, .json or .json.gz."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write, .json.gz or .json, or a folder for Habitat's layout: FOLDER/NAME.json.gz and a file "
            "per scene in FOLDER/content. Folders are created if missing."
        ),
    ] = Path("episodes.json.gz"),
    task: Annotated[
        TaskName | None,
        typer.Option(help="Goals: points (the default), or objects with view points.", show_default=False),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Sample for the task and the agent of a protocol, such as objectnav-2023.")
    ] = None,
    categories: Annotated[
        str,
        typer.Option(
            help="Categories of objects, separated by commas; retail_chair_b=chair counts objects of another name. "
            "Synonyms are one category: bookshelf means every shelf."
        ),
    ] = "chair,bed,plant,toilet,tv,sofa",
    num_episodes: Annotated[
        int, typer.Option(help="Number of episodes per scene; another number draws other episodes.", min=1)
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed gives the same episodes.", min=0)] = 0,
) -> None:
    """Sample episodes of scenes by the rules of Habitat's generator, or describe a file of episodes.

    They fit the agent of the protocol, else that of a .navmesh next to the scene's file, such as scene info --agent
    --out writes, else the default agent.

    A scene that has no episodes is reported and left out. Pass the file to environments as episodes=, or put one of
    PointNav next to the scene's file under the scene's name. Habitat's format has PointNav and ObjectNav episodes, but
    none for flying agents.

    Example: gym-batchnav episodes home.glb --num-episodes 500 --out train.json.gz

    Example: gym-batchnav episodes home.glb --num-episodes 100 --seed 1 --out val.json.gz

    Example: gym-batchnav episodes apartments --task objectnav --out v1/val

    Example: gym-batchnav episodes shop.glb --protocol objectnav-2023 --categories bed,retail_chair_b=chair

    Example: gym-batchnav episodes train.json.gz
    """
    from gym_batchnav.episodes.habitat import ENDINGS, dataset_file
    from gym_batchnav.episodes.samplers import ObjectEpisodes
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.prepare import NavigationPreparer
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.library.warmup import building_workloads
    from gym_batchnav.scene.habitat.dataset import DATASET_ENDING
    from gym_batchnav.system.compilation import compile_ahead
    from gym_batchnav.system.wording import counted

    files = [name for name in scenes if name.endswith(ENDINGS) and not name.endswith(DATASET_ENDING)]
    if files:
        refuse_options(context, ("scenes",), "when a file of episodes is described")
        if len(scenes) > 1:
            raise ValueError(f"'{files[0]}' is a file of episodes: name it alone to describe it, or scenes only")
        _describe(Path(files[0]))
        return
    file = dataset_file(out)
    settings, sampler = _agent_and_sampler(protocol, task, categories)
    source = context.get_parameter_source("categories")
    if not isinstance(sampler, ObjectEpisodes) and source is not None and source.name == "COMMANDLINE":
        raise ValueError("--categories has no effect on episodes of PointNav: add --task objectnav, or leave it out")
    cache = DiskCache()
    preparer = NavigationPreparer(settings, cache=cache)
    sources = scene_sources(scenes, cache)
    _check_out(out, sources, sampler)
    draws_with = "embree" if isinstance(sampler, ObjectEpisodes) else None
    compile_ahead(building_workloads(measures=True, draws_with=draws_with))
    if isinstance(sampler, ObjectEpisodes):
        _check_names(sources, sampler)
    refused, notes = _write_samples(out, sources, preparer, sampler, num_episodes, seed)
    used = len(sources) - len(refused)
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    for line in (*(f"left out: {reason}" for reason in refused), *(f"note: {note}" for note in notes)):
        console.print(line)
    console.print(f"{file}: {counted(num_episodes * used, 'episode')} in {counted(used, 'scene')}")


def _write_samples(
    out: Path,
    sources: list[SceneSource],
    preparer: NavigationPreparer,
    sampler: PointEpisodes | ObjectEpisodes,
    num_episodes: int,
    seed: int,
) -> tuple[list[str], list[str]]:
    """Sample and write the episodes of scenes; ValueError if none has any.

    Returns:
        Why scenes have none, and which categories are missing from the episodes.
    """
    from gym_batchnav.episodes.episode_set import EpisodeSet
    from gym_batchnav.episodes.habitat import dataset_file, write_episodes
    from gym_batchnav.episodes.habitat_objects import write_object_episodes
    from gym_batchnav.episodes.objects import ObjectInstance, numbers_in_scene, sample_object_episodes
    from gym_batchnav.episodes.samplers import ObjectEpisodes
    from gym_batchnav.library.prepare import sampling_generator
    from gym_batchnav.system.progress import late_progress
    from gym_batchnav.system.storage import make_folder

    samples: dict[str, tuple[EpisodeSet, list[ObjectInstance]]] = {}
    refused: list[str] = []
    notes: list[str] = []
    known: set[str] = set()  # categories of the scenes' objects
    with late_progress("Sampling episodes of scenes", len(sources)) as done:
        for source in sources:
            file = f"{source.name}.glb"
            try:
                scene = source.load()
                rng = sampling_generator(scene, seed)
                navmesh = preparer.navmesh(scene)
                if isinstance(sampler, ObjectEpisodes):
                    numbers = numbers_in_scene(scene, sampler.categories, dict(sampler.aliases)).values()
                    present = {sampler.categories[number] for number in numbers if number is not None}
                    known |= present
                    found = sampler.instances(scene, navmesh)
                    sampled = sample_object_episodes(navmesh, found, sampler.categories, num_episodes, rng)
                    samples[file] = (sampled, found)
                    if unseen := sorted(present - {one.category for one in found}):
                        notes.append(
                            f"scene '{source.name}': no episodes lead to {', '.join(unseen)}: no view points where "
                            "agents can go (hidden, or behind a closed door)"
                        )
                else:
                    samples[file] = (sampler.sample(scene, navmesh, num_episodes, rng), [])
            except ValueError as error:
                reason = str(error)
                refused.append(reason if reason.startswith("scene ") else f"scene '{source.name}': {reason}")
            done()
    if len(refused) == len(sources):
        raise ValueError("\n".join(refused))
    make_folder(dataset_file(out).parent)
    if isinstance(sampler, ObjectEpisodes):
        write_object_episodes(samples, out)
        if missing := [name for name in sampler.categories if name not in known]:
            notes.append(f"no scene has objects of the categories {', '.join(missing)}")
    else:
        write_episodes({file: sampled for file, (sampled, _) in samples.items()}, out)
    return refused, notes


def _check_out(out: Path, sources: list[SceneSource], sampler: PointEpisodes | ObjectEpisodes) -> None:
    """Raise OSError or ValueError if the episodes of scenes cannot be written to ``out``."""
    from gym_batchnav.episodes.habitat import check_file_names, check_same_dataset, dataset_file
    from gym_batchnav.episodes.habitat_objects import object_document
    from gym_batchnav.episodes.samplers import ObjectEpisodes
    from gym_batchnav.system.storage import check_destination, is_writable

    file = dataset_file(out)
    there = next(folder for folder in file.absolute().parents if folder.exists())
    if there == file.absolute().parent:
        check_destination(file)
    elif not (there.is_dir() and is_writable(there)):
        raise PermissionError(f"cannot create folders in '{there}' for '{file}': name a file in another folder")
    document = object_document({}, sampler.categories) if isinstance(sampler, ObjectEpisodes) else {"episodes": []}
    if file != out or len(document) > 1:  # Habitat names folders' files and goals of objects after those of scenes
        check_file_names(f"{one.name}.glb" for one in sources)
    if file != out:
        check_same_dataset(file, document)


def _check_names(sources: list[SceneSource], sampler: ObjectEpisodes) -> None:
    """Raise ValueError if no scene has objects of a name that is not one of the default categories."""
    from contextlib import suppress

    from gym_batchnav.episodes.objects import CATEGORIES
    from gym_batchnav.scene.categories import number_of

    aliases = dict(sampler.aliases)
    usual = dict.fromkeys((*CATEGORIES, *aliases.values()), 0)
    sought = [*(name for name in sampler.categories if number_of(name, usual) is None), *aliases]
    seen: set[str] = set()
    for source in sources:
        if not sought:
            return
        with suppress(ValueError):  # sampling says which scenes cannot be read
            seen |= {one.category for one in source.load().objects}
        sought = [name for name in sought if all(number_of(category, {name: 0}) is None for category in seen)]
    if sought and seen:
        raise ValueError(
            f"no scene has objects of the categories {', '.join(map(repr, sought))}: leave them out of --categories; "
            "gym-batchnav scene info FILE --json lists those of a scene"
        )


def _agent_and_sampler(
    protocol: str | None, task: TaskName | None, categories: str
) -> tuple[NavMeshSettings | None, PointEpisodes | ObjectEpisodes]:
    """Return the agent for which navmeshes are built, and the sampler; ValueError for a protocol of another task."""
    from gym_batchnav.episodes.samplers import ObjectEpisodes, PointEpisodes
    from gym_batchnav.protocols import protocol_of

    settings = None
    sampler: Any = ObjectEpisodes() if task is TaskName.OBJECTNAV else PointEpisodes()
    if protocol is not None:
        chosen = protocol_of(protocol)
        settings, theirs = chosen.navmesh_settings, chosen.task.sampler
        fits = isinstance(theirs, (PointEpisodes, ObjectEpisodes)) and not getattr(theirs, "per_instance", False)
        if not fits or (task and type(theirs) is not type(sampler)):
            remedy = "leave --task out" if fits else "choose one for PointNav or ObjectNav"
            raise ValueError(f"protocol={protocol!r} is for {type(chosen.task).__name__}: {remedy}")
        sampler = theirs
    return settings, _object_episodes(categories, sampler) if isinstance(sampler, ObjectEpisodes) else sampler


def _object_episodes(categories: str, sampler: ObjectEpisodes) -> ObjectEpisodes:
    """Return a sampler with a list of categories and of pairs name=category, which commas separate."""
    pairs = [[word.strip() for word in one.split("=")] for one in listed(categories)]
    if not pairs or any(len(pair) > 2 or not all(pair) for pair in pairs):
        raise ValueError(f"categories={categories!r}: pass names or pairs such as bed,retail_chair_b=chair")
    names = tuple(dict.fromkeys(pair[-1] for pair in pairs))
    return replace(sampler, categories=names, aliases=dict(pair for pair in pairs if len(pair) == 2))


def _describe(file: Path) -> None:
    import numpy as np

    from gym_batchnav.episodes.habitat import ObjectNavFile, read_episodes
    from gym_batchnav.episodes.habitat_objects import read_object_episodes
    from gym_batchnav.system.wording import counted

    # The file of an object episode does not say which view point is the nearest.
    goals, detour = "goals", ["geodesic / straight"]
    categories: Counter[str] = Counter()
    try:
        dataset = read_episodes(file)
    except ObjectNavFile:
        dataset = read_object_episodes(file)
        goals, detour = "view points", []
        categories.update(found.categories[row] for found in dataset.values() for row in found.category)
    content = f"{counted(sum(map(len, dataset.values())), 'episode')} in {counted(len(dataset), 'scene')}"
    table = Table("scene", title=f"{escape(file.name)}: {content} (geodesic distances in metres)")
    for heading in ("episodes", goals, "nearest", "mean", "farthest", *detour):
        table.add_column(heading, justify="right")
    for name, found in sorted(dataset.items()):
        numbers = [found.distance.min(), found.distance.mean(), found.distance.max()]
        if detour:
            straight = np.linalg.norm(found.start - found.goal, axis=1)
            numbers.append(np.mean(found.distance / np.maximum(straight, 1e-6)))
        row = (f"{number:.2f}" for number in numbers)
        table.add_row(escape(name), f"{len(found):,}", f"{len(found.goals):,}", *row)
    console = Console(highlight=False)
    console.print(table)
    if categories:
        counts = ", ".join(f"{name} {count:,}" for name, count in categories.most_common())
        console.print(f"Categories: {counts}", markup=False, soft_wrap=True)
