"""The web server of a window: viser, which lets in everybody, behind a gate that does not."""

from __future__ import annotations

import errno
import io
import ipaddress
import re
import secrets
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Any

from gym_batchnav.system.extras import needs_extra

if TYPE_CHECKING:
    from gym_batchnav.viz.window.gate import Gate

LOCAL = "127.0.0.1"
PORT = 8080
_NUM_PORTS = 100  # that are tried for a window on this machine alone
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")


class WindowServer:
    """Serves a window until it is closed.

    On this machine alone, no token is asked for. Browsers reach it as ``localhost`` or 127.0.0.1, and pages of other
    sites do not. A window that others can reach is shown only to those who know its token. The connection is not
    encrypted: on networks that others read, forward the port through SSH instead.

    Args:
        host: ``"127.0.0.1"`` or ``"localhost"`` for this machine alone, or the address of a network interface to
            serve; ``"0.0.0.0"`` serves all.
        port: The port; 0 for any free one. By default the first free one from 8080 on, or 8080 itself for others.
        token: 16 to 128 letters, digits, ``-`` or ``_`` that open a window that others can reach; drawn if not given.

    Attributes:
        viser: The viser server.
        url: The address for a browser, with its token.

    Raises:
        ValueError: An argument is wrong, or the port is taken.
        MissingExtraError: The extra ``[view]`` is not installed.
    """

    def __init__(self, host: str = LOCAL, port: int | None = None, token: str | None = None) -> None:
        is_local = is_loopback(host)
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 2**16):
            raise ValueError(f"port={port!r}: pass a whole number from 0 to 65535")
        if token is not None and not _TOKEN.fullmatch(token):
            raise ValueError("token=...: pass 16 to 128 letters, digits, - or _, or none to have one drawn")
        if token is not None and is_local:
            raise ValueError(f"token=... with host={host!r}: only this machine reaches it; leave the token out")
        with needs_extra("view", "the window"):
            import viser

            from gym_batchnav.viz.window.gate import Gate, has_pass

        class Server(viser.ViserServer):
            def request_share_url(self, verbose: bool = True) -> str | None:
                """Refuse: a viewer's browser could otherwise publish the window through somebody else's server."""
                return None

        gate_pass = secrets.token_urlsafe(24)
        self._gate: Gate | None = None
        with redirect_stdout(io.StringIO()):  # viser prints its own address, which is not that of the gate
            self.viser: Any = Server(LOCAL, 0, label="gym_batchnav", verbose=False)
        _admit_only(self.viser, lambda request: has_pass(request, gate_pass))
        inner = self.viser.get_port()
        try:
            if not is_local:
                token = token or secrets.token_urlsafe(24)
                self._gate = Gate(host, PORT if port is None else port, inner, gate_pass, token)
            elif port is None:
                self._gate = _on_free_port(PORT, lambda free: Gate(LOCAL, free, inner, gate_pass))
            else:
                self._gate = Gate(LOCAL, port, inner, gate_pass)
        except OSError as error:
            self.close()
            wanted = PORT if port is None else port
            raise ValueError(
                f"port={wanted} of host={host!r}: {error.strerror or error}: choose another port"
            ) from error
        name = LOCAL if is_local or host == "0.0.0.0" else host
        name = "::1" if name == "::" else name  # asyncio serves IPv6 alone there
        name = f"[{name}]" if ":" in name else name
        self.url = f"http://{name}:{self._gate.port}" + ("" if is_local else f"/?token={token}")

    def close(self) -> None:
        """Stop serving; idempotent."""
        if self._gate is not None:
            self._gate.close()
        if self.viser is not None:
            with redirect_stdout(io.StringIO()):
                self.viser.stop()
        self._gate = None
        self.viser = None


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address.

    Raises:
        ValueError: It is neither ``"localhost"`` nor an IP address.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise ValueError(f"host={host!r}: pass 'localhost' or an IP address, such as '0.0.0.0' for all") from error


def _on_free_port(port: int, make: Callable[[int], Gate]) -> Gate:
    """Return the gate on the first port from ``port`` on that is not taken.

    Raises:
        OSError: A port cannot be served, or all are taken.
    """
    last = min(port + _NUM_PORTS, 2**16) - 1
    for free in range(port, last):
        try:
            return make(free)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    return make(last)


def _admit_only(server: Any, admits: Callable[[Any], bool]) -> None:
    """Let a viser server talk only to websockets with an admitted request, since any program here may find its port."""
    from websockets.exceptions import ConnectionClosed

    inner = getattr(server, "_websock_server", None)  # viser shows requests nowhere else
    connections = getattr(inner, "_live_connections", None)
    if inner is None or connections is None:
        server.stop()
        raise ValueError('this version of viser cannot keep strangers out: pip install "gym-batchnav[view]"')

    async def check(client: Any) -> None:
        connection = connections[client.client_id]
        if not admits(connection.request):
            await connection.close()
            with suppress(ConnectionClosed):
                while True:  # viser would otherwise handle what was sent before the end
                    await connection.recv()

    inner.on_client_connect(check)  # is called before anything is sent
    inner.disconnect_all_clients()  # that came before
