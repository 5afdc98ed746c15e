"""Gate: a web server that forwards to a window on this machine what its own viewers ask for, and nothing else."""

from __future__ import annotations

import asyncio
import hmac
import http.client
import ipaddress
import threading
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

COOKIE = "gym_batchnav_window"
PASS = "Gym-Batchnav-Pass"  # the header in which the gate shows its pass to the window
MAX_MESSAGE = 2**24  # bytes that a browser may send at once
_FORWARDED = ("Accept-Encoding", "Accept")
_SECONDS = 10.0  # to wait for the window behind the gate
_KEPT = ("Content-Type", "Content-Encoding")
_FRAMES = "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"  # else clicks could be led astray


class Gate:
    """Forwards pages and the websocket of a window to browsers, except for pages of other sites.

    A browser says which site a request comes from (Origin) and which host it believes to have reached (Host). The
    origin, if there is one, has to be that host. Without a token, the host has to be a name of this machine, because
    other names can be made to lead here. Ports do not have to be that of the gate, so that they can be forwarded.

    With a token, a browser shows it once, in the address. It is then kept in a cookie that scripts cannot read and that
    browsers do not send along with the requests of other sites.

    Args:
        host: The address to serve.
        port: The port; 0 for any free one.
        inner_port: The port of the window on 127.0.0.1.
        gate_pass: The secret with which the window knows this gate from others.
        token: The token; None to ask for none.

    Attributes:
        port: The port that is served.

    Raises:
        OSError: The address cannot be served.
    """

    def __init__(self, host: str, port: int, inner_port: int, gate_pass: str, token: str | None = None) -> None:
        self.port = port
        self._host = host
        self._token = token
        self._pass = gate_pass
        self._inner_port = inner_port
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="window gate", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop serving; idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(timeout=_SECONDS)

    def _run(self) -> None:
        """Serve until ``close``."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        """Serve until the event is set."""
        try:
            server = await serve(
                self._forward, self._host, self.port, process_request=self._answer, compression=None,
                max_size=MAX_MESSAGE, select_subprotocol=_viser_protocol, server_header=None,
            )  # fmt: skip
        except OSError as error:
            self._error = error
            return
        self.port = next(iter(server.sockets)).getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        await server.wait_closed()

    async def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a request for a page; None lets a websocket begin."""
        headers = request.headers
        try:
            parts = urlsplit(request.path)
            shown = parse_qs(parts.query, max_num_fields=16).get("token", [""])[0]
        except ValueError:
            return _response(400, b"This is no address of the window.\n")
        is_socket = "websocket" in [value.lower() for value in headers.get_all("Upgrade")]
        if _is_foreign(headers.get_all("Origin"), headers.get_all("Host")):
            return _response(403, b"This window is not for other sites.\n")
        if self._token is None:
            if not all(map(_is_this_machine, headers.get_all("Host"))):
                return _response(403, b"Open this window as localhost or 127.0.0.1.\n")
        elif _is_same(shown, self._token) and not is_socket:
            cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Lax"
            return _response(302, b"", Headers({"Location": "/", "Set-Cookie": cookie}))
        elif not _is_same(_cookie(request), self._token):
            return _response(403, b"Open the address of this window with its token.\n")
        return None if is_socket else await self._page(parts.path, headers)

    async def _page(self, path: str, headers: Headers) -> Response:
        """Return a page of the window for a request with these headers."""
        forwarded = {name: ", ".join(headers.get_all(name)) for name in _FORWARDED if name in headers}
        try:
            return await asyncio.to_thread(self._fetch, path, forwarded)
        except (OSError, http.client.HTTPException):
            return _response(502, b"The window does not answer.\n")

    def _fetch(self, path: str, headers: dict[str, str]) -> Response:
        """Return a page of the window."""
        inner = http.client.HTTPConnection("127.0.0.1", self._inner_port, timeout=_SECONDS)
        try:
            inner.request("GET", path, headers=headers)
            found = inner.getresponse()
            kept = Headers({name: found.headers[name] for name in _KEPT if name in found.headers})
            return _response(found.status, found.read(), kept)
        finally:
            inner.close()

    async def _forward(self, outer: ServerConnection) -> None:
        """Pass messages on in both directions until one side leaves."""
        protocols = [Subprotocol(outer.subprotocol)] if outer.subprotocol else None
        async with connect(
            f"ws://127.0.0.1:{self._inner_port}", additional_headers={PASS: self._pass}, subprotocols=protocols,
            compression=None, max_size=None, proxy=None,
        ) as inner:  # fmt: skip
            ways = [asyncio.create_task(_pass_on(outer, inner)), asyncio.create_task(_pass_on(inner, outer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


def has_pass(request: Request | None, expected: str) -> bool:
    """Return whether a request to the window shows the pass of its gate."""
    return request is not None and any(_is_same(one, expected) for one in request.headers.get_all(PASS))


def _is_foreign(origins: Sequence[str], hosts: Sequence[str]) -> bool:
    """Return whether a request comes from a page of another site, or does not say which host it wants."""
    return len(hosts) != 1 or any(origin.partition("://")[2] != hosts[0] for origin in origins)


def _is_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine, with any port."""
    before, _, port = host.rpartition(":")
    name = before if port.isdecimal() else host
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _is_same(shown: str, expected: str) -> bool:
    """Return whether two texts are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(shown.encode(errors="replace"), expected.encode())


async def _pass_on(source: ServerConnection | ClientConnection, sink: ServerConnection | ClientConnection) -> None:
    """Pass messages on until a side leaves."""
    try:
        async for message in source:
            await sink.send(message)
    except ConnectionClosed:
        pass


def _viser_protocol(connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Return the protocol that viser's client offers: it names the version, which both sides compare."""
    return next((one for one in offered if one.startswith("viser-v")), None)


def _cookie(request: Request) -> str:
    """Return the token in the cookies of a request, "" if there is none."""
    try:
        cookies = SimpleCookie(", ".join(request.headers.get_all("Cookie")).replace(", ", "; "))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def _response(status: int, body: bytes, headers: Headers | None = None) -> Response:
    """Return a response that is not kept by caches between browser and gate."""
    known = Headers() if headers is None else headers
    known["Content-Length"] = str(len(body))
    known["Cache-Control"] = "private"
    known["Connection"] = "close"
    known["Referrer-Policy"] = "no-referrer"
    known["Content-Security-Policy"] = _FRAMES
    if "Content-Type" not in known:
        known["Content-Type"] = "text/plain; charset=utf-8"
    return Response(status, http.client.responses[status], known, body)
