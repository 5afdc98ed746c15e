"""Comparison of a policy with a blind, a random and a shortest-path agent in the same episodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav import viz
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.agents import Agent, RandomAgent, ShortestPathAgent
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes, evaluate
from gym_batchnav.evaluation.intervals import Estimate, estimates
from gym_batchnav.evaluation.tables import episode_table, figures, longest_episodes
from gym_batchnav.library.sources import assets_dir, scene_sources
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.train.policy_agent import PolicyAgent
from gym_batchnav.train.policy_file import PolicyAbout, load_policy
from gym_batchnav.train.run.presets import PRESETS

SHIPPED_POLICY = "pointnav_depth.safetensors"
SHIPPED_BLIND = "pointnav_blind.safetensors"
EPISODES_PER_SCENE = 25
SHOWN_SCENES = 6  # on the maps
SHOWN_EPISODES = 4  # per scene; those of the first scene are filmed


@dataclass
class Comparison:
    """Agents that are evaluated in the same episodes, and their results."""

    policy_file: Path
    about: PolicyAbout
    agents: dict[str, Agent]  # by name, the policy first
    env: BatchNavEnv  # for the policy
    blind_env: BatchNavEnv  # the same scenes without pictures, for the other agents
    episodes_per_scene: int
    results: dict[str, EvaluatedEpisodes] = field(default_factory=dict)

    def run(self, seed: int = 0) -> None:
        """Evaluate all agents in environments with a seed."""
        total = self.episodes_per_scene * len(self.env.library.active)
        for name, agent in self.agents.items():
            env = self.env if name == "policy" else self.blind_env
            with late_progress(f"Episodes of the {name.replace('_', '-')} agent", total) as done:
                self.results[name] = evaluate(env, agent, self.episodes_per_scene, seed=seed, progress=done)

    def estimates(self, seed: int = 0) -> dict[str, dict[str, Estimate]]:
        """Return means and intervals of all measures, by agent."""
        return {name: estimates(episodes, seed) for name, episodes in self.results.items()}

    def summary(self, seed: int = 0) -> dict[str, Any]:
        """Return the figures of the policy, and those of all agents, as JSON values."""
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

    def write(self, out: Path, summary: dict[str, Any]) -> dict[Path, str]:
        """Write figures, episodes, maps and a clip into a folder; return a description of each file."""
        write_atomically(out / "results.json", (json.dumps(summary, indent=1) + "\n").encode())
        write_atomically(out / "protocol.json", (self.env.protocol_card().to_json() + "\n").encode())
        write_atomically(out / "episodes.csv", episode_table(self.env, self.results).encode())
        shown = longest_episodes(self.results["policy"], SHOWN_SCENES, SHOWN_EPISODES)
        env = BatchNavEnv(
            len(shown), **self.about.env_keywords(), library=self.env.library,
            renderer=self.env.renderer.name, num_episodes=self.episodes_per_scene, episode_order="once",
        )  # fmt: skip
        try:
            recording = viz.record_episodes(
                env,
                self.agents["policy"],
                indices=np.arange(len(shown)),
                num_filmed=min(SHOWN_EPISODES, self.episodes_per_scene),
                episodes=shown,
            )
            viz.save_picture(viz.trajectory_maps(env, recording), out / "trajectories.png")
            viz.save_clip(viz.episode_clip(env, recording), out / "clip.gif", fps=8)
        finally:
            env.close()
        return {
            out / "results.json": "the figures",
            out / "protocol.json": "settings, checksums of scenes and episodes, versions and seeds",
            out / "episodes.csv": "every episode of every agent",
            out / "trajectories.png": "trajectories from above, the shortest paths in grey",
            out / "clip.gif": "the longest episodes of the first scene",
        }

    def close(self) -> None:
        """Close both batches."""
        self.env.close()
        self.blind_env.close()


def make_comparison(
    policy_file: Path | None = None,
    blind_file: Path | None = None,
    scenes: Sequence[str] | None = None,
    episodes: int | None = None,
    num_envs: int = 100,
    renderer: str = "auto",
    sample: bool = False,
    seed: int = 0,
    allow_mismatch: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Load the policies and check all arguments, then load the scenes.

    Args:
        policy_file: The policy; by default the shipped one.
        blind_file: A blind policy to compare with; by default the shipped one, if it was trained in the same world.
        scenes: Evaluation scenes; by default the held-out scenes of the policy's preset.
        episodes: Total number of episodes; by default 25 per scene.
        num_envs: N; the results do not depend on it.
        renderer: See BatchNavEnv.
        sample: Sample actions instead of taking the most likely ones.
        seed: Seed of sampled actions.
        allow_mismatch: Compare with a blind policy that was trained with other environment settings.
        note: Called with a message if an agent is left out.

    Raises:
        ValueError: A file is not a policy, the blind policy does not fit, or ``episodes`` is not a multiple of the
            number of scenes.
        FileNotFoundError: A file does not exist.
    """
    policy_file = policy_file or _shipped(SHIPPED_POLICY)
    if policy_file is None:
        raise ValueError("this version ships no policy: pass policy_file=, a file that gym-batchnav train wrote")
    policy, about = load_policy(policy_file)
    preset = PRESETS.get(about.preset, PRESETS["cpu"])
    spec = list(scenes or preset.held_out)
    per_scene = episodes_per_scene_of(episodes, len(scene_sources(spec)))

    sample_seed = seed if sample else None
    agents: dict[str, Agent] = {"policy": PolicyAgent(policy, sample_seed, about=about)}
    chosen = blind_file or _shipped(SHIPPED_BLIND)
    if chosen is not None:
        blind_policy, blind_about = load_policy(chosen)
        try:
            _check_blind(chosen, blind_about, about, allow_mismatch)
            agents["blind"] = PolicyAgent(blind_policy, sample_seed, about=blind_about, allow_mismatch=True)
        except ValueError as error:
            if blind_file is not None:
                raise
            note(f"Without the shipped blind agent: {error}")
    agents |= {"random": RandomAgent(seed), "shortest_path": ShortestPathAgent()}

    keywords = {**about.env_keywords(), "num_episodes": per_scene, "episode_order": "once"}
    env = BatchNavEnv(num_envs, **keywords, scenes=spec, renderer=renderer)
    try:
        blind_env = BatchNavEnv(num_envs, **{**keywords, "sensors": ()}, library=env.library)
    except BaseException:
        env.close()
        raise
    return Comparison(policy_file, about, agents, env, blind_env, per_scene)


def episodes_per_scene_of(episodes: int | None, num_scenes: int) -> int:
    """Return the number of episodes per scene.

    Raises:
        ValueError: The total is not a multiple of the number of scenes.
    """
    if episodes is None:
        return EPISODES_PER_SCENE
    if episodes % num_scenes:
        fewer = episodes // num_scenes * num_scenes
        more = -(-episodes // num_scenes) * num_scenes
        near = f"{fewer} or {more}" if fewer else f"{more}"
        raise ValueError(
            f"episodes={episodes}: all {num_scenes} scenes have the same weight, so the number must be a multiple of "
            f"{num_scenes}: pass {near}"
        )
    return episodes // num_scenes


def _shipped(name: str) -> Path | None:
    """Return the path of a shipped file; None if it is missing."""
    path = assets_dir() / name
    return path if path.is_file() else None


def _check_blind(file: Path, blind: PolicyAbout, about: PolicyAbout, allow_mismatch: bool) -> None:
    """Raise ValueError unless a policy is blind and has the other one's settings, except for the camera."""
    if blind.kind != "blind":
        raise ValueError(f"blind_file='{file}': it holds a policy of kind {blind.kind!r}; pass one of kind 'blind'")
    lines = blind.differences(about)
    if lines and not allow_mismatch:
        raise ValueError(
            f"blind_file='{file}': it was trained with other environment settings than policy_file=: in the policy's "
            f"{'; '.join(lines)}. Compare policies with the same settings, or pass allow_mismatch=True"
        )
