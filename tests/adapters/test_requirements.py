import gymnasium
import pytest
from gymnasium.vector import AutoresetMode

from gym_batchnav.adapters.requirements import check_batch


def cart_poles(mode):
    keywords = {"vector_kwargs": {"autoreset_mode": mode}, "vectorization_mode": "sync"}
    return gymnasium.make_vec("CartPole-v1", num_envs=2, **keywords)


def test_a_batch_of_the_right_mode_is_taken():
    check_batch(cart_poles(AutoresetMode.SAME_STEP), AutoresetMode.SAME_STEP, "Some library")


def test_another_mode_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"'same_step', this batch has 'next_step': .*autoreset_mode='same_step'"):
        check_batch(cart_poles(AutoresetMode.NEXT_STEP), AutoresetMode.SAME_STEP, "Some library")


def test_the_remedy_names_the_id_that_the_batch_was_made_by():
    with pytest.raises(ValueError, match=r"make_vec\('CartPole-v1'"):
        check_batch(cart_poles(AutoresetMode.NEXT_STEP), AutoresetMode.SAME_STEP, "Some library")


def test_a_single_environment_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"takes a batch, gymnasium.make_vec"):
        check_batch(gymnasium.make("CartPole-v1"), AutoresetMode.DISABLED, "Some library")
