"""Keywords in errors, written as the options of a command."""

import pytest

from gym_batchnav.cli.flags import errors_with_flags, with_flags

OPTIONS = {"out": "out", "num_envs": "num_envs", "resume": "resume", "policy_file": "policy"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("pass another out=", "pass another --out"),
        ("pass another out=, or none", "pass another --out, or none"),
        ("a run with num_envs=32, not 16", "a run with --num-envs 32, not 16"),
        ("resume it with resume=True", "resume it with --resume"),
        ("policy_file='a b.st': it is damaged", "--policy 'a b.st': it is damaged"),
        ("other settings than policy_file=: see there", "other settings than --policy: see there"),
        ("ppo.out=3 and about=2 and the others out", "ppo.out=3 and about=2 and the others out"),
    ],
)
def test_keywords_become_options(message, expected):
    assert with_flags(message, OPTIONS) == expected


@pytest.mark.parametrize("kind", [ValueError, FileExistsError, RuntimeError])
def test_errors_keep_their_type(kind):
    with pytest.raises(kind, match=r"^'x' contains a run: pass another --folder$"), errors_with_flags(out="folder"):
        raise kind("'x' contains a run: pass another out=")


def test_errors_of_the_system_are_left_alone():
    with pytest.raises(FileNotFoundError) as error, errors_with_flags("out"):
        raise FileNotFoundError(2, "No such file or directory", "out=")
    assert error.value.errno == 2 and error.value.filename == "out="
