"""``gym-batchnav demo``: the main job, watched."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

WATCHED = 6  # agents in the clip and on the map
WATCHED_DISTANCE = 5.0  # metres from start to goal: far enough to be seen, near enough to be reached in time
CLIP_EVERY = 2  # steps
CLIP_PICTURE = 144  # pixels
MAX_CLIP_FRAMES = 90
RANDOM_SHARE = 8  # every so-manieth agent acts at random


def demo(
    scene: Annotated[str, typer.Option(help="Scene file, or the name of shipped scenes.")] = "apartments",
    num_envs: Annotated[int, typer.Option(help="How many agents.", min=1)] = 1024,
    seconds: Annotated[float, typer.Option(help="How long to run.", min=0.1)] = 10.0,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for the pictures; made if need be.")] = Path("batchnav-demo"),
    seed: Annotated[int, typer.Option(help="Same seed, same steps; their number depends on speed.", min=0)] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as one JSON object in the last line.")
    ] = False,
) -> None:
    """Run agents through furnished homes and show what they did.

    Most agents follow the shortest path to their goals, every eighth acts at random. At the end stand a table of
    frames per second, time by part and the followers' success, and in the folder --out: mosaic.png (what agents
    see), map.png (their ways from above) and clip.gif.
    """
    console = Console(stderr=as_json)
    from gym_batchnav.env.batch_env import BatchNavEnv
    from gym_batchnav.system.storage import make_folder

    make_folder(out)

    started = time.perf_counter()
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True) as progress:
        task = progress.add_task("Loading scenes")
        env = BatchNavEnv(num_envs, scenes=scene, renderer=renderer)
        progress.update(task, description="Compiling kernels (the first run takes a minute, later ones read a cache)")
        run = Run(env, np.arange(num_envs) % RANDOM_SHARE == RANDOM_SHARE - 1, np.random.default_rng(seed))
        run.begin(seed)
    device = f"{env.renderer.name} on {env.renderer.device}"
    console.print(f"Ready after {time.perf_counter() - started:.1f} s: {len(env.library.names)} scenes, {device}")
    run.go(seconds, console)
    summary = run.summary()
    console.print(_table(summary))
    with console.status("Drawing mosaic, map and clip"):
        files = run.draw(out)
    for path, what in files.items():
        console.print(f"{path}  {what}", highlight=False)
    env.close()
    if as_json:
        print(json.dumps({**summary, "renderer": device, "files": [str(path) for path in files]}))


@dataclass
class Run:
    """One demonstration: agents, what they did, and what was filmed of it."""

    env: Any
    at_random: np.ndarray  # [N] bool
    rng: np.random.Generator
    num_steps: int = 0
    stepping_seconds: float = 0.0
    policy_seconds: float = 0.0
    spl: list[float] = field(default_factory=list)
    success: list[float] = field(default_factory=list)
    paths: list[list[np.ndarray]] = field(default_factory=list)
    film: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def begin(self, seed: int) -> None:
        """Reset, compile everything by a few steps, and reset again."""
        self.env.reset(seed=seed)
        for _ in range(2):
            self.env.step(self.actions())
        self.env.pictures(np.arange(1), CLIP_PICTURE)
        self.env.reset(seed=seed)
        self.env.timings.update(dict.fromkeys(self.env.timings, 0.0))
        self.policy_seconds = 0.0
        in_first_scene = np.nonzero((self.env.agents.slot == 0) & ~self.at_random)[0]
        off = np.abs(self.env.episodes.start_distance[in_first_scene] - WATCHED_DISTANCE)
        order = np.argsort(off, kind="stable")
        _, first = np.unique(self.env.episodes.episode[in_first_scene[order]], return_index=True)
        self.watched = in_first_scene[order[np.sort(first)[:WATCHED]]]  # no two in the same episode
        self.paths = [[position.copy()] for position in self.env.agents.position[self.watched]]
        self.goals = self.env.episodes.goal[self.watched].copy()
        self.arrived = np.zeros(len(self.watched), bool)

    def actions(self) -> np.ndarray:
        """Shortest-path actions, random ones for some."""
        clock = time.perf_counter()
        actions = self.env.shortest_path_actions()
        actions[self.at_random] = self.rng.integers(1, 4, int(self.at_random.sum()))
        self.policy_seconds += time.perf_counter() - clock
        return actions

    def go(self, seconds: float, console: Console) -> None:
        """Step until the time is over."""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("Stepping", total=seconds)
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or self.num_steps == 0:
                clock = time.perf_counter()
                _, _, terminated, truncated, info = self.env.step(self.actions())
                self.stepping_seconds += time.perf_counter() - clock
                self.num_steps += 1
                self._note(terminated | truncated, info)
                fps = self.env.num_envs * self.num_steps / self.stepping_seconds
                left = end - time.perf_counter()
                progress.update(task, completed=seconds - left, description=f"{fps:,.0f} frames/s")
            progress.update(task, completed=seconds)

    def _note(self, ended: np.ndarray, info: dict[str, Any]) -> None:
        """Keep the scores of followers that arrived, and film the watched ones until they do."""
        scored = ended & ~self.at_random
        if scored.any():
            self.spl += list(info["spl"][scored])
            self.success += list(info["success"][scored].astype(float))
        self.arrived |= ended[self.watched]
        for path, index, arrived in zip(self.paths, self.watched, self.arrived, strict=True):
            if not arrived:
                path.append(self.env.agents.position[index].copy())
        filming = self.num_steps % CLIP_EVERY == 0 and len(self.film) < MAX_CLIP_FRAMES
        if filming and len(self.watched) and not self.arrived.all():
            agents = self.env.agents
            pictures = self.env.pictures(self.watched, CLIP_PICTURE)
            self.film.append((pictures, agents.position[self.watched].copy(), agents.heading[self.watched].copy()))

    def summary(self) -> dict[str, Any]:
        """The figures: frames/s, the followers' scores, milliseconds of a step by part."""
        timings = {"policy": self.policy_seconds, **self.env.timings}
        return {
            "fps": self.env.num_envs * self.num_steps / self.stepping_seconds,
            "spl": float(np.mean(self.spl)) if self.spl else None,
            "success": float(np.mean(self.success)) if self.success else None,
            "episodes": len(self.spl),
            "steps": self.num_steps,
            "num_envs": self.env.num_envs,
            "parts": {part: 1000 * seconds / self.num_steps for part, seconds in timings.items()},
        }

    def draw(self, out: Path) -> dict[Path, str]:
        """Write the pictures; returns the files and what they show."""
        from gym_batchnav import viz

        env = self.env
        count = min(36, env.num_envs)
        some = np.unique(np.linspace(0, env.num_envs - 1, count).astype(int))
        pictures = env.pictures(some, 128)
        viz.save_picture(viz.mosaic(pictures), out / "mosaic.png")
        files = {out / "mosaic.png": f"what {len(some)} of the agents see"}
        if not len(self.watched):
            return files
        heights = np.array([path[0][1] for path in self.paths])
        above = viz.batch_map(env, 0, 900, heights)
        paths = [np.array(path) for path in self.paths]
        viz.save_picture(viz.draw_trajectories(above, paths, self.goals), out / "map.png")
        files[out / "map.png"] = f"ways of {len(paths)} agents in {env.library.names[0]}, from disc to star"
        if self.film:
            viz.save_clip(self._frames(heights), out / "clip.gif", fps=8)
            files[out / "clip.gif"] = "the same agents under way, with what they see"
        return files

    def _frames(self, heights: np.ndarray) -> list[np.ndarray]:
        """The clip: the map of the storey of most heights, with the agents beside what they see."""
        from gym_batchnav import viz

        small = viz.batch_map(self.env, 0, 640, heights)
        frames = []
        for index, (pictures, positions, headings) in enumerate(self.film):
            walked = [np.array(path[: (index + 1) * CLIP_EVERY + 1]) for path in self.paths]
            frames.append(viz.map_beside_views(small, walked, self.goals, positions, headings, list(pictures)))
        return frames


def _table(summary: dict[str, Any]) -> Table:
    """The figures for people."""
    table = Table(show_header=False, title=f"{summary['num_envs']} agents, {summary['steps']} steps")
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("frames/s", f"{summary['fps']:,.0f}")
    table.add_section()
    for part, milliseconds in summary["parts"].items():
        table.add_row(f"{part}, ms a step", f"{milliseconds:.2f}")
    table.add_section()
    table.add_row("followers' episodes", f"{summary['episodes']}")
    for name in ("success", "spl"):
        table.add_row(f"followers' {name}", "-" if summary[name] is None else f"{summary[name]:.3f}")
    return table
