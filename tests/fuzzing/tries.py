"""The process that tries inputs under limits: ``python -m fuzzing.tries SAMPLES`` reads their folders from its input.

Each line of its input is ``KIND FOLDER FILE``; each line of its output is ``OUTCOME REASON``. Beyond ten seconds of
processor time the process is ended by a signal; beyond one GiB more than it had at first, memory is refused to it.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
import time
import warnings
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.env.replay import replay
from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.habitat.dataset import DATASET_ENDING, list_scenes, load_habitat_scene
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.scene import Scene
from gym_batchnav.worlds.log import LoggedBodies, WorldLog

SECONDS = 10  # of processor time, on a processor that sums a million squares in SUM_SECONDS
SUM_SECONDS = 0.05
MAX_BYTES = 2**30
MAX_MESSAGE = 5000  # characters
LOADED = "loaded"
REFUSED = "refused"
FAILED = "failed"


def exercise(scenes: object, folder: Path, **keywords: object) -> None:
    """Walk and draw in scenes: build what is missing, two episodes, three steps, pictures of all sensors."""
    cameras = {"sensors": ("depth", "rgb", "semantic"), "camera": Camera(16, 16), "renderer": "embree"}
    scenes = Scenes(scenes, cache_dir=folder / "entries")
    env = BatchNavEnv(2, scenes=scenes, **{**cameras, "episodes": 4, **keywords})
    try:
        observations, _ = env.reset(seed=0)
        for actions in ([1, 2], [3, 1], [1, 1], [0, 1]):
            observations = env.step(np.array(actions))[0]
        check_finite(env, observations)
    finally:
        env.close()


def check_finite(env: BatchNavEnv, observations: dict[str, np.ndarray]) -> None:
    """Assert that agents see and stand somewhere."""
    for name, values in observations.items():
        assert np.isfinite(values).all(), f"{name} is not finite"
    assert np.isfinite(env.agents.position).all(), "an agent is nowhere"


def check_scene(scene: Scene) -> None:
    """Assert that the record's rows exist."""
    assert np.isfinite(scene.vertices).all(), "vertices are not finite"
    assert 0 <= scene.triangles.min() <= scene.triangles.max() < len(scene.vertices), "triangles of no vertex"
    assert 0 <= scene.triangle_material.min() <= scene.triangle_material.max() < len(scene.materials), "no material"
    assert -1 <= scene.materials.texture.min() <= scene.materials.texture.max() < len(scene.textures), "no texture"
    assert 1 <= scene.triangle_object.min() <= scene.triangle_object.max() <= len(scene.objects), "no object"


def try_load(folder: Path, file: str) -> None:
    """Load a scene file, or a scene instance of the dataset in its folder."""
    if file.endswith(".scene_instance.json"):
        (dataset,) = folder.glob(f"*{DATASET_ENDING}")
        check_scene(load_habitat_scene(dataset, file))
    else:
        check_scene(load_scene(folder / file))


def try_scene(folder: Path, file: str) -> None:
    """Load a scene file and walk in it."""
    mains = {"scene.bin": "scene.gltf", "scene.mtl": "scene.obj"}
    mains |= {f"part.{ending}": "home.xml" for ending in ("obj", "stl", "msh", "bin", "png")}
    scene = load_scene(folder / (mains.get(file, file) if not file.startswith("a.") else "scene.obj"))
    check_scene(scene)
    exercise([scene], folder)


def try_navmesh(folder: Path, file: str) -> None:
    """Load a navmesh, ask it all kinds of things, and walk on it."""
    from dataclasses import replace

    from rooms import box_room

    navmesh = NavMesh.load(folder / file)
    rng = np.random.default_rng(0)
    if navmesh.num_polygons:
        points = navmesh.random_points(4, rng)
        navmesh.distance_to_obstacle(points)
        navmesh.top_down_map(1.0)
    exercise([replace(box_room(), navmesh=navmesh)], folder)


def try_episodes(folder: Path, file: str) -> None:
    """Walk through the episodes of a file."""
    from rooms import box_room

    exercise([box_room()], folder, episodes=folder / file)


def try_policy(folder: Path, file: str) -> None:
    """Load a policy and let it act in an environment made for it."""
    import torch
    from rooms import box_room

    from gym_batchnav.train.policy_agent import PolicyAgent
    from gym_batchnav.train.policy_file import load_policy

    torch.set_num_threads(1)
    policy, about = load_policy(folder / file)
    env = BatchNavEnv(2, scenes=[box_room()], renderer="embree", episodes=4, **about.env_keywords())
    try:
        agent = PolicyAgent(policy)
        agent.reset(env)
        observations, _ = env.reset(seed=0)
        env.step(agent.act(env, observations, np.ones(2, bool)))
    finally:
        env.close()


def try_cache(folder: Path, file: str) -> None:
    """Walk in a scene whose cache holds a damaged entry, which is made anew and never an error."""
    try:
        exercise(str(folder / "room.glb"), folder)
    except Exception as error:
        raise AssertionError(f"a damaged entry of the cache raised {error!r}") from error


def try_dataset(folder: Path, file: str) -> None:
    """Load every scene of a dataset and walk in the first."""
    (dataset,) = folder.glob(f"*{DATASET_ENDING}")
    scenes = [load_habitat_scene(dataset, handle) for handle in list_scenes(dataset)[:3]]
    for scene in scenes:
        check_scene(scene)
    exercise(scenes[:1], folder)


def try_annotations(folder: Path, file: str) -> None:
    """Load an annotated scene and walk in it; triangles may be without object."""
    scene = load_scene(folder / f"{file.split('.')[0].removesuffix('_semantic')}.glb")
    assert 0 <= scene.triangle_object.min() <= scene.triangle_object.max() <= len(scene.objects), "no object"
    exercise([scene], folder)


def try_log(folder: Path, file: str) -> None:
    """Repeat a recording, and let its bodies walk in another episode."""
    from rooms import box_room

    from fuzzing.samples import LOGGED

    log = WorldLog.load(folder / file)
    batches = [LOGGED]
    for reactive in (False, True):
        batches.append({"bodies": (LoggedBodies(log, reactive),), "episodes": 20})
    for number, keywords in enumerate(batches):
        env = BatchNavEnv(2, scenes=[box_room()], renderer="embree", camera=Camera(16, 16), **keywords)
        try:
            if number == 0:
                list(replay(env, log))
            else:
                env.reset(seed=0)
                for _ in range(log.num_steps + 2):
                    env.step(np.array([1, 2]))
            assert np.isfinite(env.worlds.state.position).all(), "a body is nowhere"
        finally:
            env.close()


def try_state(folder: Path, file: str) -> None:
    """Continue from a state; one that is refused changes nothing."""
    env = _state_env()
    before = env.get_state()
    try:
        observations = env.set_state(pickle.loads((folder / file).read_bytes()))
    except ValueError:
        assert str(env.get_state()) == str(before), "a state that was refused has changed something"
        raise
    for _ in range(3):
        env.shortest_path_actions()
        observations = env.step(np.array([1, 2]))[0]
    check_finite(env, observations)
    env.reset(seed=0)


@lru_cache(maxsize=1)
def _state_env() -> BatchNavEnv:
    """The batch of states, one for each process."""
    from fuzzing.samples import state_env

    env = state_env()
    env.reset(seed=0)
    return env


def try_collection(folder: Path, file: str) -> None:
    """Check, read and merge a collection."""
    from gym_batchnav.collect.merge import check_dataset, merge_datasets
    from gym_batchnav.collect.reading import read_episodes

    root = folder / file.partition("/")[0]
    check_dataset(root)
    for episode in read_episodes(root):
        assert episode.num_steps > 0
    with TemporaryDirectory() as made:
        merge_datasets(Path(made, "merged"), [root])


def try_run(folder: Path, file: str) -> None:
    """Read the settings and the curve of a run, and draw it."""
    from gym_batchnav.train.curve import draw_curves, read_curve
    from gym_batchnav.train.run import _read_run_file

    curves = [read_curve(folder, "spl", by) for by in ("frames", "hours")]
    with TemporaryDirectory() as made:
        draw_curves(curves[:1], Path(made, "curves.png"), "spl", "frames")
    _read_run_file(folder)


TRIES = {
    "load": try_load,
    "state": try_state,
    "collection": try_collection,
    "run": try_run,
    "annotations": try_annotations,
    "navmesh": try_navmesh,
    "episodes": try_episodes,
    "policy": try_policy,
    "cache": try_cache,
    "dataset": try_dataset,
    "log": try_log,
}


def limit_of_time() -> float:
    """Return the seconds of processor time for an input: more on a processor that is slower, or now slowed down."""
    begun = time.process_time()
    sum(number * number for number in range(1_000_000))
    return SECONDS * max(1.0, (time.process_time() - begun) / SUM_SECONDS)


def attempt(kind: str, folder: Path, file: str, seconds: float) -> tuple[str, str]:
    """Try one input for some seconds of processor time; returns the outcome and its reason."""
    signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process
    try:
        TRIES.get(kind, try_scene)(folder, file)
    except (ValueError, OSError) as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return FAILED, f"memory: {error}"
            cause = cause.__cause__ or cause.__context__
        message = str(error)
        if not message or len(message) > MAX_MESSAGE:
            return FAILED, f"a message of {len(message)} characters: {message[:200]}"
        return REFUSED, message
    except Exception as error:
        return FAILED, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return LOADED, ""


def warm_up(samples: Path, kinds: list[str]) -> None:
    """Try the sound files, which compiles the kernels and imports what is needed."""
    from fuzzing.samples import MUTATORS

    for kind in kinds:
        names = MUTATORS.get(kind, ()) if kind != "collection" else ()
        names = names or [path.name for path in (samples / kind).iterdir()]
        for name in names:
            TRIES.get(kind, try_scene)(samples / kind, name)


def main() -> None:
    """Try inputs until there are no more."""
    warnings.simplefilter("ignore")
    samples = Path(sys.argv[1])
    kinds = sys.argv[2].split(",")
    warm_up(samples, kinds)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MAX_BYTES, in_use + MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    seconds = limit_of_time()
    print("ready", file=answers)
    for line in sys.stdin:
        kind, folder, file = line.rstrip("\n").split("\t")
        outcome, reason = attempt(kind, Path(folder), file, seconds)
        print(outcome, " ".join(reason.split())[:500], sep="\t", file=answers)


if __name__ == "__main__":
    main()
