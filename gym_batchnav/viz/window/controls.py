"""The controls of a window that drives a batch: buttons and keys that leave requests for the thread that steps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event
from typing import Any, Literal

from gym_batchnav.state import Action

# Free in viser, whose camera moves with W, A, S, D, Q, E and the arrows.
KEYS = {
    Action.MOVE_FORWARD: "I", Action.TURN_LEFT: "J", Action.TURN_RIGHT: "L", Action.STOP: "K", Action.LOOK_UP: "U",
    Action.LOOK_DOWN: "O",
}  # fmt: skip
PLAY_KEY = "P"
STEP_KEY = "N"
MAX_WAITING = 32  # requests; further ones are dropped, such as those of a key that is held down
_SPEEDS = (1, 60)  # steps per second


@dataclass(frozen=True, slots=True)
class Request:
    """A wish of somebody at a window.

    Attributes:
        kind: ``"act"`` (the picked agent takes an action), ``"step"`` (all take one step) or ``"begin"`` (the picked
            agent begins its next episode).
        action: The action to take.
    """

    kind: Literal["act", "step", "begin"]
    action: int = 0


class Controls:
    """Buttons and keys to step a batch, and the requests that they have left.

    Args:
        server: The viser server to add them to.
        wake: Is set whenever something has been asked for.
        drivers: Names of the agents to choose from; the first is chosen.
        num_actions: The number of discrete actions, each with a key; 0 for continuous ones, which have no keys.
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
            step = gui.add_button("Step", hint=f"All agents take one step (key {STEP_KEY})")
            begin = gui.add_button("Next episode", hint="The picked agent begins its next episode")
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
        """Add the key of an action of the picked agent."""
        request = Request("act", int(action))
        command = gui.add_command(action.name.replace("_", " ").capitalize(), hotkey=KEYS[action])
        command.on_trigger(lambda _: self._ask(request))

    def _toggle(self) -> None:
        """Play, or pause."""
        self._play.value = not self._play.value
        self._wake.set()

    def _ask(self, request: Request) -> None:
        """Leave a request, unless too many wait."""
        try:
            self._requests.put_nowait(request)
        except Full:
            return
        self._wake.set()
