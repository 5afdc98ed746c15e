"""PointNav: reach a point whose distance and direction are known, and say STOP there."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np

from gym_batchnav.geometry import polar_goals
from gym_batchnav.task import measure
from gym_batchnav.task.state import AgentState, EpisodeState


@dataclass(frozen=True, slots=True, eq=False)
class PointNavMeasures:
    """What a step has come to, one row an environment."""

    distance_to_goal: np.ndarray  # [N] float32, geodesic, metres
    progress: np.ndarray  # [N] float32, metres that the step brought the agent nearer
    path_length: np.ndarray  # [N] float64, metres
    collisions_count: np.ndarray  # [N] int32
    stopped: np.ndarray  # [N] bool
    timed_out: np.ndarray  # [N] bool, the last step allowed is over
    success: np.ndarray  # [N] bool
    spl: np.ndarray  # [N] float64
    soft_spl: np.ndarray  # [N] float64


@dataclass(frozen=True, slots=True)
class PointNav:
    """Habitat's PointNav: the episode ends with STOP, which succeeds within ``success_distance`` of the goal.

    Attributes:
        success_distance: Geodesic metres below which STOP succeeds.
        success_reward: Reward of a success (times SPL if ``spl_reward``).
        step_reward: Reward of every step.
        spl_reward: The paper's last step: ``step_reward + success_reward * SPL``, without the progress made.
    """

    success_distance: float = 0.2
    success_reward: float = 2.5
    step_reward: float = -0.01
    spl_reward: bool = False

    sensor = "pointgoal_with_gps_compass"
    end_measures = ("success", "spl", "soft_spl")  # reported when an episode ends
    step_measures = ("distance_to_goal", "path_length", "collisions_count")  # reported at every step

    @classmethod
    def seed_paper(cls) -> PointNav:
        """The reward of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021)."""
        return cls(spl_reward=True)

    def observation_spaces(self) -> dict[str, gymnasium.Space]:
        """The space of one environment's task sensors, by name."""
        low, high = np.array([0, -np.pi], np.float32), np.array([np.finfo(np.float32).max, np.pi], np.float32)
        return {self.sensor: gymnasium.spaces.Box(low, high, dtype=np.float32)}

    def observe(self, agents: AgentState, episodes: EpisodeState) -> dict[str, np.ndarray]:
        """The task sensors' readings: ``pointgoal_with_gps_compass`` [N, 2] float32, metres and radians."""
        return {self.sensor: polar_goals(agents.position, agents.heading, episodes.goal)}

    def measure(self, episodes: EpisodeState, max_episode_steps: int) -> PointNavMeasures:
        """All measures of the step just taken."""
        succeeded = measure.success(episodes.stopped, episodes.distance, self.success_distance)
        return PointNavMeasures(
            distance_to_goal=episodes.distance,
            progress=_progress(episodes),
            path_length=episodes.path_length,
            collisions_count=episodes.num_collisions,
            stopped=episodes.stopped,
            timed_out=~episodes.stopped & (episodes.num_steps >= max_episode_steps),
            success=succeeded,
            spl=measure.spl(succeeded, episodes.start_distance, episodes.path_length),
            soft_spl=measure.soft_spl(episodes.distance, episodes.start_distance, episodes.path_length),
        )

    def reward(self, measures: PointNavMeasures) -> np.ndarray:
        """Reward [N] float64 of the step."""
        if self.spl_reward:
            last = measures.stopped | measures.timed_out
            return self.step_reward + np.where(last, self.success_reward * measures.spl, measures.progress)
        return self.step_reward + measures.progress + self.success_reward * measures.success

    def ended(self, measures: PointNavMeasures) -> tuple[np.ndarray, np.ndarray]:
        """Whether each episode is terminated [N] and whether it is truncated [N]; never both."""
        return measures.stopped.copy(), measures.timed_out


def _progress(episodes: EpisodeState) -> np.ndarray:
    """Metres [N] that each agent came nearer to its goal; 0 where the goal cannot be reached, as after ``set_pose``."""
    reachable = np.isfinite(episodes.previous_distance) & np.isfinite(episodes.distance)
    return np.subtract(
        episodes.previous_distance, episodes.distance, out=np.zeros_like(episodes.distance), where=reachable
    )
