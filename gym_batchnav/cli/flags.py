"""Options as keywords: lists of names, and errors that name keywords in the spelling of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer


@contextmanager
def errors_with_flags(*names: str, **renamed: str) -> Iterator[None]:
    """Write keywords as options in the errors of a block; see ``with_flags``.

    Args:
        names: The keywords whose options have the same name.
        renamed: The other keywords, each with the name of its option.
    """
    try:
        yield
    except (ValueError, OSError, RuntimeError) as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (with_flags(error.args[0], {**dict(zip(names, names, strict=True)), **renamed}),)
        raise


def refuse_options(context: typer.Context) -> None:
    """Raise ValueError if options were given before a sub-command, which does not see them."""
    sources = {one.opts[0]: context.get_parameter_source(one.name or "") for one in context.command.params}
    given = [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise ValueError(
            f"{', '.join(given)} before {context.invoked_subcommand!r} has no effect: leave it out, or write it after "
            f"{context.invoked_subcommand!r} if that has such an option"
        )


def listed(text: str) -> tuple[str, ...]:
    """Return the names in a list that commas separate."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def with_flags(message: str, options: Mapping[str, str]) -> str:
    """Return a message in which ``out=`` is ``--out``, ``num_envs=3`` is ``--num-envs 3``, and ``resume=True`` a flag.

    Args:
        message: The message.
        options: The names of options, by keyword.
    """

    def flag(match: re.Match[str]) -> str:
        option = f"--{options[match['keyword']].replace('_', '-')}"
        return option if match["value"] is None else f"{option} "

    keywords = "|".join(map(re.escape, options))
    value = r"(?P<value>(?=[\w'\"(\[-]))"
    return re.sub(rf"(?<![\w.-])(?P<keyword>{keywords})=(?:True\b|{value})?", flag, message)
