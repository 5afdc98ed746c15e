"""A batch that the controls of a window step: by hand with the keyboard, or with an agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import Agent
from gym_batchnav.state import Action
from gym_batchnav.viz.window.page import Page
from gym_batchnav.viz.window.server import WindowServer
from gym_batchnav.viz.window.snapshot import Photographer

# Free in viser, whose camera moves with W, A, S, D, Q, E and the arrows.
KEYS = {
    Action.MOVE_FORWARD: "I", Action.TURN_LEFT: "J", Action.TURN_RIGHT: "L", Action.STOP: "K", Action.LOOK_UP: "U",
    Action.LOOK_DOWN: "O",
}  # fmt: skip
PLAY_KEY = "P"
STEP_KEY = "N"
MAX_WAITING = 32  # requests; further ones are dropped, such as those of a key that is held down
_SPEEDS = (1, 60)  # steps per second
_IDLE = 0.25  # seconds after which the loop looks whether it should end


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a viewer of a window: the selected agent acts, all take one step, or it begins its next episode."""

    kind: Literal["act", "step", "begin"]
    action: int = 0


class Controls:
    """Buttons and keys to step a batch, and the requests that they have left, of which ``wake`` tells.

    Drivers are the names of agents to choose from, the first at first. Continuous actions have no keys; ``num_actions``
    is then 0.
    """

    def __init__(self, server: Any, wake: Event, drivers: Sequence[str], num_actions: int) -> None:
        self._wake = wake
        self._requests: Queue[Request] = Queue(MAX_WAITING)
        self._drivers = tuple(drivers)
        gui = server.gui
        with gui.add_folder("Run", order=0):
            self._play = gui.add_checkbox("Play", initial_value=False, hint=f"Steps all agents (key {PLAY_KEY})")
            self._speed = gui.add_slider("Steps per second", *_SPEEDS, step=1, initial_value=10)
            self._driver = gui.add_dropdown("Driver", self._drivers, initial_value=drivers[0])
            if num_actions:
                gui.add_markdown(
                    "Walk with **I** (forward), **J** and **L** (turn), **K** (STOP). If you have just changed "
                    "something in this panel, click the scene first: its fields take keys themselves."
                )
            else:
                gui.add_markdown("These agents have continuous actions, which keys cannot choose: let the driver walk.")
            step = gui.add_button("Step", hint=f"All agents take one step (key {STEP_KEY})")
            begin = gui.add_button("Next episode", hint="The selected agent begins its next episode")
        step.on_click(lambda _: self._ask(Request("step")))
        begin.on_click(lambda _: self._ask(Request("begin")))
        self._play.on_update(lambda _: wake.set())
        gui.add_command("Play or pause", hotkey=PLAY_KEY).on_trigger(lambda _: self._toggle())
        gui.add_command("Step", hotkey=STEP_KEY).on_trigger(lambda _: self._ask(Request("step")))
        for action in list(Action)[:num_actions]:
            self._add_key(gui, action)

    @property
    def playing(self) -> bool:
        """Whether the batch steps by itself."""
        return bool(self._play.value)

    @property
    def period(self) -> float:
        """Seconds per step while it plays."""
        return 1 / min(max(self._speed.value, _SPEEDS[0]), _SPEEDS[1])  # a client may send any number

    @property
    def driver(self) -> str:
        """The name of the agent that acts: the first one if a client has sent a name that there is not."""
        return self._driver.value if self._driver.value in self._drivers else self._drivers[0]

    def taken(self) -> list[Request]:
        """Return the requests that wait, oldest first, and forget them."""
        found = []
        while True:
            try:
                found.append(self._requests.get_nowait())
            except Empty:
                return found

    def _add_key(self, gui: Any, action: Action) -> None:
        request = Request("act", int(action))
        command = gui.add_command(action.name.replace("_", " ").capitalize(), hotkey=KEYS[action])
        command.on_trigger(lambda _: self._ask(request))

    def _toggle(self) -> None:
        self._play.value = not self._play.value
        self._wake.set()

    def _ask(self, request: Request) -> None:
        """Leave a request, unless too many wait."""
        try:
            self._requests.put_nowait(request)
        except Full:
            return
        self._wake.set()


class Walk:
    """Steps a batch: all agents at once as an agent chooses, or one alone while the others wait.

    The batch is reset; ValueError unless its autoreset mode is NEXT_STEP.
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
        self._take(self._chosen(), np.ones(self.env.num_envs, bool))

    def act(self, index: int, action: int) -> None:
        """Let one agent take an action, or begin its next episode if its last one has ended, while the others wait.

        Agents of shared worlds cannot wait, so then all take a step, as the driver chooses.
        """
        alone = np.arange(self.env.num_envs) == index
        if self.env.worlds is None:
            self._take(np.where(alone, action, 0), alone)
        else:
            self._take(np.where(alone, action, self._chosen()), np.ones_like(alone))

    def begin(self, index: int) -> None:
        """Let one agent, and all that share its world, begin their next episode."""
        size = 1 if self.env.worlds is None else self.env.worlds.num_agents
        together = np.arange(self.env.num_envs) // size == index // size
        self._observation = self.env.reset(options={"reset_mask": together})[0]
        self._ended &= ~together
        self._begun |= together

    def _chosen(self) -> np.ndarray:
        actions = self._agent.act(self.env, self._observation, self._begun)
        self._begun[:] = False
        return actions

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

    Keys move the selected agent by the environment's own actions if these are discrete. All viewers share the controls.
    The autoreset mode is NEXT_STEP. Pictures have ``size`` pixels along their longer side. The server stays open.
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
    if request.kind == "act":
        walk.act(picked, request.action)
    elif request.kind == "begin":
        walk.begin(picked)
    else:
        walk.step()
