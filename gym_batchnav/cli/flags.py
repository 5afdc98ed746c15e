"""Lists of names in an option, and options in the wrong place."""

from __future__ import annotations

import typer


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
