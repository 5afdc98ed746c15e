"""Who reaches a window."""

import socket
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

pytest.importorskip("viser", reason="needs the extra [view]")

import msgspec
import viser
from viser._messages import ViewerCameraMessage
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Close, Frame, Opcode
from websockets.sync.client import connect
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from gym_batchnav.viz.window import server as server_module
from gym_batchnav.viz.window.gate import PASS
from gym_batchnav.viz.window.server import WindowServer, is_loopback


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.5", False)],
)  # fmt: skip
def test_addresses_of_this_machine_are_told_from_others(host, local):
    assert is_loopback(host) is local


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"host": "example.org"}, "host='example.org'"),
        ({"host": ""}, "host=''"),
        ({"port": 70000}, "port=70000"),
        ({"port": True}, "port=True"),
        ({"host": "0.0.0.0", "token": "short"}, "token="),
        ({"host": "0.0.0.0", "token": "a" * 15 + "; x"}, "token="),
        ({"token": "abcdefghijklmnop"}, "leave the token out"),
    ],
)
def test_wrong_arguments_are_named(keywords, said):
    with pytest.raises(ValueError, match=said):
        WindowServer(**keywords)


def test_a_local_window_shows_a_page_and_is_not_published(capsys):
    server = WindowServer(port=0)
    try:
        assert server.url.startswith("http://127.0.0.1:") and "token" not in server.url
        with urllib.request.urlopen(server.url, timeout=20) as page:
            assert b"<html" in page.read().lower()
        assert server.viser.get_host() == "127.0.0.1"
        assert server.viser.request_share_url() is None
    finally:
        server.close()
        server.close()
    assert capsys.readouterr().out == ""


def watch(address, **headers):
    """Return the first message that a viewer gets."""
    protocol = f"viser-v{viser.__version__}"
    with connect(address, subprotocols=[protocol], additional_headers=headers, proxy=None) as viewer:
        return viewer.recv(timeout=20)


def test_a_local_window_talks_to_its_own_pages_alone():
    server = WindowServer(port=0)
    try:
        port = urllib.parse.urlsplit(server.url).port
        assert watch(f"ws://127.0.0.1:{port}", Origin=server.url)
        assert watch(f"ws://localhost:{port}", Origin=f"http://localhost:{port}")
        assert watch(f"ws://127.0.0.1:{port}")  # no browser
        with pytest.raises(InvalidStatus, match="403"):
            watch(f"ws://127.0.0.1:{port}", Origin="http://elsewhere.example")
    finally:
        server.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_nobody_reaches_viser_around_the_gate(host):
    server = WindowServer(host, 0)
    try:
        address = f"ws://127.0.0.1:{server.viser.get_port()}"
        for headers in ({}, {PASS: "guessed"}):
            with pytest.raises(ConnectionClosed):
                watch(address, **headers)
        assert not server.viser.get_clients()
    finally:
        server.close()


def test_what_a_stranger_sends_at_once_is_not_handled(monkeypatch):
    server = WindowServer(port=0)
    inner = server.viser._websock_server
    handled = []

    async def handle(client, message):
        handled.append(message)

    try:
        monkeypatch.setattr(inner, "_handle_incoming_message", handle)
        port = server.viser.get_port()
        handshake = ClientProtocol(
            parse_uri(f"ws://127.0.0.1:{port}"), subprotocols=[Subprotocol(f"viser-v{viser.__version__}")]
        )
        handshake.send_request(handshake.connect())
        camera = ViewerCameraMessage((1, 0, 0, 0), (0, 0, 0), 1.0, 0.1, 10.0, 8, 8, (0, 0, -1), (0, 1, 0))
        frame = Frame(Opcode.BINARY, msgspec.msgpack.encode(camera.as_serializable_dict()))
        farewell = Frame(Opcode.CLOSE, Close(1000, "").serialize())
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
            stranger.sendall(b"".join([*handshake.data_to_send(), frame.serialize(mask=True)]))
            answer = b""
            while not answer.partition(b"\r\n\r\n")[2]:  # until the frame that ends the connection
                answer += stranger.recv(4096)
            stranger.sendall(farewell.serialize(mask=True))
            while stranger.recv(4096):
                pass
        ended = time.monotonic() + 20
        while inner._live_connections and time.monotonic() < ended:
            time.sleep(0.05)
        assert not inner._live_connections and handled == []
    finally:
        server.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_a_window_on_all_ipv6_addresses_names_one_that_is_served():
    try:
        server = WindowServer("::", 0)
    except ValueError as error:
        pytest.skip(f"no IPv6: {error}")
    try:
        assert server.url.startswith("http://[::1]:")
        with urllib.request.urlopen(server.url.partition("/?")[0] + "/?token=wrong", timeout=20):
            pass
    except urllib.error.HTTPError as error:
        assert error.code == 403
    finally:
        server.close()


def test_the_default_port_gives_way_if_it_is_taken_and_a_chosen_one_is_an_error(monkeypatch):
    first = WindowServer("127.0.0.1", 0)
    try:
        port = urllib.parse.urlsplit(first.url).port
        monkeypatch.setattr(server_module, "PORT", port)
        second = WindowServer("127.0.0.1")
        assert port < urllib.parse.urlsplit(second.url).port < port + 100
        second.close()
        for host in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(ValueError, match=f"port={port} of host='{host}'.*choose another port"):
                WindowServer(host, port)
    finally:
        first.close()


def test_a_window_for_others_needs_its_token():
    server = WindowServer("0.0.0.0", 0)
    try:
        address, _, token = server.url.partition("/?token=")
        assert len(token) >= 32 and server.viser.get_host() == "127.0.0.1"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address, timeout=20)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(server.url, timeout=20) as page:
            assert b"<html" in page.read().lower()
    finally:
        server.close()
