"""Preparation of one scene for agents: its navmesh, geodesic tables and episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from gym_batchnav.episodes.episode_set import EPISODE_ARRAYS, EpisodeSet, check_episode_arrays
from gym_batchnav.episodes.fitting import MAX_SHIFT, fit_episodes, fit_object_episodes, is_near, measure_like_detour
from gym_batchnav.episodes.floors import FLOORS
from gym_batchnav.episodes.habitat import (
    FileState,
    content_of,
    read_episodes,
    scene_name_in,
    scene_stem,
    state_of_files,
)
from gym_batchnav.episodes.habitat_objects import read_object_episodes
from gym_batchnav.episodes.samplers import EpisodeSampler, ObjectEpisodes, PointEpisodes, is_rebuildable, with_floors
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.loader import reason_of
from gym_batchnav.library.shipped import ShippedTables, shipped_tables
from gym_batchnav.navmesh.kernels.layout import Drops
from gym_batchnav.navmesh.kernels.tables import NavigationTables
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.navmesh.record import NAVMESH_ARRAYS, NavMeshData, is_detour
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.habitat.dataset import scene_name
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.simplify import digest_of_geometry, digest_of_whole_geometry
from gym_batchnav.system.code import code_digest
from gym_batchnav.system.progress import report_stage

_COMPILERS = ("numpy", "numba")
_builder_digest = partial(code_digest, "navmesh/build/__init__.py", packages=_COMPILERS)
_geodesics_digest = partial(code_digest, "navmesh/mesh.py", without=("navmesh/build/",), packages=_COMPILERS)
_floor_digest = partial(code_digest, "navmesh/kernels/floor.py", packages=_COMPILERS)
_sampler_digest = partial(code_digest, "episodes/floors.py", without=("navmesh/build/",), packages=_COMPILERS)
_other_sampler_digest = partial(code_digest, "episodes/samplers.py", without=("navmesh/build/",), packages=_COMPILERS)


def makers_digest(sampler: EpisodeSampler) -> str:
    """Return a digest of the code on which the cached navmesh, distances, visible floor and episodes depend."""
    ground = (_builder_digest(), _geodesics_digest(), _floor_digest())
    sampling = _other_sampler_digest()  # a user's own sampler is stored nowhere
    if is_rebuildable(sampler):
        module = type(sampler).__module__.partition(".")[2].replace(".", "/")
        sampling = code_digest(f"{module}.py", without=("navmesh/build/",), packages=_COMPILERS)
    digests = (*ground, sampling)
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Navigation:
    """A prepared scene: its navmesh, its tables for distances, and its episodes."""

    navmesh: NavMesh
    tables: NavigationTables
    episode_set: EpisodeSet
    start_polygon: np.ndarray  # [E] int32, polygon under the start of every episode

    def is_navigable(self, points: np.ndarray) -> np.ndarray:
        """Return whether agents can stand at points [M, 3], [M] bool."""
        return self.navmesh.is_navigable(points)

    def shortest_path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """Return the points [K, 3] float32 of the shortest path from a start [3] to a goal [3]; see ``NavMesh``."""
        return self.navmesh.shortest_path(start, goal)

    def snap_with_polygon(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest points [M, 3] float32 on the navmesh, and their polygons [M] int32."""
        return self.navmesh.snap_with_polygon(points)

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes; a few small arrays that navmesh and tables share count twice."""
        navmesh = [getattr(self.navmesh.data, name) for name in NAVMESH_ARRAYS]
        own = sum(array.nbytes for array in (*navmesh, self.start_polygon))
        return self.tables.nbytes + self.episode_set.nbytes + own


@dataclass(frozen=True, slots=True)
class NavigationPreparer:
    """A callable that prepares scenes for a task, for the scene library.

    Attributes:
        settings: The agent for which navmeshes are built. None means Habitat's default agent, and uses a navmesh
            that came with a scene unchanged.
        episode_file: A Habitat dataset with the episodes. None reads the file ``<scene>.json.gz`` next to the scene if
            there is one, and otherwise samples episodes.
        num_episodes: Number of episodes to sample for a scene without any; its name and ``seed`` determine the draws.
        cache: Stores navmeshes, distances and episodes; None stores none.
        sampler: The kind of episodes to sample. Files next to scenes are only read for PointNav's default kind. A
            sampler of the user's own runs in the process that steps, maybe in a thread; its episodes are not stored.
        geodesic: The method that measures the lengths of episodes, ``"exact"`` or ``"detour"``. Both sample the same
            episodes.
        seed: Seed of the episodes to sample, even for scenes that come with episodes; None for the usual ones.
    """

    settings: NavMeshSettings | None = None
    episode_file: Path | None = None
    num_episodes: int = 1000
    # Not compared, since it does not affect the results, which equal preparers share.
    cache: DiskCache | None = field(default=None, compare=False)
    sampler: EpisodeSampler = field(default=PointEpisodes())
    geodesic: str = "exact"
    seed: int | None = None

    def __call__(self, scene: Scene) -> Navigation:
        """Prepare one scene."""
        if self.cache is not None:
            report_stage(f"{scene.name}: looking in the cache")  # until a stage of what is missing begins
        prepare = getattr(self.sampler, "prepare", None)
        if prepare is not None:
            if self.episode_file is not None:
                raise ValueError(_no_file(self.episode_file, self.sampler))
            rng = sampling_generator(scene, self.seed)
            prepared: Navigation = prepare(scene, self._own_navmesh(scene), self.num_episodes, rng, self.cache)
            return prepared
        navmesh = self._own_navmesh(scene)
        shipped = shipped_tables(scene, navmesh)
        drops = self._measured(scene, navmesh, shipped)
        if shipped is not None and self.reads_shipped_episodes:
            tables = navmesh.tables(shipped.goals, drops)
            if not is_detour(self.geodesic):
                return Navigation(navmesh, tables, shipped.episodes, shipped.start_polygon)
            episodes = shipped.episodes
        else:
            episodes = self.episodes(scene, navmesh)
            tables = navmesh.tables(episodes.goals, drops, episodes.first_goal)
        if is_detour(self.geodesic):
            episodes = measure_like_detour(episodes, navmesh, tables, f"scene {scene.name!r}, geodesic='detour'")
        _, start_polygon = navmesh.snap_with_polygon(episodes.start)
        return Navigation(navmesh, tables, episodes, start_polygon)

    @property
    def reads_shipped_episodes(self) -> bool:
        """Whether shipped scenes run with the episodes that are shipped with them."""
        return self.episode_file is None and self.seed is None and self._is_usual

    @property
    def _is_usual(self) -> bool:
        """Whether the sampler is PointNav's, on any floors, whose episodes a scene may come with."""
        return type(self.sampler) is PointEpisodes and with_floors(self.sampler, FLOORS[0]) == PointEpisodes()

    def ground(self, scene: Scene) -> tuple[NavMesh, Drops]:
        """Return the navmesh of a scene, and the distances of the visible floor below it."""
        navmesh = self._own_navmesh(scene)
        return navmesh, self._measured(scene, navmesh, shipped_tables(scene, navmesh))

    def _measured(self, scene: Scene, navmesh: NavMesh, shipped: ShippedTables | None) -> Drops:
        """Give a navmesh its tables for distances; return the distances of the visible floor below it."""
        recall_geodesics(navmesh, self.cache, shipped)
        return cached_drops(scene, navmesh, self.cache) if shipped is None else shipped.drops

    def navmesh(self, scene: Scene) -> NavMesh:
        """Return the scene's own navmesh, or one built for the settings, with its tables for distances.

        Computed data is stored in the cache.
        """
        navmesh = self._own_navmesh(scene)
        recall_geodesics(navmesh, self.cache, shipped_tables(scene, navmesh))
        return navmesh

    def _own_navmesh(self, scene: Scene) -> NavMesh:
        """Return the navmesh of a scene without its tables."""
        if scene.navmesh is not None and self.settings in (None, scene.navmesh.settings):
            return scene.navmesh
        return cached_navmesh(scene, self.settings or NavMeshSettings(), self.cache)

    def episodes(self, scene: Scene, navmesh: NavMesh) -> EpisodeSet:
        """Return the scene's episodes: from ``episode_file``, from the file next to the scene, or sampled."""
        points = self._is_usual
        file = self.episode_file or (_episode_file_beside(scene) if points and self.seed is None else None)
        if file is None:
            try:
                return cached_episodes(scene, navmesh, self.num_episodes, self.sampler, self.cache, self.seed)
            except ValueError as error:
                raise SceneError(scene.name, reason_of(error)) from error
        objects = isinstance(self.sampler, ObjectEpisodes) and not self.sampler.per_instance
        if not points and not objects:
            raise ValueError(_no_file(file, self.sampler))
        categories = self.sampler.categories if isinstance(self.sampler, ObjectEpisodes) else None
        origin = f"episodes='{file}'" if self.episode_file else f"'{file}'"
        aliases = (scene.name, str(scene.metadata.get("path", "")))
        try:
            by_scene = _dataset_with(file, categories, aliases)
        except (ValueError, FileNotFoundError) as error:
            if self.episode_file is None:
                raise
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
            raise kind(f"episodes= cannot be used: {error}") from error
        where = f"{origin}, scene {scene.name!r}"
        try:
            name = scene_name_in(by_scene, aliases)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        if name is None:
            known = ", ".join(sorted(by_scene)[:20])
            raise ValueError(
                f"{origin} has no episode for scene {scene.name!r}, only for {known}: name the scene as the dataset "
                "does, or pass another file"
            )
        fit = fit_episodes if categories is None else fit_object_episodes
        return fit(by_scene[name], navmesh, where)


def _no_file(file: Path, sampler: EpisodeSampler) -> str:
    return f"episodes='{file}': {sampler!r} samples all episodes and reads no file: leave the file out"


def _dataset_with(file: Path, categories: tuple[str, ...] | None, aliases: tuple[str, ...]) -> dict[str, EpisodeSet]:
    """Read the file of a scene alone if the dataset has one in ``content/``, and otherwise the whole dataset.

    Habitat's training splits have up to 800 such files with ten million episodes, too many to keep in memory.
    """
    state = state_of_files(file)
    for stem in dict.fromkeys(map(scene_stem, aliases)):
        if content_of(file, stem):
            by_scene = _read_episodes_once(file, state, categories, stem)
            if any(scene_stem(name) == stem for name in by_scene):
                return by_scene
    return _read_episodes_once(file, state, categories, None)


@lru_cache(maxsize=1)
def _read_episodes_once(
    file: Path, state: tuple[FileState, ...], categories: tuple[str, ...] | None, stem: str | None
) -> dict[str, EpisodeSet]:
    """Read a dataset of PointNav, or of ObjectNav with categories, once for all scenes, and again when it changes."""
    return read_episodes(file, stem) if categories is None else read_object_episodes(file, categories, stem)


def _episode_file_beside(scene: Scene) -> Path | None:
    """Return the dataset ``<scene>.json.gz`` in the folder of the scene's file, or None."""
    path = Path(str(scene.metadata.get("path", "")))
    beside = path.with_name(f"{scene_name(path.name)}.json.gz") if path.name else None
    return beside if beside is not None and beside.is_file() else None


def cached_navmesh(scene: Scene, settings: NavMeshSettings, cache: DiskCache | None) -> NavMesh:
    """Return the navmesh of a scene for the given agent, from the cache or built and stored there.

    That of a simplified scene is built from its whole geometry, so that agents walk where they would without.

    Raises:
        ValueError: If there is no walkable area; the message names the scene.
    """
    key = f"navmesh-{_builder_digest()}-{digest_of_whole_geometry(scene)}-{settings!r}" if cache is not None else ""
    arrays = cache.load(key) if cache is not None else None
    if arrays is not None:
        try:
            return NavMesh(NavMeshData(**{name: arrays[name] for name in NAVMESH_ARRAYS}, settings=settings))
        except (ValueError, KeyError, TypeError):
            pass  # an entry that does not validate is replaced

    def report(stage: str, share: float) -> None:
        report_stage(f"{scene.name}: navmesh, {stage}, {share:.0%}")

    whole = scene if scene.unsimplified is None else scene.unsimplified()
    try:
        navmesh = NavMesh.build(whole.vertices, whole.solid_triangles, settings, report)
    except ValueError as error:
        raise SceneError(scene.name, reason_of(error)) from error
    if cache is not None:
        cache.store(key, {name: getattr(navmesh.data, name) for name in NAVMESH_ARRAYS})
    return navmesh


def cached_drops(scene: Scene, navmesh: NavMesh, cache: DiskCache | None) -> Drops:
    """Return the distances of the visible floor below a navmesh, from the cache or measured and stored there."""
    if cache is None:
        return navmesh.drops(scene.vertices, scene.triangles)
    key = f"drops-{_floor_digest()}-{digest_of_geometry(scene)}-{content_of_navmesh(navmesh)}-{navmesh.settings!r}"
    arrays = cache.load(key)
    if arrays is not None:
        try:
            drops = Drops(**{name: arrays[name] for name in Drops._fields})
            navmesh.check_drops(drops)
            return drops
        except (ValueError, KeyError, TypeError):
            pass  # an entry that does not validate is replaced
    report_stage(f"{scene.name}: heights of the visible floor")
    drops = navmesh.drops(scene.vertices, scene.triangles)
    cache.store(key, drops._asdict())
    return drops


def sampling_generator(scene: Scene, seed: int | None) -> np.random.Generator:
    """Return the random generator from which the episodes of a scene are sampled."""
    name = scene.name.encode(errors="surrogatepass")  # file names need not be UTF-8
    # NumPy fills up to four words with zeros, so a seed of 0 has an effect only from the fifth word on.
    return np.random.default_rng(list(name) if seed is None else [*name.ljust(4, b"\0"), seed])


def cached_episodes(
    scene: Scene,
    navmesh: NavMesh,
    num_episodes: int,
    sampler: EpisodeSampler,
    cache: DiskCache | None,
    seed: int | None = None,
) -> EpisodeSet:
    """Return the episodes of a sampler, from the cache or sampled and stored there.

    Those of a user's sampler are not stored, because no key would change whenever the sampler changes.

    Raises:
        ValueError: If the scene has no place for such episodes, or a user's sampler gives impossible ones.
    """
    is_builtin = is_rebuildable(sampler)
    key = ""
    if cache is not None and is_builtin:
        key = _episodes_key(scene, navmesh, num_episodes, sampler) + ("" if seed is None else f"-seed {seed}")
    arrays = cache.load(key) if cache is not None and is_builtin else None
    if arrays is not None:
        try:
            return _stored_episodes(arrays, navmesh, num_episodes)
        except (ValueError, KeyError, TypeError):
            pass  # an entry that does not validate is replaced
    report_stage(f"{scene.name}: sampling episodes")
    episodes = sampler.sample(scene, navmesh, num_episodes, sampling_generator(scene, seed))
    if not is_builtin:
        try:
            _check_episodes(episodes, navmesh)
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"sampler={sampler!r} gave episodes that cannot be run: {error}") from error
    elif cache is not None:
        cache.store(key, {**episodes.arrays(), "categories": np.array(episodes.categories, str)})
    return episodes


def _episodes_key(scene: Scene, navmesh: NavMesh, num_episodes: int, sampler: EpisodeSampler) -> str:
    content = f"{sampler!r}-{num_episodes}-{digest_of_geometry(scene)}-{content_of_navmesh(navmesh)}-{scene.name}"
    if isinstance(sampler, PointEpisodes):
        return f"episodes-{_sampler_digest()}-{content}"
    return f"episodes-{_other_sampler_digest()}-{_objects_of(scene)}-{content}"


def _objects_of(scene: Scene) -> str:
    """Return the SHA-256 of the names and triangles of a scene's objects."""
    content = hashlib.sha256(repr(scene.objects).encode(errors="surrogatepass"))
    content.update(np.ascontiguousarray(scene.triangle_object).data)
    return content.hexdigest()


def _stored_episodes(arrays: Mapping[str, np.ndarray], navmesh: NavMesh, num_episodes: int) -> EpisodeSet:
    """Return the episodes of a cache entry; ValueError or KeyError if they do not fit this navmesh."""
    ids = tuple(str(index) for index in range(len(arrays["start"])))
    found = {name: arrays[name] for name in EPISODE_ARRAYS}
    episodes = EpisodeSet(ids=ids, **found, categories=tuple(arrays["categories"].tolist()))
    _check_episodes(episodes, navmesh)
    if len(episodes) != num_episodes:
        raise ValueError(f"not stored episodes: {len(episodes)} instead of {num_episodes}")
    return episodes


def _check_episodes(episodes: EpisodeSet, navmesh: NavMesh) -> None:
    """Raise ValueError unless episodes can be run: starts and goals are on the navmesh, with a path between them."""
    check_episode_arrays(episodes.arrays())
    if len(episodes.ids) != len(episodes):
        raise ValueError(f"there are {len(episodes.ids)} ids for {len(episodes)} episodes")
    if episodes.category.max(initial=0) > max(0, len(episodes.categories) - 1):
        raise ValueError(
            f"category has the index {episodes.category.max()}, but there are {len(episodes.categories)} names"
        )
    snapped_start, start_polygon = navmesh.snap_with_polygon(episodes.start)
    snapped_goals, goal_polygon = navmesh.snap_with_polygon(episodes.goals)
    if not (is_near(episodes.start, snapped_start).all() and is_near(episodes.goals, snapped_goals).all()):
        raise ValueError("some starts or goals lie nowhere near the navmesh")
    nearest = episodes.nearest_goal
    joined = navmesh.polygon_island[start_polygon] == navmesh.polygon_island[goal_polygon[nearest]]
    straight = np.linalg.norm(np.subtract(episodes.goals[nearest], episodes.start, dtype=np.float64), axis=1)
    if not (joined & (episodes.leg_distance[:, 0] >= straight - MAX_SHIFT)).all():
        raise ValueError("some have a goal on another island, or a leg_distance below that of the straight line")


def content_of_navmesh(navmesh: NavMesh) -> str:
    """Return the SHA-256 of a navmesh's arrays."""
    content = hashlib.sha256()
    for name in NAVMESH_ARRAYS:
        content.update(getattr(navmesh.data, name).tobytes())
    return content.hexdigest()


def recall_geodesics(navmesh: NavMesh, cache: DiskCache | None, shipped: ShippedTables | None) -> None:
    """Give a navmesh its corner graph and cell lists: shipped, from the cache, or computed and stored there.

    Without a cache they are computed when first needed.
    """
    if shipped is not None:
        navmesh.use_geodesic_arrays({**shipped.corners._asdict(), **shipped.cells._asdict()})
        return
    if cache is None:
        return
    key = f"geodesics-{_geodesics_digest()}-{content_of_navmesh(navmesh)}"
    arrays = cache.load(key)
    if arrays is not None:
        try:
            navmesh.use_geodesic_arrays(arrays)
            return
        except (ValueError, KeyError, TypeError):
            pass  # an entry that does not validate is replaced
    report_stage("distances on the navmesh")
    cache.store(key, navmesh.geodesic_arrays())
