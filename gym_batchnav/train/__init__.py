"""Agents that learn in the batch: policies, large-batch PPO and imitation (extra ``[train]``, which brings torch)."""
