"""BatchQueries: the properties, lookups and checks of a batch, which change nothing."""

from __future__ import annotations

from gym_batchnav.actions.api import Actions
from gym_batchnav.env.arguments import indices_of
from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.config import EnvConfig
from gym_batchnav.env.protocol_card import ProtocolCard, make_card
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.env.stepper import Stepper
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.state import AgentState, EpisodeState
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.process import Claim
from gym_batchnav.task.api import Task, TaskState
from gym_batchnav.task.components import Components
from gym_batchnav.worlds.worlds import Worlds


class BatchQueries:
    """Properties of a batch, lookups by environment, and checks before its methods run; the base class of BatchNavEnv.

    Attributes:
        num_envs: N.
        config: The keywords.
        simulator: Moves the agents and tracks their episodes.
        cameras: Renders the agents' views.
        components: The task with all sensors and measures.
        stepper: Combines these three into a step.
    """

    num_envs: int
    config: EnvConfig
    simulator: Simulator
    cameras: AgentCameras
    components: Components
    stepper: Stepper
    closed: bool
    _claim: Claim

    @property
    def actions(self) -> Actions:
        """The meaning of the agents' actions: DiscreteActions, VelocityActions, ..."""
        return self.simulator.actions

    @property
    def library(self) -> SceneLibrary:
        """The scenes."""
        return self.simulator.library

    @property
    def renderer(self) -> Renderer:
        """The renderer; see ``renderer.name`` and ``renderer.device``."""
        return self.cameras.renderer

    @property
    def worlds(self) -> Worlds | None:
        """The worlds that agents share with others and with other bodies; None if each agent is alone."""
        return self.simulator.worlds

    @property
    def num_episodes(self) -> int:
        """The number of episodes of all scenes together."""
        return self.simulator.schedule.total

    @property
    def agents(self) -> AgentState:
        """Pose of every agent: read-only views of arrays that are updated in place; NaN before the first reset."""
        return self.task_state.agents

    @property
    def episodes(self) -> EpisodeState:
        """Episode of every environment and its progress: read-only views of arrays that are updated in place."""
        return self.task_state.episodes

    @property
    def task(self) -> Task:
        """The task."""
        return self.components.task

    @property
    def task_state(self) -> TaskState:
        """Read-only view of the state for tasks, sensors and measures."""
        return self.stepper.state

    @property
    def max_episode_steps(self) -> int:
        """The number of actions after which an episode is truncated."""
        return self.stepper.state.max_episode_steps

    @max_episode_steps.setter
    def max_episode_steps(self, steps: int) -> None:
        check_counts(max_episode_steps=steps)
        self.stepper.set_max_episode_steps(steps)

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent since the environment was made, by phase of the step; see PHASES."""
        return self.stepper.timings

    def protocol_card(self) -> ProtocolCard:
        """Return what a result must state to be repeated: settings, checksums, versions, renderer and seeds.

        Print it, or write its ``to_json()`` beside the result.
        """
        return make_card(self.config, self.simulator, self.cameras, self.max_episode_steps)

    def scene_name(self, index: int) -> str:
        """Return the name of the scene that environment ``index`` is in."""
        return self.library.name(self._slot_of(index))

    def episode_name(self, index: int) -> str:
        """Return the name of the episode that environment ``index`` runs, as in its episode file."""
        return self.simulator.episode_set(self._slot_of(index)).ids[int(self.episodes.episode[index])]

    def navmesh_of(self, index: int) -> NavMesh:
        """Return the navmesh of the scene that environment ``index`` is in."""
        return self.simulator.navmesh(self._slot_of(index))

    def _slot_of(self, index: int) -> int:
        """Return the slot of an environment's scene; raise ValueError if there is no such environment."""
        return int(self.agents.slot[indices_of([index], self.num_envs)[0]])

    def check_open(self, method: str) -> None:
        """Raise RuntimeError after ``close()``, in a forked process and in another thread."""
        if self.closed:
            raise RuntimeError(f"{method} after close(): make a new environment")
        self._claim.claim_thread(method)

    def check_idle(self, method: str) -> None:
        """Raise RuntimeError while a step is in flight, and where ``check_open`` does."""
        self.check_open(method)
        if self.stepper.in_flight:
            raise RuntimeError(f"{method} between send() and recv(): call recv() first")

    def check_ready(self, method: str) -> None:
        """Raise RuntimeError before the first reset, and where ``check_idle`` does."""
        self.check_idle(method)
        if not self.simulator.begun.all():
            raise RuntimeError(f"{method} before reset: call reset() first")
