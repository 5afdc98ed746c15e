"""A checker for vector environments: anybody's ``gymnasium.vector.VectorEnv``, not only ours."""

from gym_batchnav.testing.check import check_vector_env
from gym_batchnav.testing.report import CONTRACT, PROMISES, VectorEnvError

__all__ = ["CONTRACT", "PROMISES", "VectorEnvError", "check_vector_env"]
