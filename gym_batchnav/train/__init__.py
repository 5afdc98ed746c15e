"""Agents that learn in the batch: policies, large-batch PPO and imitation (extra ``[train]``, which brings torch)."""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        'torch is not installed, which gym_batchnav.train needs: pip install "gym-batchnav[train]"', name="torch"
    )
