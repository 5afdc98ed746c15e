"""Frames/s compared with other simulators that pip installs: MiniWorld, ViZDoom and PyBullet in small indoor scenes.

python benchmarks/peers.py                       # all of them, about two minutes and 300 MB the first time
python benchmarks/peers.py --only vizdoom --frames 4096 --rounds 7

Each library has a separate virtual environment, made in the cache folder when first needed. All of them draw the same
number of frames of 64 x 64 RGB pixels, in turns; the figure is the median of the rounds. The others draw one frame a
call, so as many processes of each run side by side as the machine has cores; ours is one process with as many threads.
A library that cannot run is reported with the reason.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

SIDE = 64
Draw = Callable[[int], Any]  # draws so many frames and returns the last picture, an array


def gym_batchnav() -> tuple[str, Draw]:
    """Return a description of our scene and a function that draws frames of it."""
    from gym_batchnav.env.batch import BatchNavEnv

    env = BatchNavEnv(256, scenes="apartments", sensors=("rgb",), buffers=2)
    env.reset(seed=0)

    def draw(frames: int) -> Any:
        for _ in range(-(-frames // env.num_envs)):
            observation, *_ = env.step(env.shortest_path_actions())
        return observation["rgb"]

    triangles = sum(len(env.library.scene(slot).triangles) for slot in range(env.library.num_slots))
    about = f"whole steps of 256 agents on shortest paths in 8 furnished apartments ({triangles:,} triangles)"
    return f"{about}; {env.renderer.name} on {env.renderer.device}", draw


def miniworld() -> tuple[str, Draw]:
    """Return four textured rooms and a box, drawn by OpenGL."""
    import pyglet

    pyglet.options["headless"] = True
    import gymnasium
    import miniworld  # noqa: F401 - registers the environments

    env = gymnasium.make("MiniWorld-FourRooms-v0", obs_width=SIDE, obs_height=SIDE)
    env.reset(seed=0)
    env.action_space.seed(0)

    def draw(frames: int) -> Any:
        for _ in range(frames):
            picture, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return picture

    device = pyglet.gl.gl_info.get_renderer()
    return f"steps at random in four textured rooms with a box; {device}", draw


def vizdoom() -> tuple[str, Draw]:
    """Return a maze of textured rooms, drawn by Doom's own software renderer."""
    import random

    import numpy as np
    import vizdoom as vzd

    game = vzd.DoomGame()
    game.load_config(str(Path(vzd.scenarios_path) / "my_way_home.cfg"))
    game.set_screen_resolution(vzd.ScreenResolution.RES_160X120)
    game.set_screen_format(vzd.ScreenFormat.RGB24)
    game.set_window_visible(False)
    game.init()
    buttons = game.get_available_buttons_size()
    # The smallest pictures it makes are 160 x 120: rows and columns are left out until 64 x 64 remain.
    # Two takes need a quarter of the time of one index with rows and columns.
    rows = np.arange(SIDE) * 120 // SIDE
    columns = np.arange(SIDE) * 160 // SIDE
    choose = random.Random(0)

    def draw(frames: int) -> Any:
        for _ in range(frames):
            if game.is_episode_finished():
                game.new_episode()
            picture = game.get_state().screen_buffer.take(rows, axis=0).take(columns, axis=1)
            pressed = choose.randrange(buttons)
            game.make_action([index == pressed for index in range(buttons)])
        return picture

    about = "steps at random in the maze my_way_home, drawn at 160 x 120, its smallest; its own software renderer"
    return about, draw


def pybullet() -> tuple[str, Draw]:
    """Return a walled floor with tables and toys, drawn by TinyRenderer."""
    import math
    import random

    import pybullet as bullet
    import pybullet_data

    bullet.connect(bullet.DIRECT)
    bullet.setAdditionalSearchPath(pybullet_data.getDataPath())
    bullet.loadURDF("plane.urdf")
    for x, y, half in ((4, 0, (0.1, 4, 1.3)), (-4, 0, (0.1, 4, 1.3)), (0, 4, (4, 0.1, 1.3)), (0, -4, (4, 0.1, 1.3))):
        shape = bullet.createVisualShape(bullet.GEOM_BOX, halfExtents=half, rgbaColor=(0.8, 0.75, 0.7, 1))
        bullet.createMultiBody(baseVisualShapeIndex=shape, basePosition=(x, y, 1.3))
    for x, y in ((-2, -2), (2, -1.5), (0, 2.5)):
        bullet.loadURDF("table/table.urdf", (x, y, 0))
        bullet.loadURDF("duck_vhacd.urdf", (x, y, 0.7))
        bullet.loadURDF("r2d2.urdf", (x + 1.2, y, 0.5))
    projection = bullet.computeProjectionMatrixFOV(90, 1.0, 0.05, 20.0)
    choose = random.Random(0)

    def draw(frames: int) -> Any:
        for _ in range(frames):
            x = choose.uniform(-3, 3)
            y = choose.uniform(-3, 3)
            heading = choose.uniform(-math.pi, math.pi)
            aim = (x + math.cos(heading), y + math.sin(heading), 1.25)
            view = bullet.computeViewMatrix((x, y, 1.25), aim, (0, 0, 1))
            _, _, picture, _, _ = bullet.getCameraImage(
                SIDE,
                SIDE,
                view,
                projection,
                shadow=0,
                flags=bullet.ER_NO_SEGMENTATION_MASK,
                renderer=bullet.ER_TINY_RENDERER,
            )
        return picture[..., :3]

    about = "getCameraImage from random places in a walled square with three tables, ducks and robots, no physics"
    return f"{about}; TinyRenderer without shadows", draw


WORKERS = {worker.__name__: worker for worker in (gym_batchnav, miniworld, vizdoom, pybullet)}
PACKAGES = {"miniworld": ["miniworld"], "vizdoom": ["vizdoom"], "pybullet": ["pybullet", "numpy"]}


def work(name: str) -> None:
    """Run as a worker: describe the scene, then draw the number of frames given on each line of input."""
    about, draw = WORKERS[name]()
    if draw(256).std() < 2:
        sys.exit("its pictures are blank")
    version = "" if name == "gym_batchnav" else importlib.metadata.version(name) + ": "
    print("ready:", version + about, flush=True)
    for line in sys.stdin:
        draw(int(line))
        print("drawn", flush=True)


class Contender:
    """The processes that run one library.

    Args:
        command: Starts a worker, which prints ``ready:`` and a description, and then answers each number of frames on
            its input with ``drawn``.
        processes: Number of workers.
        folder: Where they run; by default here.

    Raises:
        RuntimeError: A worker does not start; the message says why.
    """

    def __init__(self, command: list[str], processes: int, folder: Path | None = None) -> None:
        self.errors = tempfile.TemporaryFile("w+")
        self.workers = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=folder
            )
            for _ in range(processes)
        ]
        told = [self._line(worker, "ready:") for worker in self.workers]
        self.about = told[0]

    def rate(self, frames: int) -> float:
        """Return the frames/s of one round, of all processes together."""
        start = time.perf_counter()
        return self.draw(frames) / (time.perf_counter() - start)

    def draw(self, frames: int) -> int:
        """Draw about so many frames, equally many in each process, and return their number."""
        share = frames // len(self.workers)
        for worker in self.workers:
            worker.stdin.write(f"{share}\n")
            worker.stdin.flush()
        for worker in self.workers:
            self._line(worker, "drawn")
        return share * len(self.workers)

    def close(self) -> None:
        """End the processes: without input they end themselves, and with them the engines that they started."""
        for worker in self.workers:
            worker.stdin.close()
        for worker in self.workers:
            try:
                worker.wait(10)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _line(self, worker: subprocess.Popen[str], start: str) -> str:
        """Return the rest of the next line with a prefix; libraries print other lines."""
        for line in worker.stdout:
            if line.startswith(start):
                return line.removeprefix(start).strip()
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines() or ["it ended without a word"]
        self.close()
        raise RuntimeError(said[-1])


def environment(folder: Path, packages: list[str]) -> Path:
    """Return the Python of a virtual environment with some packages, which is made if it does not exist.

    Raises:
        RuntimeError: pip cannot install a package.
    """
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    print(f"installing {', '.join(packages)} into {folder}", flush=True)
    for command in (
        [sys.executable, "-m", "venv", "--clear", folder],
        [python, "-m", "pip", "install", "--quiet", *packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["pip said nothing"]
            raise RuntimeError(f"not installed: {said[-1]}")
    (folder / "complete").touch()
    return python


def compare(names: list[str], folder: Path, frames: int, rounds: int, processes: int) -> None:
    """Print the frames/s of ours and of the named libraries, measured in turns."""
    import numpy as np

    from gym_batchnav.bench import machine

    print(machine())
    with ExitStack() as stack:
        here = str(Path(__file__).resolve())
        ours = Contender([sys.executable, here, "--worker", "gym_batchnav"], 1)
        stack.callback(ours.close)
        contenders = {"gym_batchnav": ours}
        for name in names:
            try:
                python = environment(folder / name, PACKAGES[name])
                contenders[name] = Contender([str(python), here, "--worker", name], processes)
                stack.callback(contenders[name].close)
            except RuntimeError as error:
                print(f"{name:<14} could not run: {error}")
        rates = {name: np.array([], float) for name in contenders}
        for _ in range(rounds):
            for name, contender in contenders.items():
                rates[name] = np.append(rates[name], contender.rate(frames))
        print(f"{'':<14}{'frames/s':>9}  {'ours to it':>10}  {frames:,} frames a round, {rounds} rounds")
        for name, contender in contenders.items():
            ratio = np.median(rates["gym_batchnav"] / rates[name])
            count = len(contender.workers)
            running = "one process" if count == 1 else f"{count} processes"
            print(f"{name:<14}{np.median(rates[name]):>9,.0f}  {ratio:>10.2f}  {running}; {contender.about}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PACKAGES, default=list(PACKAGES), metavar="LIBRARY")
    parser.add_argument("--frames", type=int, default=2048, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="of each of the others")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    from gym_batchnav.library.cache import DiskCache

    compare(options.only, DiskCache().directory / "peers", options.frames, options.rounds, options.processes)


if __name__ == "__main__":
    main()
