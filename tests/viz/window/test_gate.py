"""The gate lets in who knows the token, or without one who is on this machine, but no page of another site."""

import http.client
import threading

import pytest

pytest.importorskip("viser", reason="needs the extra [view]")

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

from gym_batchnav.viz.window.gate import COOKIE, PASS, Gate

TOKEN = "abcdefghijklmnop"
GATE_PASS = "which the window knows"


@pytest.fixture(scope="module")
def inner():
    """The port of a page and an echo."""

    def page(connection, request):
        if request.headers.get("Upgrade") == "websocket":
            return None if request.headers.get(PASS) == GATE_PASS else connection.respond(403, "who are you?")
        return connection.respond(200, f"page {request.path}")

    def echo(connection):
        for message in connection:
            connection.send(message)

    made = serve(echo, "127.0.0.1", 0, process_request=page, select_subprotocol=lambda connection, offered: "viser-v1")
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.socket.getsockname()[1]
    made.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def gate(inner):
    made = Gate("127.0.0.1", 0, inner, GATE_PASS, TOKEN)
    yield made
    made.close()


@pytest.fixture(scope="module")
def local(inner):
    made = Gate("127.0.0.1", 0, inner, GATE_PASS)
    yield made
    made.close()


def get(gate, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    finally:
        connection.close()


def get_raw(gate, *lines):
    """Return the status of a request with these headers as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=20)
    try:
        connection.putrequest("GET", "/", skip_host=True, skip_accept_encoding=True)
        for line in lines:
            connection.putheader(*line)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=abcdefghijklmnoq", "/index.html?other=1"])
@pytest.mark.parametrize("cookie", [None, f"{COOKIE}=wrong", f"{COOKIE}={TOKEN}x", "other=1", "=;;="])
def test_nothing_is_shown_without_the_token(gate, path, cookie):
    headers = {} if cookie is None else {"Cookie": cookie}
    status, _, body = get(gate, path, **headers)
    assert status == 403 and "page" not in body.split("of this window")[0]


@pytest.mark.parametrize(
    ("path", "cookie", "status"),
    [
        ("/", f'{COOKIE}="\xff\xe9"', 403),
        ("//[", f"{COOKIE}={TOKEN}", 400),
        ("/?" + "a=1&" * 40, f"{COOKIE}={TOKEN}", 400),
    ],
)
def test_strange_requests_get_an_answer(gate, caplog, path, cookie, status):
    assert get(gate, path, Cookie=cookie)[0] == status
    assert not caplog.records  # no traceback


def test_the_token_becomes_a_cookie_that_opens_pages(gate):
    status, headers, _ = get(gate, f"/?token={TOKEN}")
    cookie = headers["Set-Cookie"]
    assert status == 302 and headers["Location"] == "/"
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    status, _, body = get(gate, "/assets/a.js", Cookie="other=1; " + cookie.split(";")[0])
    assert (status, body.strip()) == (200, "page /assets/a.js")


@pytest.mark.parametrize("kind", ["gate", "local"])
def test_messages_pass_in_both_directions(request, kind):
    port = request.getfixturevalue(kind).port
    headers = {"Cookie": f"{COOKIE}={TOKEN}"} if kind == "gate" else {}
    address = f"ws://127.0.0.1:{port}"
    options = {"subprotocols": ["viser-v1"], "origin": f"http://127.0.0.1:{port}", "proxy": None}
    with connect(address, additional_headers=headers, **options) as browser:
        assert browser.subprotocol == "viser-v1"
        for message in ("text", b"bytes" * 1000):
            browser.send(message)
            assert browser.recv(timeout=20) == message


@pytest.mark.parametrize(
    "headers",
    [{}, {"Cookie": f"{COOKIE}=wrong"}, {"Cookie": f"{COOKIE}={TOKEN}", "Origin": "http://elsewhere.example"}],
)
def test_a_websocket_needs_the_cookie_and_the_same_site(gate, headers):
    address = f"ws://127.0.0.1:{gate.port}/?token={TOKEN}"
    with pytest.raises(InvalidStatus) as refusal:
        connect(address, additional_headers=headers, proxy=None)
    assert refusal.value.response.status_code == 403


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "http://localhost:1", "http://127.0.0.1", "null", ""])
def test_other_sites_reach_neither_pages_nor_the_websocket(local, origin):
    assert get(local, "/", Origin=origin)[0] == 403
    with pytest.raises(InvalidStatus) as refusal:
        connect(f"ws://127.0.0.1:{local.port}", additional_headers={"Origin": origin}, proxy=None)
    assert refusal.value.response.status_code == 403


@pytest.mark.parametrize(
    "host",
    ["elsewhere.example", "elsewhere.example:{port}", "localhost.elsewhere.example", "10.0.0.1:{port}", ":1", "["],
)
def test_names_that_were_made_to_lead_here_are_refused(local, host):
    """A browser sends them with pages of a site whose address has been changed to 127.0.0.1."""
    host = host.format(port=local.port)
    assert get_raw(local, ("Host", host)) == 403
    assert get_raw(local, ("Host", host), ("Origin", f"http://{host}")) == 403


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "localhost", "[::1]:9000", "127.0.0.1:9000"])
def test_this_machine_may_forward_the_port(local, host):
    host = host.format(port=local.port)
    assert get_raw(local, ("Host", host)) == 200
    assert get_raw(local, ("Host", host), ("Origin", f"http://{host}")) == 200
    assert get_raw(local, ("Host", host), ("Origin", "http://elsewhere.example")) == 403


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Host", "localhost"), ("Origin", "http://localhost"), ("Origin", "http://elsewhere.example")],
    ],
)
def test_headers_that_are_missing_or_there_twice_are_refused(local, caplog, lines):
    assert get_raw(local, *lines) == 403
    assert not caplog.records


def test_only_pages_of_this_machine_may_frame_a_window(local):
    policy = get(local, "/")[1]["Content-Security-Policy"]
    assert policy.startswith("frame-ancestors 'self'") and "http://localhost:*" in policy


def test_a_port_that_is_taken_is_an_error(gate):
    with pytest.raises(OSError):
        Gate("127.0.0.1", gate.port, 1, GATE_PASS, TOKEN)


def test_closing_twice_is_fine_and_frees_the_port():
    gate = Gate("127.0.0.1", 0, 1, GATE_PASS, TOKEN)
    gate.close()
    gate.close()
    again = Gate("127.0.0.1", gate.port, 1, GATE_PASS, TOKEN)
    again.close()
