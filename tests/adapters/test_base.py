import gymnasium
import pytest
from gymnasium.vector import AutoresetMode

from gym_batchnav.adapters.base import Adapter
from gym_batchnav.task.components import INFO_KEYS


class SomeEnv(Adapter):
    _library = "Some library"

    def __init__(self, env):
        self._check_batch(env)
        self.env = env


def cart_poles(mode):
    keywords = {"vector_kwargs": {"autoreset_mode": mode}, "vectorization_mode": "sync"}
    return gymnasium.make_vec("CartPole-v1", num_envs=2, **keywords)


def test_a_batch_of_the_right_mode_is_accepted():
    SomeEnv(cart_poles(AutoresetMode.SAME_STEP))


def test_another_mode_raises_an_error_with_the_remedy():
    message = r"Some library needs .*'same_step', but this batch has 'next_step': use SomeEnv\.make\(num_envs="
    with pytest.raises(ValueError, match=message):
        SomeEnv(cart_poles(AutoresetMode.NEXT_STEP))


def test_the_remedy_names_the_id_of_the_batch():
    with pytest.raises(ValueError, match=r"make_vec\('CartPole-v1', num_envs=\.\.\., autoreset_mode='same_step'\)"):
        SomeEnv(cart_poles(AutoresetMode.NEXT_STEP))


def test_a_single_environment_raises_an_error_with_the_remedy():
    message = r"SomeEnv takes a batch, not a .*: use SomeEnv\.make\(num_envs=\.\.\.\) or gymnasium\.make_vec"
    with pytest.raises(ValueError, match=message):
        SomeEnv(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_batch_is_made_in_the_mode_of_the_library(library, mode, tmp_path):
    adapter = type("AnyEnv", (SomeEnv,), {"_mode": mode})
    keywords = {"library": library, "sensors": (), "num_episodes": 5, "episode_order": "once", "cache_dir": tmp_path}
    env = adapter.make(3, **keywords).env
    assert env.num_envs == 3 and env.metadata["autoreset_mode"] == mode
    _, info = env.reset(seed=0)
    measures = set(env.unwrapped.components.step_measures)
    env.close()
    assert {name for name in info if name[0] != "_"} == measures | set(INFO_KEYS) - {"waiting"}


def test_the_mode_cannot_be_chosen():
    with pytest.raises(ValueError, match=r"SomeEnv\.make always .*'same_step': leave out autoreset_mode="):
        SomeEnv.make(2, autoreset_mode="disabled")
