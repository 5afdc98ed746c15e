"""Frames/s beside ViZDoom in the same scene: one of its maps, exported as OBJ and drawn by Embree.

python benchmarks/doom.py                                  # the maze my_way_home, about three minutes
python benchmarks/doom.py --map deathmatch --out out/doom  # another map, and pictures of both side by side
python benchmarks/doom.py --processes 1                    # one process of ViZDoom, one thread of ours

ViZDoom, shapely and pillow are installed into a virtual environment in the cache folder when first needed. Nothing of
ViZDoom's data is kept: map and textures are exported to a temporary folder (see benchmarks/doom_map.py).

ViZDoom has one agent per process, which wanders: it turns, walks a little and turns again. Every step draws a frame.
Ours draws views of such walks in batches of 256, with as many threads, and also random views of the shipped apartments;
"whole steps" are those of 256 agents on shortest paths. ViZDoom's smallest frames have 160 x 120 pixels: for 64 x 64,
rows and columns are left out. All workloads take turns; a ratio is the median of the ratios of the turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from doom_map import STRETCH, UNITS_PER_METRE, export, map_of
from peers import Contender, environment

SMALLEST = (160, 120)
SIZES = ((64, 64), SMALLEST, (320, 240))
SENSORS = {"rgb": ("rgb",), "rgb+depth": ("depth", "rgb")}
NUM_VIEWS = 256
SHARE = 512  # frames per process and call, so that processes seldom wait for each other
WALK = 64  # tics between two places of a walk
LOGIC = "without drawing"
PRESSING_AT_RANDOM = "rgb, buttons at random"  # as in benchmarks/peers.py; such agents mostly face walls
IN_A_VECTOR = "rgb in a vector of"
# Workloads whose ratios tell where the difference comes from.
PARTS = (
    (f"ViZDoom, 160x120 {PRESSING_AT_RANDOM}", "ViZDoom, 160x120 rgb"),
    ("ViZDoom, 64x64 rgb", "ViZDoom, 160x120 rgb"),
    ("ViZDoom, 160x120 rgb", "ViZDoom, 320x240 rgb"),
    (f"ViZDoom, 160x120 {LOGIC}", "ViZDoom, 160x120 rgb"),
    ("ours, its map, whole steps, 64x64 rgb", "ours, apartments, whole steps, 64x64 rgb"),
    ("ours, its map, 64x64 rgb", "ours, apartments, 64x64 rgb"),
    ("ours, its map, 64x64 rgb", "ours, its map, whole steps, 64x64 rgb"),
    ("ours, its map, no textures, 64x64 rgb", "ours, its map, 64x64 rgb"),
    ("ours, its map, 64x64 depth", "ours, its map, 64x64 rgb"),
    ("ours, its map, 64x64 rgb", "ours, its map, 160x120 rgb"),
    ("ours, its map, 160x120 rgb", "ours, its map, 320x240 rgb"),
)
BUTTONS = ("TURN_LEFT", "TURN_RIGHT", "MOVE_FORWARD", "MOVE_LEFT", "MOVE_RIGHT")
WALK_FILE = "walk.npz"


# In ViZDoom's environment


def game(scenario: str, size: tuple[int, int], depth: bool, seed: int) -> Any:
    """Start ViZDoom with a scenario; the weapon and the display of the player's state are not drawn."""
    import vizdoom as vzd

    doom = vzd.DoomGame()
    doom.load_config(str(Path(vzd.scenarios_path) / f"{scenario}.cfg"))
    width, height = max(size, SMALLEST)
    doom.set_screen_resolution(getattr(vzd.ScreenResolution, f"RES_{width}X{height}"))
    doom.set_screen_format(vzd.ScreenFormat.RGB24)
    doom.set_depth_buffer_enabled(depth)
    doom.set_window_visible(False)
    for part in ("hud", "weapon", "crosshair", "decals", "particles", "messages"):
        getattr(doom, f"set_render_{part}")(False)
    pose = ("CAMERA_POSITION_X", "CAMERA_POSITION_Y", "CAMERA_POSITION_Z", "CAMERA_ANGLE")
    doom.set_available_game_variables([getattr(vzd.GameVariable, name) for name in pose])
    doom.set_available_buttons([getattr(vzd.Button, name) for name in BUTTONS])
    doom.set_seed(seed)
    doom.init()
    return doom


def wandering(rng: np.random.Generator) -> Iterator[list[bool]]:
    """Yield actions that turn to one side for up to 50 tics, about half a turn, and walk for up to 15."""
    while True:
        turn = "TURN_LEFT" if rng.random() < 0.5 else "TURN_RIGHT"
        for button, tics in ((turn, rng.integers(51)), ("MOVE_FORWARD", rng.integers(16))):
            for _ in range(tics):
                yield [name == button for name in BUTTONS]


def pressing_at_random(rng: np.random.Generator) -> Iterator[list[bool]]:
    """Yield actions that press one button each."""
    while True:
        button = rng.integers(len(BUTTONS))
        yield [index == button for index in range(len(BUTTONS))]


def record(scenario: str, folder: Path) -> None:
    """Export a map, and write poses and pictures of a walk through it.

    Poses [N, 4] hold x, y, z in map units and the angle in degrees, counter-clockwise from the east.
    """
    import vizdoom

    export(map_of(vizdoom, scenario), folder)
    doom = game(scenario, SIZES[-1], depth=True, seed=0)
    actions = wandering(np.random.default_rng(0))
    poses = []
    pictures = []
    depths = []
    for _ in range(NUM_VIEWS):
        for _ in range(WALK):
            if doom.is_episode_finished():
                doom.new_episode()
            doom.make_action(next(actions))
        if doom.is_episode_finished():
            doom.new_episode()
        state = doom.get_state()
        poses.append(state.game_variables)
        pictures.append(state.screen_buffer)
        depths.append(state.depth_buffer)
    np.savez(folder / WALK_FILE, poses=poses, pictures=pictures, depths=depths)


def work(scenario: str, size: str, sensors: str, seed: int) -> None:
    """Run as a worker of ``peers.Contender``: step and draw a frame each time, unless the sensors are ``LOGIC``."""
    width, height = map(int, size.split("x"))
    if sensors.startswith(IN_A_VECTOR):
        vector_work(scenario, (width, height), int(sensors.split()[-2]))
        return
    doom = game(scenario, (width, height), depth="depth" in sensors, seed=seed)
    rng = np.random.default_rng(seed)
    drawn_width, drawn_height = max((width, height), SMALLEST)
    rows = np.arange(height) * drawn_height // height
    columns = np.arange(width) * drawn_width // width
    actions = (pressing_at_random if sensors == PRESSING_AT_RANDOM else wandering)(rng)

    def step(action: list[bool]) -> None:
        if doom.is_episode_finished():
            doom.new_episode()
        if sensors == LOGIC:
            doom.set_action(action)
            doom.advance_action(1, False)
            return
        state = doom.get_state()
        pictures = [state.screen_buffer, state.depth_buffer]
        if (width, height) < SMALLEST:
            pictures = [picture.take(rows, axis=0).take(columns, axis=1) for picture in pictures if picture is not None]
        doom.make_action(action)

    print("ready:", scenario, flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            step(next(actions))
        print("drawn", flush=True)


def vector_work(scenario: str, size: tuple[int, int], num_envs: int) -> None:
    """Run as a worker that steps Gymnasium's AsyncVectorEnv: every frame reaches this process."""
    import gymnasium

    class Doom(gymnasium.Env[np.ndarray, np.int64]):
        """A scenario whose observations are its pictures."""

        doom: Any = None
        observation_space = gymnasium.spaces.Box(0, 255, (size[1], size[0], 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(len(BUTTONS))

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            if self.doom is None:
                self.doom = game(scenario, size, depth=False, seed=os.getpid())
            self.doom.new_episode()
            self.picture = self.doom.get_state().screen_buffer
            return self.picture, {}

        def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            reward = self.doom.make_action([index == action for index in range(len(BUTTONS))])
            ended = self.doom.is_episode_finished()
            if not ended:
                self.picture = self.doom.get_state().screen_buffer
            return self.picture, reward, ended, False, {}

        def close(self) -> None:
            if self.doom is not None:
                self.doom.close()

    env = gymnasium.vector.AsyncVectorEnv([Doom] * num_envs)
    env.reset()
    walks = [wandering(np.random.default_rng(index)) for index in range(num_envs)]
    print("ready:", scenario, flush=True)
    for line in sys.stdin:
        for _ in range(-(-int(line) // num_envs)):
            env.step(np.array([next(walk).index(True) for walk in walks]))
        print("drawn", flush=True)
    env.close()


# In our environment


def views_of(poses: np.ndarray) -> np.ndarray:
    """Return world-to-camera matrices [N, 4, 4] of ViZDoom's poses [N, 4]."""
    from gym_batchnav.geometry import view_matrices

    x, y, z, angle = poses.T
    eyes = np.stack([x, z * STRETCH, -y], axis=1) / UNITS_PER_METRE
    return view_matrices(eyes.astype(np.float32), np.radians(angle - 90).astype(np.float32), 0.0)


@dataclass(frozen=True)
class Place:
    """Scenes and views of them."""

    name: str
    scenes: Any  # as of an environment
    renderer: Any
    slots: np.ndarray  # [N]
    views: np.ndarray  # [N, 4, 4]

    def drawing(self, camera: Any, sensors: tuple[str, ...]) -> Callable[[], dict[str, np.ndarray]]:
        """Return a function that draws all views and returns their pictures."""
        target = self.renderer.target(camera, sensors, num_views=len(self.views))
        return partial(target.render, self.slots, self.views)

    def frames(self, camera: Any, sensors: tuple[str, ...]) -> Callable[[], int]:
        """Return a function that draws all views and returns their number."""
        draw = self.drawing(camera, sensors)
        return lambda: len(draw()[sensors[0]])


def exported(folder: Path) -> Place:
    """Return the exported map with the recorded views."""
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.render.api import make_renderer
    from gym_batchnav.scene.load import load_scene

    scene = load_scene(folder / "map.obj")
    renderer = make_renderer("embree", SceneLibrary.from_scenes([scene]))
    views = views_of(np.load(folder / WALK_FILE)["poses"])
    return Place("its map", scene, renderer, np.zeros(len(views), np.int32), views)


def untextured(place: Place) -> Place:
    """Return the exported map with plain materials."""
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.render.api import make_renderer

    plain = replace(place.scenes.materials, texture=np.full_like(place.scenes.materials.texture, -1))
    scene = replace(place.scenes, materials=plain)
    return replace(place, scenes=scene, renderer=make_renderer("embree", SceneLibrary.from_scenes([scene])))


def apartments() -> Place:
    """Return the shipped apartments with random navigable views."""
    from gym_batchnav.bench import navigable_views
    from gym_batchnav.geometry import Camera
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.library.sources import scene_sources
    from gym_batchnav.render.api import make_renderer

    library = SceneLibrary(scene_sources("apartments"))
    slots, views = navigable_views(library, NUM_VIEWS, Camera().eye_height)
    return Place("apartments", "apartments", make_renderer("embree", library), slots, views)


def stepping(scenes: Any) -> Callable[[], int]:
    """Return a function that steps 256 agents, which see RGB, on shortest paths."""
    from gym_batchnav.env.batch_env import BatchNavEnv

    env = BatchNavEnv(NUM_VIEWS, scenes=scenes, sensors=("rgb",), renderer="embree", reuse_buffers=True)
    env.reset(seed=0)

    def step() -> int:
        env.step(env.shortest_path_actions())
        return NUM_VIEWS

    return step


def compare(folder: Path, scenario: str, python: Path, seconds: float, processes: int) -> None:
    """Print the frames/s of all workloads, and the ratios of ours to ViZDoom's of the same size and sensors."""
    from gym_batchnav.bench import interleaved, machine
    from gym_batchnav.geometry import Camera

    doom_map = exported(folder)
    places = (doom_map, apartments())
    command = [str(python), __file__, "--map", scenario, "--worker"]
    with ExitStack() as stack:
        workloads: dict[tuple[str, str], Callable[[], int]] = {}
        for size in SIZES:
            shown = f"{size[0]}x{size[1]}"
            for sensors in (*SENSORS, PRESSING_AT_RANDOM, LOGIC) if size == SMALLEST else SENSORS:
                doom = Contender([*command, shown, sensors], processes, folder)
                stack.callback(doom.close)
                workloads["ViZDoom", f"{shown} {sensors}"] = partial(doom.draw, SHARE * processes)
            if size == SMALLEST:
                sensors = f"{IN_A_VECTOR} {2 * processes} environments"
                doom = Contender([*command, shown, sensors], 1, folder)
                stack.callback(doom.close)
                workloads["ViZDoom", f"{shown} {sensors}"] = partial(doom.draw, SHARE * processes)
            for place in places:
                for sensors, names in SENSORS.items():
                    workloads[f"ours, {place.name}", f"{shown} {sensors}"] = place.frames(Camera(*size), names)
        workloads["ours, its map, no textures", "64x64 rgb"] = untextured(doom_map).frames(Camera(), ("rgb",))
        for place in places:
            workloads[f"ours, {place.name}", "64x64 depth"] = place.frames(Camera(), ("depth",))
            workloads[f"ours, {place.name}, whole steps", "64x64 rgb"] = stepping(place.scenes)
        titles = {key: ", ".join(key) for key in workloads}
        load = os.getloadavg()[0]
        rates = interleaved({titles[key]: work for key, work in workloads.items()}, seconds)
    triangles = len(doom_map.renderer.library.scene(0).triangles)
    print(f"{machine()}; {processes} processes and threads; load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(f"{scenario}: {triangles:,} triangles; calibration {np.median(rates['calibration']):.0f} Mop/s")
    for key, title in titles.items():
        theirs = titles.get(("ViZDoom", key[1]), title)
        beside = f"  {ratio(rates, title, theirs)} of ViZDoom's" if theirs != title else ""
        print(f"{title:<56}{np.median(rates[title]):>8,.0f} frames/s{beside}")
    for upper, lower in PARTS:
        print(f"{upper} / {lower}: {ratio(rates, upper, lower)}")


def ratio(rates: Mapping[str, list[float]], upper: str, lower: str) -> str:
    """Return the median ratio of the turns of two workloads, and its quartiles."""
    low, middle, high = np.quantile(np.divide(rates[upper], rates[lower]), (0.25, 0.5, 0.75))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def save_pictures(folder: Path, out: Path, scenario: str) -> None:
    """Compare the pictures of the recorded views, and save some side by side: ViZDoom's, ours and both depths."""
    from PIL import Image

    from gym_batchnav.geometry import Camera

    walk = np.load(folder / WALK_FILE)
    ours = exported(folder).drawing(Camera(*SIZES[-1], max_depth=100.0), ("depth", "rgb"))()
    error = np.abs(walk["pictures"].astype(int) - ours["rgb"]).mean(axis=(1, 2, 3))
    print(
        f"mean difference of colours, of 255: {np.median(error):.1f} in the median view, {error.max():.1f} in the worst"
    )
    depth = ours["depth"][..., 0]
    far = np.argsort(-depth.mean(axis=(1, 2)))[:: NUM_VIEWS // 8][:5]  # some that see far, some that do not
    rows = []
    for view in (*far, error.argmax()):
        # ViZDoom's depth has 8 bits and no unit: both are drawn relative to their largest value.
        gray = [255 * image / image.max() for image in (walk["depths"][view].astype(float), depth[view])]
        depths = [np.repeat(image[..., None].astype(np.uint8), 3, axis=2) for image in gray]
        rows.append(np.hstack([walk["pictures"][view], ours["rgb"][view], *depths]))
    out.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.vstack(rows)).save(out / f"{scenario}.png")
    print(f"pictures of both, ViZDoom's on the left: {out / f'{scenario}.png'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--map", default="my_way_home", help="a scenario of ViZDoom with one map")
    parser.add_argument("--out", type=Path, help="a folder for pictures of both side by side")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to measure each workload; 0 for none")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="of ViZDoom, and threads of ours")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        size, sensors = options.worker
        work(options.map, size, sensors, seed=os.getpid())
        return
    if options.record:
        record(options.map, options.record)
        return
    import numba

    from gym_batchnav.library.cache import DiskCache

    python = environment(DiskCache().directory / "peers" / "doom", ["vizdoom", "shapely>=2.1", "pillow"])
    numba.set_num_threads(options.processes)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        command = [python, __file__, "--map", options.map, "--record", folder]
        subprocess.run(command, check=True, cwd=folder)
        if options.out:
            save_pictures(folder, options.out, options.map)
        if options.seconds:
            compare(folder, options.map, python, options.seconds, options.processes)


if __name__ == "__main__":
    main()
