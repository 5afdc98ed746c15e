"""Agents that learn in the batch: policies, large-batch PPO and imitation (extra ``[train]``, which installs torch)."""

from gym_batchnav.system.extras import needs_extra

with needs_extra("train", "gym_batchnav.train"):
    import torch  # noqa: F401
