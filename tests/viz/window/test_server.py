"""Access to a window: its own pages on this machine alone."""

import urllib.parse
import urllib.request

import pytest

pytest.importorskip("viser", reason="needs the extra [view]")

import viser
from websockets.asyncio import server as websockets_server
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gym_batchnav.viz.window import server as server_module
from gym_batchnav.viz.window.server import WindowServer


@pytest.fixture(scope="module")
def server():
    made = WindowServer(port=0)
    yield made
    made.close()
    made.close()


@pytest.mark.parametrize("port", [70000, True, "8080"])
def test_wrong_ports_are_named(port):
    with pytest.raises(ValueError, match=f"port={port!r}"):
        WindowServer(port)


def test_it_serves_a_page_to_this_machine_alone(server):
    assert server.url.startswith("http://127.0.0.1:") and server.viser.get_host() == "127.0.0.1"
    with urllib.request.urlopen(server.url, timeout=20) as page:
        assert b"<html" in page.read().lower()


def watch(address, origin):
    """Return the first message that a viewer gets, whose page is of the site ``origin``."""
    with connect(address, origin=origin, subprotocols=[f"viser-v{viser.__version__}"], proxy=None) as viewer:
        return viewer.recv(timeout=20)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:9000", "http://localhost", "http://[::1]:80", None])
def test_its_own_pages_are_answered_whatever_port_is_forwarded(server, origin):
    assert watch(server.url.replace("http", "ws"), origin)


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "http://localhost.example:8080", "null"])
def test_pages_of_other_sites_are_refused(server, origin):
    with pytest.raises(InvalidStatus, match="403"):
        watch(server.url.replace("http", "ws"), origin)


def test_a_viser_whose_pages_cannot_be_told_apart_is_refused(monkeypatch):
    monkeypatch.setattr(viser, "ViserServer", lambda *args, **options: object())
    with pytest.raises(RuntimeError, match="let pages of other sites connect"):
        WindowServer(port=0)
    assert websockets_server.serve.__module__ == "websockets.asyncio.server"


def test_the_default_port_gives_way_if_it_is_taken_and_a_chosen_one_is_an_error(server, monkeypatch, capsys):
    port = urllib.parse.urlsplit(server.url).port
    monkeypatch.setattr(server_module, "PORT", port)
    second = WindowServer()
    assert urllib.parse.urlsplit(second.url).port > port
    second.close()
    with pytest.raises(ValueError, match=f"port={port} is taken: choose another port"):
        WindowServer(port)
    assert capsys.readouterr().out == ""
