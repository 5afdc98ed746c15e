"""collect: run every episode of a collection once and write them to a dataset."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Dict

from gym_batchnav.collect.dataset import (
    COLLECTION,
    MAX_EPISODES,
    MAX_PER_SHARD,
    DatasetInfo,
    Format,
    Shard,
    all_shards,
    differences,
    plain,
    read_info,
    with_key,
    write_info,
)
from gym_batchnav.collect.folder import finished_shards, is_finished, locked, prepare_folder, remove_aside, write_shard
from gym_batchnav.collect.policies import ChosenPolicy, choose_policy
from gym_batchnav.collect.reading import make_format
from gym_batchnav.collect.recorder import Finished, FrameBuffers, Recorder, is_big
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.cameras import ONLY, CameraSpec, cameras_of
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.evaluation.agents import Acting, Agent, with_sensors
from gym_batchnav.evaluation.loop import EpisodeLoop
from gym_batchnav.geometry import Camera
from gym_batchnav.library.sources import SceneSource, SceneSpec, scene_sources
from gym_batchnav.protocols import protocol_of
from gym_batchnav.system.limits import available_memory
from gym_batchnav.system.numbers import check_counts, check_seed
from gym_batchnav.system.parts import Part
from gym_batchnav.system.process import num_processors
from gym_batchnav.system.storage import check_folder
from gym_batchnav.worlds.api import STEP_SECONDS

SENSORS = ("rgb", "depth")
_ONLY_SPEED = ("num_envs", "autoreset_mode", "scenes")
_OURS = ("num_envs", "autoreset_mode", "library", "obs_device", "buffers")

_USUAL_FRAMES = 128  # of an episode, for the estimate of memory; longer ones may end a collection, which can be resumed
_IMAGE_BYTES = 2**32  # of main memory that images take at most; more of them go to temporary files

Progress = Callable[[int, int], None]  # called with the number of further episodes and frames


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a call of ``collect``.

    While other parts have not collected all shards, the folder does not have the files that the format makes of them.
    """

    folder: Path
    info: DatasetInfo  # with the scenes and episodes of earlier calls
    num_shards: int  # that this call wrote
    num_episodes: int  # in them
    num_frames: int  # observations in them
    num_found: int  # shards of this part that were there already
    num_missing: int  # shards of the whole collection, which other parts collect
    seconds: float  # of simulation, of writing, and of making the dataset of all shards, without loading scenes
    peak_bytes: int  # of main memory that the images of unfinished and waiting episodes took
    spilled_bytes: int = 0  # of them in temporary files


def collect(
    out: str | Path,
    scenes: SceneSpec | Scenes = "apartments",
    *,
    policy: str | Path | Acting = "follower",
    sample: bool = False,
    to: str | Format = "zarr",
    sensors: Sequence[Any] = SENSORS,
    size: int | None = None,
    episodes_per_scene: int = 100,
    episodes_per_shard: int = 16,
    num_envs: int = 64,
    shard: str | Part | None = None,
    seed: int = 0,
    workers: int | None = None,
    scenes_at_once: int = 16,
    progress: Progress | None = None,
    **env_keywords: Any,
) -> Collected:
    """Run the first episodes of every scene once and write them to a dataset.

    Episodes depend on the seed, the name of the scene and their number alone: not on ``num_envs``, the other scenes,
    or which process runs them. A policy that computes one row of a batch from that row alone keeps this exact. Shards
    that are in the folder already are not collected again, so a call that was killed is resumed by repeating it, and
    more scenes and episodes may be added later, of sampled episodes up to the number in ``episodes=``.

    Args:
        out: Folder of the dataset; created if missing. Several processes may share it.
        scenes: See BatchNavEnv; any number, of which ``scenes_at_once`` are in memory.
        policy: ``"follower"``, ``"mapper"``, ``"random"``, the path of a policy file, the name of a shipped one,
            ``"module:name"``, or an Agent or function itself.
        sample: Sample the actions of a policy file.
        to: ``"zarr"`` or ``"webdataset"``, or a Format with options; see ``export_dataset`` for others.
        sensors: See BatchNavEnv. Those that the policy reads are added.
        size: Width and height of images in pixels. The rest of the camera stays: that of ``camera=`` or of the
            protocol. A policy file that reads images has the size of its training.
        episodes_per_scene: Number of episodes, the first ones of each scene.
        episodes_per_shard: Number of episodes in a shard, which becomes complete at once.
        num_envs: Number of environments; changes the speed alone. The images of about twice as many episodes
            are held: up to 4 GiB, and up to half of the available memory, in main memory, and the others in
            temporary files in ``out``.
        shard: ``"i/n"`` collects the i-th of n parts, i from 1 to n. Parts may share ``out``, where the part that ends
            last makes the dataset, or have separate folders that ``merge_datasets`` joins.
        seed: Seed of noise and random actions.
        workers: Threads that encode and write; by default one for four processors.
        scenes_at_once: Scenes in memory.
        progress: Called with the number of further episodes and frames that have been simulated.
        **env_keywords: Further keywords of BatchNavEnv; no ``protocol`` with a policy file, which has the settings of
            its training.

    Raises:
        ValueError: An argument is wrong, the folder holds another collection, or neither memory nor the disk has room
            for the images; finished shards stay.
        MissingExtraError: The format or the policy needs packages that are not installed.
    """
    check_counts(num_envs=num_envs, scenes_at_once=scenes_at_once)
    check_counts(**{name: one for name, one in {"size": size, "workers": workers}.items() if one is not None})
    episodes_per_scene, episodes_per_shard, seed = _limits(episodes_per_scene, episodes_per_shard, seed)
    own = _own_scenes(scenes, env_keywords)
    part = shard if isinstance(shard, Part) else Part.parse(shard)
    chosen = choose_policy(policy, seed, sample)
    episodes = Episodes.of(env_keywords.get("episodes"))
    keywords = _keywords(chosen, sensors, size, {**env_keywords, "episodes": replace(episodes, order="once")})
    keywords["scenes"] = own
    sources = _sources(own)
    style = to if not isinstance(to, (str, type)) and hasattr(to, "write") else make_format(to)
    root = Path(out)
    check_folder(root)
    info = _info(sources, chosen, style, keywords, seed, episodes_per_scene, episodes_per_shard)
    style.check(info)
    shards = all_shards(info)
    mine = part.of(shards)
    missing = [one for one in mine if not is_finished(root, one)]
    workers = workers or max(1, num_processors() // 4)
    _check_room(root, info, missing, num_envs, workers, keywords.get("max_episode_steps", 500))
    prepare_folder(root)
    with locked(root):
        _agreed(root, info)
    run = _Run(root, style, info, chosen.agent, num_envs, workers, progress)
    names = list(dict.fromkeys(one.scene for one in missing))
    for start in range(0, len(names), scenes_at_once):
        group = names[start : start + scenes_at_once]
        run.collect([one for one in missing if one.scene in group], sources, keywords)
    with locked(root):  # of parts that end at the same time, the last one here finds all shards
        left = sum(not is_finished(root, one) for one in shards)
        whole = _agreed(root, info)  # another process may have added scenes
        write_info(root, whole)
        started = time.perf_counter()
        if left == 0:
            style.finish(root, whole, finished_shards(root, whole))
        run.seconds += time.perf_counter() - started
    remove_aside(root)
    return Collected(root, whole, len(missing), run.num_episodes, run.num_frames, len(mine) - len(missing), left,
                     run.seconds, run.peak_bytes, run.spilled_bytes)  # fmt: skip


def _limits(episodes_per_scene: int, episodes_per_shard: int, seed: int) -> tuple[int, int, int]:
    """Return numbers as JSON has them; ValueError unless a dataset may have so many episodes and this seed."""
    check_counts(episodes_per_scene=episodes_per_scene, episodes_per_shard=episodes_per_shard)
    if episodes_per_scene > MAX_EPISODES:
        raise ValueError(f"episodes_per_scene={episodes_per_scene}: pass at most {MAX_EPISODES:,}")
    if episodes_per_shard > MAX_PER_SHARD:
        raise ValueError(f"episodes_per_shard={episodes_per_shard}: pass at most {MAX_PER_SHARD:,}")
    check_seed(seed=seed)
    return int(episodes_per_scene), int(episodes_per_shard), int(seed)


def _own_scenes(scenes: SceneSpec | Scenes, env_keywords: Mapping[str, Any]) -> Scenes:
    """Return the keyword ``scenes``; ValueError if it or another keyword sets what ``collect`` chooses."""
    for name in _OURS:
        if name in env_keywords:
            raise ValueError(f"{name}= is chosen by collect: leave it out")
    own = Scenes.of(scenes)
    if replace(own, source=None) != Scenes(**own.load_options, cache_dir=own.cache_dir):
        raise ValueError(
            f"scenes={own}: collect chooses which scenes are resident: leave out resident=, rotate_every= and the like"
        )
    return own


@dataclass
class _Run:
    """The running of groups of shards, and what it has counted."""

    root: Path
    style: Format
    info: DatasetInfo
    agent: Agent
    num_envs: int
    workers: int
    progress: Progress | None
    num_episodes: int = 0
    num_frames: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    spilled_bytes: int = 0

    def collect(self, shards: list[Shard], sources: Mapping[str, SceneSource], keywords: Mapping[str, Any]) -> None:
        """Collect shards of scenes that fit into memory together."""
        num_envs = min(self.num_envs, sum(shard.count for shard in shards))
        scenes = [sources[name] for name in dict.fromkeys(shard.scene for shard in shards)]
        scenes = replace(keywords["scenes"], source=scenes)
        env = BatchNavEnv(num_envs, buffers=2, **{**keywords, "scenes": scenes})
        try:
            numbers = _numbers(env, shards)
            # Only now, so that the dataset does not list scenes and episodes that there are not.
            known = self.info.scenes[: 1 + self.info.scenes.index(shards[-1].scene)]
            with locked(self.root):
                write_info(self.root, _agreed(self.root, replace(self.info, scenes=known)))
            started = time.perf_counter()
            self._run(env, shards, numbers)
            self.seconds += time.perf_counter() - started
        finally:
            env.close()

    def _run(self, env: BatchNavEnv, shards: list[Shard], numbers: np.ndarray) -> None:
        """Run the episodes of shards, ``numbers`` [E] in the batch, and write each shard when all of its have ended."""
        options = {"episode_order": "once", "episodes": numbers}
        loop = EpisodeLoop(env, self.agent, seed=self.info.seed, options=options)
        images = {key: (one.shape[1:], one.dtype) for key, one in loop.observation.items()}
        spaces = {key: one for key, one in images.items() if is_big(*one)}
        buffers = FrameBuffers(spaces, self.root, _image_memory())
        recorder = Recorder(env, loop.observation, buffers)
        size = self.info.episodes_per_shard
        waiting = {(shard.scene, shard.first // size): shard for shard in shards}
        ended: dict[Shard, dict[int, Finished]] = {shard: {} for shard in shards}  # of shards that are not complete
        cards = {one.name: asdict(one) for one in env.protocol_card().scenes}
        writing: deque[Future[None]] = deque()  # at most one for each thread, and one that waits
        with ThreadPoolExecutor(self.workers, "collect") as threads:
            try:
                while ended:
                    for episode, frames in recorder.record(loop.step()):
                        self.num_episodes += 1
                        self.num_frames += episode.num_steps + 1
                        if self.progress is not None:
                            self.progress(1, episode.num_steps + 1)
                        shard = waiting[episode.scene, episode.number // size]
                        ended[shard][episode.number] = episode, frames
                        if len(ended[shard]) < shard.count:
                            continue
                        complete = [one for _, one in sorted(ended.pop(shard).items())]
                        if len(writing) > self.workers:
                            writing.popleft().result()
                        writing.append(threads.submit(self._write, shard, complete, cards[shard.scene], buffers))
                for job in writing:
                    job.result()
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        self.peak_bytes = max(self.peak_bytes, buffers.nbytes)
        self.spilled_bytes = max(self.spilled_bytes, buffers.spilled_bytes)

    def _write(self, shard: Shard, complete: list[Finished], card: dict[str, Any], buffers: FrameBuffers) -> None:
        """Write a shard and give its memory back; runs in a thread of the pool."""
        write_shard(self.root, self.style, self.info, shard, [episode for episode, _ in complete], card)
        for _, frames in complete:
            buffers.give_back(frames)


def _image_memory() -> int:
    """Return the bytes of main memory for images: half of what is available, and at most 4 GiB."""
    available = available_memory()
    return _IMAGE_BYTES if available is None else min(_IMAGE_BYTES, available // 2)


def _check_room(
    root: Path, info: DatasetInfo, missing: Sequence[Shard], num_envs: int, workers: int, max_episode_steps: int
) -> None:
    """Raise ValueError unless memory and disk have room for the images of as many usual episodes as are held at a time.

    These are the ones that run, about as many that wait for others of their shards, and whole shards: one per writer,
    one that waits for a writer, and one that is being filled.
    """
    big = [one for one in info.observation_space.values() if is_big(one.shape or (), one.dtype)]
    frame = sum(math.prod(one.shape or ()) * np.dtype(one.dtype).itemsize for one in big)
    episode = frame * min(max_episode_steps + 1, _USUAL_FRAMES)
    total = sum(shard.count for shard in missing)
    shards = min(total, info.episodes_per_shard * (workers + 2))
    running = min(num_envs, total)
    needed = (2 * running + shards) * episode
    place = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.is_dir())
    memory, disk = _image_memory(), shutil.disk_usage(place).free
    if needed <= memory + disk:
        return
    fits = ((memory + disk) // episode - shards) // 2
    remedy = f"pass num_envs={fits} or less" if fits > 0 else "pass a smaller episodes_per_shard= and num_envs=1"
    raise ValueError(
        f"num_envs={num_envs}: the images of about {2 * running + shards} episodes are held at a time, "
        f"{needed / 2**30:,.1f} GiB if episodes have {_USUAL_FRAMES} frames, but only {memory / 2**30:,.1f} GiB of "
        f"memory and {disk / 2**30:,.1f} GiB of the disk of '{place}' are available: {remedy}, or a smaller size="
    )


def _keywords(
    chosen: ChosenPolicy, sensors: Sequence[Any], size: int | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keywords of the batches: those given, and where they leave something open those of the policy."""
    if isinstance(sensors, str) or not isinstance(sensors, (tuple, list)):
        raise ValueError(f"sensors={sensors!r}: pass a tuple, such as ('rgb', 'depth')")
    protocol = given.get("protocol")
    if protocol is not None and chosen.is_file:
        raise ValueError(
            f"protocol={protocol!r}: a policy file has the settings of its training; leave the protocol out, or pass "
            "another policy"
        )
    both = with_sensors(sensors, chosen.env.get("sensors", ()))
    keywords = {**chosen.env, **given, "sensors": both}
    if size is not None:
        usual = None if protocol is None else protocol_of(protocol).camera
        keywords["camera"] = _resized(keywords.get("camera", usual), size)
    own, camera = chosen.env.get("camera"), keywords.get("camera")
    if any(isinstance(one, str) for one in chosen.env.get("sensors", ())) and isinstance(own, Camera):
        if isinstance(camera, Camera) and (camera.width, camera.height) != (own.width, own.height):
            raise ValueError(
                f"policy={chosen.name!r} reads images of {own.width} x {own.height} pixels, not of {camera.width} x "
                f"{camera.height}: leave out size= and camera=, or pass another policy"
            )
    if keywords.get("agents_per_world", 1) != 1:
        raise ValueError(
            f"agents_per_world={keywords['agents_per_world']!r}: collect records one agent for each world; leave it out"
        )
    return keywords


def _resized(camera: CameraSpec, size: int) -> CameraSpec:
    """Return a camera or several with square images; ValueError if they are not cameras."""
    resized = {name: replace(one, width=size, height=size) for name, one in cameras_of(camera).items()}
    return resized if isinstance(camera, Mapping) else resized[ONLY]


def _sources(scenes: Scenes) -> dict[str, SceneSource]:
    source = "apartments" if scenes.source is None else scenes.source
    found = scene_sources(source, scenes.cache, scenes.load_options)
    sources = {source.name: source for source in found}
    if len(sources) < len(found):
        ((name, _),) = Counter(source.name for source in found).most_common(1)
        raise ValueError(f"scenes=: two scenes have the same name {name!r}; name each scene once")
    return sources


def _info(
    sources: Mapping[str, SceneSource], chosen: ChosenPolicy, style: Format, keywords: Mapping[str, Any], seed: int,
    episodes_per_scene: int, episodes_per_shard: int,
) -> DatasetInfo:  # fmt: skip
    """Return what describes the dataset, from a batch of one environment in the first scene."""
    scenes = replace(keywords["scenes"], source=[next(iter(sources.values()))])
    env = BatchNavEnv(1, **{**keywords, "scenes": scenes})
    # In an environment with these keywords, episodes may be drawn again.
    described = {**keywords, "episodes": replace(keywords["episodes"], order="random")}
    del described["scenes"]
    try:
        rig = env.cameras.rig
        card = asdict(env.protocol_card())
        cameras = {key: rig.cameras[one.camera] for key, one in rig.recordings.items() if one.sensor == "depth"}
        return with_key(
            DatasetInfo(
                format=style.name,
                format_options=style.options(),
                observation_space=Dict({**env.cameras.rig.spaces, **env.components.spaces}),
                action_space=env.single_action_space,
                images={key: one.sensor for key, one in rig.recordings.items()},
                depth_range={  # floats, because the key counts 10 and 10.0 as different and is read from floats
                    key: (float(one.min_depth), float(one.max_depth)) if one.normalize_depth else None
                    for key, one in cameras.items()
                },
                step_seconds=float(getattr(env.actions, "time_step", STEP_SECONDS)),
                task=type(env.task).__name__,
                policy=chosen.name,
                seed=seed,
                episodes_per_scene=episodes_per_scene,
                episodes_per_shard=episodes_per_shard,
                scenes=tuple(sources),
                env=plain(described),
                card=_card(card),
            )
        )
    finally:
        env.close()


def _card(card: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a protocol card that are the same for all parts of a collection."""
    names = ("protocol", "source", "notes", "changed", "settings", "geodesic", "renderer", "versions")
    values = {name: card[name] for name in names}
    values["settings"] = {"renderer": card["renderer"].split(" ")[0]}
    values["settings"] |= {name: one for name, one in card["settings"].items() if name not in _ONLY_SPEED}
    values["settings"] |= {name: card["settings"]["scenes"][name] for name in ("texture_size", "max_triangles")}
    return plain(values)


def _agreed(root: Path, info: DatasetInfo) -> DatasetInfo:
    """Return the info of a dataset with the scenes and episodes of earlier calls; ValueError if it is another one."""
    if not (root / COLLECTION).exists():
        return info
    found = read_info(root)
    if found.key != info.key:
        raise ValueError(
            f"out='{root}' holds another collection: " + "; ".join(differences(found, info)) + ": name another folder"
        )
    counts = sorted((found.episodes_per_scene, info.episodes_per_scene))
    if counts[0] != counts[1] and counts[0] % info.episodes_per_shard:
        raise ValueError(
            f"episodes_per_scene={info.episodes_per_scene}, but out='{root}' has {found.episodes_per_scene}, and the "
            f"smaller does not fill shards of {info.episodes_per_shard}: pass {found.episodes_per_scene}, or name "
            "another folder"
        )
    scenes = tuple(dict.fromkeys((*found.scenes, *info.scenes)))
    return replace(found, scenes=scenes, episodes_per_scene=counts[1])


def _numbers(env: BatchNavEnv, shards: Sequence[Shard]) -> np.ndarray:
    """Return the numbers [E] int64 of the episodes of shards in a batch, whose scenes must have as many."""
    slots = {env.library.name(slot): slot for slot in env.library.active.tolist()}
    numbers = []
    for shard in shards:
        if shard.scene not in slots:
            raise ValueError(f"scene {shard.scene!r} could not be loaded: leave it out of scenes=")
        slot = slots[shard.scene]
        size = len(env.simulator.episode_set(slot))
        if shard.first + shard.count > size:
            raise ValueError(
                f"scene {shard.scene!r} has only {size} episodes: pass a smaller episodes_per_scene=, leave the scene "
                "out, or, if they are sampled, pass a larger episodes= for a new dataset"
            )
        rows = np.arange(shard.first, shard.first + shard.count)
        numbers.append(env.simulator.schedule.index(np.full(len(rows), slot), rows))
    return np.concatenate(numbers)
