"""Tests of vector environments: ``check_vector_env`` checks any ``gymnasium.vector.VectorEnv``."""

from gym_batchnav.testing.check import check_vector_env
from gym_batchnav.testing.rules import CONTRACT, PROMISES, VectorEnvError

__all__ = ["CONTRACT", "PROMISES", "VectorEnvError", "check_vector_env"]
