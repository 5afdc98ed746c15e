"""Small logs made by hand."""

import numpy as np

from gym_batchnav.state import agent_state, arrays_of, episode_state, world_state
from gym_batchnav.worlds.log import WorldLog


def make_log(position, num_agents=1, present=None, scene="room", seconds=0.25, **changes):
    """A log of people after its robots, with positions [T + 1, B, 3]."""
    position = np.asarray(position, np.float32)
    rows = position.shape[:2]
    fields = {
        "scene": scene,
        "seconds": seconds,
        "shapes": ("robot",) * num_agents + ("person",) * (rows[1] - num_agents),
        "radius": np.full(rows[1], 0.2),
        "position": position,
        "heading": np.zeros(rows, np.float32),
        "present": np.ones(rows, bool) if present is None else np.asarray(present),
        "actions": np.ones((rows[0] - 1, num_agents), np.int64),
        "state": {
            "agents": arrays_of(agent_state(num_agents)),
            "episodes": arrays_of(episode_state(num_agents)),
            "buffers": {"a.b": np.full((num_agents, 2), np.inf)},
            "worlds": arrays_of(world_state(1, num_agents, rows[1])),
        },
    }
    return WorldLog(**{**fields, **changes})
