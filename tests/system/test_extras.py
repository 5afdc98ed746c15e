import pytest

from gym_batchnav.system.extras import MissingExtraError, needs_extra


def test_a_missing_package_is_named_with_what_needs_it_and_what_to_install():
    remedy = r"^a figure needs the extra \[viz\] \(No module named 'no_such'\): pip install \"gym-batchnav\[viz\]\"$"
    with pytest.raises(MissingExtraError, match=remedy) as caught, needs_extra("viz", "a figure"):
        import no_such  # noqa: F401
    assert caught.value.name == "no_such"


def test_what_an_inner_part_needs_is_told_once():
    with pytest.raises(MissingExtraError, match=r"^the inner needs"), needs_extra("viz", "the outer"):
        with needs_extra("train", "the inner"):
            import no_such  # noqa: F401


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), needs_extra("viz", "a figure"):
        _ = 1 / 0
