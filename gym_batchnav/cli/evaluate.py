"""``gym-batchnav evaluate``: how good a policy is in homes it never saw."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.extras import train_extra
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.storage import make_folder

if TYPE_CHECKING:
    from gym_batchnav.env.batch_env import BatchNavEnv
    from gym_batchnav.evaluation.agents import Agent
    from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
    from gym_batchnav.evaluation.intervals import Estimate
    from gym_batchnav.train.policy_file import PolicyAbout

SHIPPED_POLICY = "pointnav_depth.safetensors"
SHIPPED_BLIND = "pointnav_blind.safetensors"
EPISODES_PER_SCENE = 25
SHOWN_SCENES = 6  # on the maps
SHOWN_EPISODES = 4  # of each of them; those of the first are filmed
COLUMNS = {
    "spl": "SPL",
    "soft_spl": "SoftSPL",
    "success": "success",
    "collisions_count": "collisions",
    "num_steps": "steps",
}


def evaluate(
    policy: Annotated[Path | None, typer.Option(help="Policy file; the shipped one by default.")] = None,
    blind: Annotated[Path | None, typer.Option(help="Policy file of a blind agent to compare with.")] = None,
    scenes: Annotated[
        list[str] | None,
        typer.Option(help="File, folder, pattern or name; may be repeated. The preset's held-out homes by default."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help=f"Of all scenes together; {EPISODES_PER_SCENE} of each scene by default.", min=1)
    ] = None,
    num_envs: Annotated[int, typer.Option(help="Environments; the result does not depend on it.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Of random actions and of the intervals.", min=0, max=2**32 - 1)] = 0,
    sample: Annotated[bool, typer.Option("--sample", help="Draw actions instead of taking the likeliest.")] = False,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for figures and pictures; made if need be.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object in the last line.")] = False,
) -> None:
    """Run every episode of a set exactly once and score a policy beside a blind, a random and a shortest-path agent.

    Each scene gives as many episodes, which are the same whatever --num-envs. The table has means and their 95%
    intervals, from a bootstrap over scenes and the episodes in them. With --out: results.json, episodes.csv,
    trajectories.png (ways from above; the shortest in grey) and clip.gif of the longest episodes.

    Example: gym-batchnav evaluate --policy runs/mine/policy.safetensors --episodes 500 --out report
    """
    console = Console(stderr=as_json)
    if out is not None:
        make_folder(out)
    contest = make_contest(policy, blind, scenes, episodes, num_envs, renderer, sample, seed, console)
    try:
        contest.run()
        summary = contest.summary(seed)
        console.print(contest.table(seed))
        if out is not None:
            with console.status("Drawing maps and clip"):
                for file, what in contest.write(out, summary).items():
                    console.print(f"{file}  {what}", highlight=False, markup=False)
    finally:
        contest.close()
    if as_json:
        print(json.dumps(summary))


@dataclass
class Contest:
    """Agents that are measured in the same episodes."""

    policy_file: Path
    about: PolicyAbout
    agents: dict[str, Agent]  # the policy first
    env: BatchNavEnv  # for the policy
    blind_env: BatchNavEnv  # the same scenes without pictures, for those that need none
    episodes_per_scene: int
    results: dict[str, EvaluatedEpisodes] = field(default_factory=dict)

    def run(self) -> None:
        """Run all agents."""
        from gym_batchnav.evaluation.evaluate import evaluate as run_episodes

        total = self.episodes_per_scene * len(self.env.library.active)
        for name, agent in self.agents.items():
            env = self.env if name == "policy" else self.blind_env
            with late_progress(f"Episodes of the {name.replace('_', '-')} agent", total) as done:
                self.results[name] = run_episodes(env, agent, self.episodes_per_scene, progress=done)

    def estimates(self, seed: int) -> dict[str, dict[str, Estimate]]:
        """Means and intervals of all measures, by agent."""
        from gym_batchnav.evaluation.intervals import estimates

        return {name: estimates(episodes, seed) for name, episodes in self.results.items()}

    def summary(self, seed: int) -> dict[str, Any]:
        """The figures of the policy, and those of all agents, for JSON."""
        from gym_batchnav.evaluation.tables import figures

        agents = {name: figures(found) for name, found in self.estimates(seed).items()}
        return {
            **agents["policy"],
            "policy": str(self.policy_file),
            "kind": self.about.kind,
            "preset": self.about.preset,
            "frames": self.about.frames,
            "scenes": [self.env.library.name(slot) for slot in self.env.library.active.tolist()],
            "episodes": len(self.results["policy"]),
            "seed": seed,
            "agents": agents,
        }

    def table(self, seed: int) -> Table:
        """The figures for people."""
        count = f"{len(self.results['policy'])} episodes in {len(self.env.library.active)} scenes"
        table = Table(
            title=escape(f"{self.policy_file.name}: {count}, 95% intervals"),
            box=SIMPLE,
            pad_edge=False,
            show_edge=False,
        )
        table.add_column("agent", style="bold", no_wrap=True)
        for heading in COLUMNS.values():
            table.add_column(heading, justify="right", no_wrap=True)
        for name, found in self.estimates(seed).items():
            cells = [_cell(found[measure]) for measure in COLUMNS]
            table.add_row(name.replace("_", " "), *cells)
        return table

    def write(self, out: Path, summary: dict[str, Any]) -> dict[Path, str]:
        """Write all files; returns them and what they hold."""
        from gym_batchnav import viz
        from gym_batchnav.env.batch_env import BatchNavEnv
        from gym_batchnav.evaluation import tables
        from gym_batchnav.system.storage import write_atomically
        from gym_batchnav.train import report

        write_atomically(out / "results.json", (json.dumps(summary, indent=1) + "\n").encode())
        write_atomically(out / "episodes.csv", tables.episode_table(self.env, self.results).encode())
        shown = tables.longest_episodes(self.results["policy"], SHOWN_SCENES, SHOWN_EPISODES)
        env = BatchNavEnv(
            len(shown), **self.about.env_keywords(), library=self.env.library, renderer=self.env.renderer.name,
            num_episodes=self.episodes_per_scene, episode_order="once",
        )  # fmt: skip
        try:
            taken = report.film(env, self.agents["policy"], shown, min(SHOWN_EPISODES, self.episodes_per_scene))
            viz.save_picture(report.trajectories(env, taken), out / "trajectories.png")
            viz.save_clip(report.clip(env, taken), out / "clip.gif", fps=8)
        finally:
            env.close()
        return {
            out / "results.json": "the figures",
            out / "episodes.csv": "every episode of every agent",
            out / "trajectories.png": "ways from above, the shortest in grey",
            out / "clip.gif": "the longest episodes of the first scene",
        }

    def close(self) -> None:
        """Release scenes and renderer."""
        self.env.close()
        self.blind_env.close()


def make_contest(
    policy_file: Path | None,
    blind_file: Path | None,
    scenes: list[str] | None,
    episodes: int | None,
    num_envs: int,
    renderer: str,
    sample: bool,
    seed: int,
    console: Console,
) -> Contest:
    """Read the policies and load the scenes; the arguments are those of ``evaluate``."""
    with train_extra():
        from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
        from gym_batchnav.train.policy_agent import PolicyAgent
        from gym_batchnav.train.policy_file import load_policy
        from gym_batchnav.train.run.presets import PRESETS
    from gym_batchnav.env.batch_env import BatchNavEnv
    from gym_batchnav.library.sources import scene_sources

    policy_file = policy_file or _shipped(SHIPPED_POLICY)
    if policy_file is None:
        raise ValueError("this version ships no policy: give --policy FILE, as gym-batchnav train writes")
    policy, about = load_policy(policy_file)
    sample_seed = seed if sample else None
    agents: dict[str, Agent] = {"policy": PolicyAgent(policy, sample_seed)}
    chosen = blind_file or _shipped(SHIPPED_BLIND)
    if chosen is not None:
        blind_policy, blind_about = load_policy(chosen)
        try:
            _check_blind(chosen, blind_about, about)
            agents["blind"] = PolicyAgent(blind_policy, sample_seed)
        except ValueError as error:
            if blind_file is not None:
                raise
            console.print(f"Without the blind agent that ships: {error}", markup=False)
    agents |= {"random": RandomAgent(seed), "shortest_path": ShortestPathAgent()}

    preset = PRESETS.get(about.preset, PRESETS["cpu"])
    spec = scenes or list(preset.held_out)
    per_scene = _per_scene(episodes, len(scene_sources(spec)))
    keywords = {**about.env_keywords(), "num_episodes": per_scene, "episode_order": "once"}
    with console.status("Loading scenes"):
        env = BatchNavEnv(num_envs, **keywords, scenes=spec, renderer=renderer)
        blind_env = BatchNavEnv(num_envs, **{**keywords, "sensors": ()}, library=env.library)
    return Contest(policy_file, about, agents, env, blind_env, per_scene)


def _shipped(name: str) -> Path | None:
    """A file among the assets, if it is there."""
    from gym_batchnav.library.sources import assets_dir

    path = assets_dir() / name
    return path if path.is_file() else None


def _check_blind(file: Path, about: PolicyAbout, other: PolicyAbout) -> None:
    """Refuse to compare with a policy that is not blind, or has learned another task.

    Raises:
        ValueError: it is, or has.
    """
    if about.kind != "blind":
        raise ValueError(f"--blind '{file}': it holds a policy of kind {about.kind!r}; give one of kind 'blind'")
    for name in ("forward_step", "turn_angle_deg", "max_episode_steps"):
        mine, its = getattr(other, name), getattr(about, name)
        if mine != its:
            raise ValueError(f"--blind '{file}' has {name}={its}, the policy {mine}: compare policies of one task")


def _per_scene(episodes: int | None, num_scenes: int) -> int:
    """How many episodes of each scene to run.

    Raises:
        ValueError: they cannot be shared out evenly.
    """
    if episodes is None:
        return EPISODES_PER_SCENE
    if episodes % num_scenes:
        fewer, more = episodes // num_scenes * num_scenes, -(-episodes // num_scenes) * num_scenes
        near = f"{fewer} or {more}" if fewer else f"{more}"
        raise ValueError(f"--episodes {episodes} cannot be shared evenly by {num_scenes} scenes: give {near}")
    return episodes // num_scenes


def _cell(estimate: Estimate) -> str:
    """A mean above its interval: shares with more digits than counts."""
    mean, edge = (3, 2) if estimate.high <= 1 else (1, 1)
    return f"{estimate.mean:.{mean}f}\n[dim]{estimate.low:.{edge}f}-{estimate.high:.{edge}f}[/dim]"
