"""The web server of a window: viser, which only this machine reaches, for its own pages alone."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from gym_batchnav.system.extras import needs_extra

LOCAL = "127.0.0.1"
PORT = 8080
# Browsers name the site of the page that opens a websocket. Ports differ where they are forwarded; programs name none.
_OWN_PAGES = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")


class WindowServer:
    """Serves a window to this machine until it is closed; forward its port through SSH to look from another one.

    Pages of other sites in a browser on this machine are refused. Port 0 is any free one; the default is the first free
    one from 8080 on.

    Raises:
        ValueError: The argument is wrong, or the port is taken.
        MissingExtraError: The extra ``[view]`` is not installed.
    """

    def __init__(self, port: int | None = None) -> None:
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 2**16):
            raise ValueError(f"port={port!r}: pass a whole number from 0 to 65535")
        with needs_extra("view", "the window"):
            import viser

        with _own_pages_only(), redirect_stdout(io.StringIO()):  # viser prints its address
            self.viser: Any = viser.ViserServer(
                LOCAL, PORT if port is None else port, label="gym_batchnav", verbose=False
            )
        found = self.viser.get_port()
        self.url = f"http://{LOCAL}:{found}"
        if port and found != port:
            self.close()
            raise ValueError(f"port={port} is taken: choose another port")

    def close(self) -> None:
        """Stop serving; idempotent."""
        if self.viser is not None:
            with redirect_stdout(io.StringIO()):
                self.viser.stop()
        self.viser = None


@contextmanager
def _own_pages_only() -> Iterator[None]:
    """Let viser, which has no option for it, serve websockets to pages of this machine; RuntimeError if it cannot."""
    from websockets.asyncio import server

    serve = server.serve
    calls = []

    @functools.wraps(serve)
    def serve_own_pages(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return serve(*args, **{**options, "origins": [None, _OWN_PAGES]})

    server.serve = serve_own_pages  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        server.serve = serve  # type: ignore[misc]
    if not calls:
        raise RuntimeError(
            'this version of viser would let pages of other sites connect: pip install "gym-batchnav[view]"'
        )
