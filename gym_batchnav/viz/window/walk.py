"""A batch that the controls of a window step: by hand with the keyboard, or with an agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.agents import Agent
from gym_batchnav.viz.window.controls import Controls, Request
from gym_batchnav.viz.window.page import Page
from gym_batchnav.viz.window.server import WindowServer
from gym_batchnav.viz.window.snapshot import Photographer

_IDLE = 0.25  # seconds after which the loop looks whether it should end


class Walk:
    """Steps a batch: all agents at once as an agent chooses, or one alone while the others wait.

    Args:
        env: The batch, with autoreset mode NEXT_STEP. It is reset.
        agent: Chooses the actions of ``step``.
        seed: Passed to ``env.reset``.

    Raises:
        ValueError: The autoreset mode is another one.
    """

    def __init__(self, env: BatchNavEnv, agent: Agent, seed: int | None = None) -> None:
        if env.autoreset_mode != AutoresetMode.NEXT_STEP:
            raise ValueError("a window steps batches with autoreset_mode='next_step': make the batch with it")
        self.env = env
        self._observation = env.reset(seed=seed)[0]
        self._ended = np.zeros(env.num_envs, bool)
        self._agent = agent
        self.use(agent)

    def use(self, agent: Agent) -> None:
        """Let another agent choose, which has not seen the episodes so far."""
        self._agent = agent
        self._begun = np.ones(self.env.num_envs, bool)
        agent.reset(self.env)

    def step(self) -> None:
        """Let all agents take a step; those whose episode has ended begin the next one."""
        actions = self._agent.act(self.env, self._observation, self._begun)
        self._begun[:] = False
        self._take(actions, np.ones(self.env.num_envs, bool))

    def act(self, index: int, action: int) -> None:
        """Let one agent take an action, or begin its next episode if its last one has ended, while the others wait."""
        alone = np.arange(self.env.num_envs) == index
        self._take(np.where(alone, action, 0), alone)

    def begin(self, index: int) -> None:
        """Let one agent begin its next episode."""
        alone = np.arange(self.env.num_envs) == index
        self._observation = self.env.reset(options={"reset_mask": alone})[0]
        self._ended &= ~alone
        self._begun |= alone

    def _take(self, actions: np.ndarray, acting: np.ndarray) -> None:
        """Step the environments of a mask [N] bool."""
        with self.env.paused(~acting):
            self._observation, _, terminated, truncated, _ = self.env.step(actions)
        self._begun |= acting & self._ended
        self._ended = np.where(acting, terminated | truncated, self._ended)


def walk_in_window(
    env: BatchNavEnv,
    agents: Mapping[str, Agent],
    server: WindowServer,
    *,
    seed: int | None = None,
    size: int = 256,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Step a batch as the controls of a window say, in this thread, until interrupted.

    Keys move the picked agent by the environment's own actions if these are discrete. All viewers share the controls.

    Args:
        env: The batch, with autoreset mode NEXT_STEP.
        agents: The agents to choose from, by name.
        server: The server, which stays open.
        seed: Seed of the episodes.
        size: Pixels along the longer side of the pictures.
        until: Returns whether to end.
    """
    space = env.single_action_space
    page = Page(server.viser, env.num_envs)
    controls = Controls(server.viser, page.wake, tuple(agents), int(space.n) if isinstance(space, Discrete) else 0)
    photographer = Photographer(env, size)
    try:
        driver = controls.driver
        walk = Walk(env, agents[driver], seed)
        page.show(photographer.take(page.picked))
        due = time.perf_counter()
        while not until():
            wait = max(0.0, due - time.perf_counter()) if controls.playing else _IDLE
            is_asked = page.wake.wait(min(wait, _IDLE))
            page.wake.clear()
            if controls.driver != driver:
                driver = controls.driver
                walk.use(agents[driver])
            for request in controls.taken():
                _grant(walk, request, page.picked)
            is_due = controls.playing and time.perf_counter() >= due
            if is_due:
                due = max(due + controls.period, time.perf_counter())
                walk.step()
            if is_due or is_asked:
                page.show(photographer.take(page.picked))
    finally:
        photographer.close()


def _grant(walk: Walk, request: Request, picked: int) -> None:
    """Do what somebody at the window asked for."""
    if request.kind == "act":
        walk.act(picked, request.action)
    elif request.kind == "begin":
        walk.begin(picked)
    else:
        walk.step()
