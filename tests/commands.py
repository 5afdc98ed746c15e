"""Commands, run in this process as a user types them."""

from typer.testing import CliRunner

from gym_batchnav.cli import app


def run(*arguments, expect=0):
    """Run a command and return its result; fail with the output unless its exit status is as expected."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=bool(expect))
    assert done.exit_code == expect, done.output
    return done


def refusal(*arguments):
    """Return the error of a command, which the program shows in one line."""
    return str(run(*arguments, expect=1).exception)
