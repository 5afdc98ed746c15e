"""Comparison of a policy, of which there may be several runs, with other agents in the same episodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import EnvConfig, Episodes, with_defaults
from gym_batchnav.episodes.habitat import Size, content_of, read_document
from gym_batchnav.evaluation.agents import Agent, env_keywords_of, with_sensors
from gym_batchnav.evaluation.evaluate import WHOLE, EvaluatedEpisodes, episode_numbers, evaluate
from gym_batchnav.evaluation.failures import measures_for_causes
from gym_batchnav.evaluation.intervals import Estimate, estimates
from gym_batchnav.evaluation.named_agents import FOLLOWER, RANDOM, agent_file, named_agent
from gym_batchnav.evaluation.world import PolicyAbout
from gym_batchnav.library.sources import scene_sources, shipped_policies
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.parts import Part
from gym_batchnav.system.progress import late_progress
from gym_batchnav.task.pointnav import PointNav

SHIPPED_POLICY = "pointnav_depth"
SHIPPED_BLIND = "pointnav_blind"
POLICY = "policy"
BLIND = "blind"
BASELINES = (BLIND, RANDOM, FOLLOWER)  # compared with by default; they see no images
_MADE = {"actions": "action_kind", "actuation_noise": "noise", "camera": "rig.cameras", "task": "components.task"}
_OF_POLICIES = re.compile(rf"{POLICY}(_\d+)?")  # the names of the evaluated policy's runs
# Training uses no seed of 100,000 or larger.
SMALL_HOMES = tuple(
    f"procedural:{seed}?area={area}&closed_doors=0&triangles=8000"
    for seed, area in zip(range(100_000, 100_020), cycle((28, 34, 40, 46, 52, 57)), strict=False)
)
HELD_OUT = dict.fromkeys(("paper-depth", "paper-rgb"), ("procedural:100000-100019",))
EPISODES_PER_SCENE = 25


def held_out_scenes(preset: str = "cpu") -> tuple[str, ...]:
    """Return the 20 homes in which policies of a preset are evaluated: small ones, except for the paper's presets."""
    return HELD_OUT.get(preset, SMALL_HOMES)


# Loads the agent and the description of a policy file, given the seed of sampled actions (None: the most likely ones);
# see ``gym_batchnav.train.policy_agent.load_agent``.
LoadAgent = Callable[[Path, int | None], tuple[Agent, PolicyAbout]]


@dataclass(frozen=True, slots=True, eq=False)
class ChosenAgent:
    """An agent and, if it is that of a policy file, the file and its description."""

    agent: Agent
    file: Path | None = None
    about: PolicyAbout | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of ``make_comparison``, from which another process makes the same comparison."""

    # Policy files of one method (paths, or names of shipped ones), one for each training seed, or agents by name, see
    # ``named_agent``; by default ``pointnav_depth``.
    policies: tuple[str, ...] = ()
    # "blind" is the shipped blind policy. It and "follower" are left out where they cannot act.
    agents: tuple[str, ...] = BASELINES
    scenes: tuple[str, ...] = ()  # by default those of ``held_out_scenes``
    episodes: int | str | None = None  # in all, by default 25 per scene; or a Habitat dataset, whose episodes are run
    num_envs: int = 100  # the results do not depend on it
    renderer: str = "auto"
    sample: bool = False  # sample actions instead of taking the most likely ones
    seed: int = 0  # of the environments, of sampled actions and of the intervals' resamples
    protocol: str | None = None  # of the environment of an agent by name, in addition to its ``env_keywords``

    @property
    def sample_seed(self) -> int | None:
        """The seed of sampled actions; None for the most likely ones."""
        return self.seed if self.sample else None

    def with_files(self, files: Mapping[str, Path]) -> Asked:
        """Return the same arguments with policy files replaced by ``files``, which has new paths by the old ones."""
        renamed = {old: str(new) for old, new in files.items()}
        return replace(
            self,
            policies=tuple(renamed.get(name, name) for name in self.policies),
            agents=tuple(name if name == BLIND else renamed.get(name, name) for name in self.agents),
        )


@dataclass
class Comparison:
    """Agents that are evaluated in the same episodes, and their results."""

    asked: Asked  # in which defaults have become values
    chosen: dict[str, ChosenAgent]  # by name: first the policy, or its runs policy_1, policy_2 and so on
    keywords: dict[str, Any]  # of the environments, except scenes and renderer
    env: BatchNavEnv  # of agents that may see images
    blind_env: BatchNavEnv  # the same scenes without images and sensors that read them, for the others
    episodes_per_scene: int | None  # None for all of a dataset
    results: dict[str, EvaluatedEpisodes] = field(default_factory=dict)  # by name of the agent
    card: dict[str, Any] | None = None  # of the batches in which the policy ran, as JSON values; None: that of ``env``

    def check(self) -> None:
        """Raise ValueError unless every policy can act in its batch."""
        for name, one in self.chosen.items():
            try:
                if name != self.policies[0]:
                    _check_keywords(one.agent, self.env)
                check = getattr(one.agent, "check", None)
                if check is not None:
                    check(self.env_of(name))
            except ValueError as error:
                remedy = "" if name in self.policies else f"; or pass policy={name!r}, whose environment fits it"
                raise ValueError(f"the agent {name!r} cannot act in these episodes: {error}{remedy}") from error

    def run(self, shard: Part = WHOLE) -> None:
        """Evaluate all agents in a part of the episodes."""
        for name, agent in self.agents.items():
            with late_progress(f"Episodes of {name}", len(shard.of(self.numbers))) as done:
                self.results[name] = evaluate(
                    self.env_of(name), agent, self.episodes_per_scene, shard=shard, seed=self.asked.seed, progress=done
                )

    @property
    def agents(self) -> dict[str, Agent]:
        """All agents by name, the policy or its runs first."""
        return {name: one.agent for name, one in self.chosen.items()}

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policy's runs."""
        return tuple(self.chosen)[: len(self.asked.policies)]

    @property
    def runs(self) -> dict[str, tuple[str, ...]]:
        """The names of the runs of every agent; only the policy may have several."""
        others = [name for name in self.chosen if name not in self.policies]
        return {POLICY: self.policies, **{name: (name,) for name in others}}

    @property
    def title(self) -> str:
        """The name of the policy: that of its file, or of an agent, and the number of its runs."""
        file = self.chosen[self.policies[0]].file
        name = self.asked.policies[0] if file is None else file.name
        further = len(self.policies) - 1
        return name if not further else f"{name} and {further} more"

    @property
    def numbers(self) -> np.ndarray:
        """The numbers [E] int64 of all episodes."""
        return episode_numbers(self.env, self.episodes_per_scene)

    def results_of(self, agent: str) -> list[EvaluatedEpisodes]:
        """Return the results of all runs of an agent."""
        return [self.results[name] for name in self.runs[agent]]

    def env_of(self, name: str) -> BatchNavEnv:
        """Return the batch of an agent."""
        return self.blind_env if name in BASELINES else self.env

    def protocol(self) -> dict[str, Any]:
        """Return the protocol card of the results as JSON values."""
        return json.loads(self.env.protocol_card().to_json()) if self.card is None else self.card

    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Return means and intervals of all measures, by agent."""
        return {agent: estimates(self.results_of(agent), self.asked.seed) for agent in self.runs}

    def close(self) -> None:
        """Close both batches."""
        self.env.close()
        self.blind_env.close()


def make_comparison(asked: Asked, load: LoadAgent, note: Callable[[str], None] = lambda text: None) -> Comparison:
    """Load the policies and check all arguments, then load the scenes; ``note`` is told if an agent is left out.

    Raises:
        ValueError: A file is not a policy, an agent is unknown, policies fit neither each other nor the episodes, or
            ``episodes`` is a number but not a multiple of the number of scenes.
        FileNotFoundError: A file does not exist.
    """
    if not asked.policies:
        if SHIPPED_POLICY not in shipped_policies():
            raise ValueError("this version ships no policy: pass policy=, a file that gym-batchnav train wrote")
        asked = replace(asked, policies=(SHIPPED_POLICY,))
    policies = _policies(asked, load)
    about = next(iter(policies.values())).about
    baselines = _baselines(asked, load)
    if asked.sample and not any(one.file for name, one in {**policies, **baselines}.items() if name != BLIND):
        raise ValueError("sample=True: only the actions of policy files can be sampled; leave it out for others")
    spec = list(asked.scenes or held_out_scenes("cpu" if about is None else about.preset))
    if isinstance(asked.episodes, str):
        if not asked.scenes:
            raise ValueError(f"episodes='{asked.episodes}': also pass scenes=, those of the dataset")
        per_scene, episodes = None, Episodes(asked.episodes, order="once")
    else:
        per_scene = episodes_per_scene_of(asked.episodes, len(scene_sources(spec)))
        episodes = Episodes(order="once", count=per_scene)
    keywords = {**_world(asked, policies, baselines), "episodes": episodes}
    env = BatchNavEnv(asked.num_envs, **keywords, scenes=spec, renderer=asked.renderer)
    try:
        baselines = _without_unfit(baselines, env, note)
        blind_env = BatchNavEnv(asked.num_envs, **_without_images(keywords), library=env.library)
    except BaseException:
        env.close()
        raise
    agents = tuple(name for name in asked.agents if name not in (BLIND, FOLLOWER) or name in baselines)
    asked = replace(asked, agents=agents, scenes=tuple(spec))
    comparison = Comparison(asked, {**policies, **baselines}, keywords, env, blind_env, per_scene)
    try:
        comparison.check()
        if isinstance(asked.episodes, str):
            _note_what_is_left_out(Path(asked.episodes), comparison, note)
    except BaseException:
        comparison.close()
        raise
    return comparison


def _note_what_is_left_out(file: Path, comparison: Comparison, note: Callable[[str], None]) -> None:
    """Tell ``note`` if a dataset has episodes that are not run; files in ``content/`` are only counted."""
    document, _ = read_document(file, Size(0, 0))
    if document["episodes"]:
        unit, there, found = "episodes", len(document["episodes"]), len(comparison.numbers)
    else:
        unit, there, found = "scenes", len(content_of(file)), len(comparison.env.library.active)
    if found < there:
        note(f"{found:,} of the {there:,} {unit} of '{file}' are run: those that fit the given scenes")


def episodes_per_scene_of(episodes: int | None, num_scenes: int) -> int:
    """Return the number of episodes per scene; ValueError unless the total is a multiple of the number of scenes."""
    if episodes is None:
        return EPISODES_PER_SCENE
    check_counts(episodes=episodes)
    if episodes % num_scenes:
        fewer = episodes // num_scenes * num_scenes
        more = -(-episodes // num_scenes) * num_scenes
        near = f"{fewer} or {more}" if fewer else f"{more}"
        raise ValueError(
            f"episodes={episodes}: all {num_scenes} scenes have the same weight, so the number must be a multiple of "
            f"{num_scenes}: pass {near}"
        )
    return episodes // num_scenes


def _choose(name: str, asked: Asked, load: LoadAgent, option: str) -> ChosenAgent:
    """Return the agent of a policy file, of a shipped policy or of a name; ``option`` is the keyword that gave it."""
    path = agent_file(name)
    if path is None:
        return ChosenAgent(named_agent(name, asked.seed, option))
    agent, about = load(path, asked.sample_seed)
    return ChosenAgent(agent, path, about)


def _policies(asked: Asked, load: LoadAgent) -> dict[str, ChosenAgent]:
    """Return the runs of the evaluated policy: ``policy``, or ``policy_1``, ``policy_2`` and so on."""
    names = asked.policies
    chosen = [_choose(name, asked, load, "policy") for name in names]
    first = chosen[0].about
    for name, one in zip(names, chosen, strict=True):
        if (one.about is None) != (first is None):
            raise ValueError(
                f"policy={list(names)!r}: these must be runs of one method: pass only policy files, or only named "
                "agents, and agents to compare with as agents="
            )
        lines = one.about.differences(first) if one.about is not None and first is not None else []
        if lines:
            raise ValueError(
                f"policy='{names[0]}' was trained with other environment settings than the policy '{name}': "
                f"{'; '.join(lines)}. Evaluate them one by one"
            )
    labels = [POLICY] if len(names) == 1 else [f"{POLICY}_{number}" for number in range(1, len(names) + 1)]
    return dict(zip(labels, chosen, strict=True))


def _baselines(asked: Asked, load: LoadAgent) -> dict[str, ChosenAgent]:
    """Return the agents that act in the same episodes, by name; files are called by their file's name."""
    chosen: dict[str, ChosenAgent] = {}
    for name in asked.agents:
        if name == BLIND:
            if SHIPPED_BLIND in shipped_policies():
                chosen[BLIND] = _choose(SHIPPED_BLIND, asked, load, "agents")
            continue
        one = _choose(name, asked, load, "agents")
        label = name if one.file is None else one.file.name
        if label in chosen or _OF_POLICIES.fullmatch(label) or (one.file is not None and label in BASELINES):
            raise ValueError(
                f"agents={list(asked.agents)!r}: the name {label!r} is taken: list each agent once, or rename the file"
            )
        chosen[label] = one
    return chosen


def _world(asked: Asked, policies: dict[str, ChosenAgent], baselines: dict[str, ChosenAgent]) -> dict[str, Any]:
    """Return the keywords of the environment: those of a policy's training, or those that an agent by name asks for.

    They include the sensors that the other agents need, which the policy does not read.
    """
    first = next(iter(policies.values()))
    about = first.about
    if about is not None:
        if asked.protocol is not None:
            raise ValueError(
                f"protocol={asked.protocol!r}: a policy file, such as the shipped one, is evaluated with the settings "
                "of its training: leave protocol= out, or pass policy='follower' or 'module:name'"
            )
        keywords = about.env_keywords()
    else:
        keywords = env_keywords_of(first.agent)
        keywords |= {} if asked.protocol is None else {"protocol": asked.protocol}
    whole = with_defaults(keywords)
    sensors = there = tuple(whole.get("sensors", ("depth",)))
    for one in (*policies.values(), *baselines.values()):
        sensors = with_sensors(sensors, env_keywords_of(one.agent).get("sensors", ()))
    if sensors != there:
        keywords["sensors"] = sensors
    measures = tuple(whole.get("measures", ()))
    names = {measure.name for measure in measures}
    needed = (one for one in measures_for_causes(whole.get("task") or PointNav()) if one.name not in names)
    return {**keywords, "measures": (*measures, *needed)}


def _check_keywords(agent: Agent, env: BatchNavEnv) -> None:
    """Raise ValueError unless an environment has the keywords that an agent needs; its sensors have been added."""
    keywords = with_defaults(env_keywords_of(agent))
    for name in (one for one in keywords if one not in ("protocol", "sensors", "measures")):
        value = attrgetter(_MADE.get(name, name))
        needed, found = value(EnvConfig(**keywords)), value(env.config)
        if needed != found:
            raise ValueError(f"{name} is {found!r}, the agent needs {needed!r}: evaluate it alone, as policy=")


def _without_images(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of an environment without images, and without the sensors that read them."""
    sensors = keywords.get("sensors", ())
    kept = tuple(one for one in sensors if not isinstance(one, str) and not getattr(one, "images", ()))
    gone = {getattr(one, "name", one) for one in sensors if one not in kept}
    changes: dict[str, Any] = {"sensors": kept}
    for keyword in ("sensor_noise", "sensor_timing"):
        if given := keywords.get(keyword):
            changes[keyword] = {name: one for name, one in given.items() if name not in gone}
    return {**keywords, **changes}


def _without_unfit(
    baselines: dict[str, ChosenAgent], env: BatchNavEnv, note: Callable[[str], None]
) -> dict[str, ChosenAgent]:
    """Return the agents without the shipped blind one and the follower, where they cannot act."""
    fit = dict(baselines)
    for name in (BLIND, FOLLOWER):
        check = getattr(fit[name].agent, "check", None) if name in fit else None
        try:
            if check is not None:
                check(env)
        except ValueError as error:
            note(f"The {'blind agent' if name == BLIND else name} is left out: {error}")
            del fit[name]
    return fit
