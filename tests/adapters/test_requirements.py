import gymnasium
import pytest
from gymnasium.vector import AutoresetMode

from gym_batchnav.adapters.requirements import check_batch, make_for
from gym_batchnav.task.components import INFO_KEYS


def cart_poles(mode):
    keywords = {"vector_kwargs": {"autoreset_mode": mode}, "vectorization_mode": "sync"}
    return gymnasium.make_vec("CartPole-v1", num_envs=2, **keywords)


def test_a_batch_of_the_right_mode_is_taken():
    check_batch(cart_poles(AutoresetMode.SAME_STEP), AutoresetMode.SAME_STEP, "Some library", "SomeEnv.make")


def test_another_mode_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"'same_step', this batch has 'next_step': .*autoreset_mode='same_step'"):
        check_batch(cart_poles(AutoresetMode.NEXT_STEP), AutoresetMode.SAME_STEP, "Some library", "SomeEnv.make")


def test_the_remedy_names_the_id_that_the_batch_was_made_by():
    with pytest.raises(ValueError, match=r"make_vec\('CartPole-v1'"):
        check_batch(cart_poles(AutoresetMode.NEXT_STEP), AutoresetMode.SAME_STEP, "Some library", "SomeEnv.make")


def test_a_single_environment_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"takes a batch: SomeEnv\.make\(num_envs=\.\.\.\) or gymnasium\.make_vec"):
        check_batch(gymnasium.make("CartPole-v1"), AutoresetMode.DISABLED, "Some library", "SomeEnv.make")


def test_the_remedy_names_the_adapters_own_constructor():
    with pytest.raises(ValueError, match=r"'next_step': SomeEnv\.make\(num_envs=\.\.\.\)"):
        check_batch(cart_poles(AutoresetMode.NEXT_STEP), AutoresetMode.SAME_STEP, "Some library", "SomeEnv.make")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_batch_is_made_in_the_mode_of_the_library(library, mode, tmp_path):
    keywords = {"library": library, "sensors": (), "num_episodes": 5, "episode_order": "once", "cache_dir": tmp_path}
    env = make_for("SomeEnv.make", mode, 3, **keywords)
    assert env.num_envs == 3 and env.metadata["autoreset_mode"] == mode
    check_batch(env, mode, "Some library", "SomeEnv.make")
    _, info = env.reset(seed=0)
    measures = set(env.unwrapped.components.step_measures)
    env.close()
    assert {name for name in info if name[0] != "_"} == measures | set(INFO_KEYS)


def test_the_mode_cannot_be_chosen():
    with pytest.raises(ValueError, match=r"SomeEnv\.make always .*'same_step': leave out autoreset_mode="):
        make_for("SomeEnv.make", AutoresetMode.SAME_STEP, 2, autoreset_mode="disabled")
