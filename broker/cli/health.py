"""`evermq health`: whether a queue manager is alive, or ready, for those who run containers.

It loads a socket and nothing else: whoever asks every few seconds pays for it each time.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from broker.cli.program import COULD_NOT_RUN, CannotRunError
from broker.cli.terminal.terminal import say, warn_lines

if TYPE_CHECKING:
    from broker.config import Config

TIMEOUT_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 64 * 1024

_OK: Final = 200
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_PLACE: Final = re.compile(r"(?P<host>\[[\da-fA-F:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?")
_PORTS: Final = {"http": 80, "https": 443, "mq": 1414}

HELLO: Final = bytes.fromhex("0000001598010000a6457665724d510101cd7530ce06900000")
"""The first frame of a client, as `tests/wire/golden.txt` has it."""
_WELCOME: Final = 2
_VERB_AT: Final = 5

_HELP_URL: Final = "What to ask: http://HOST:PORT, https://, mq:// or mq+unix:///PATH. Else the configuration says it."


class ProbeTarget(NamedTuple):
    """A socket at which to ask, and how: by `http`, `https` or `mq`. With a `path` it is a Unix socket."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


@click.command()
@click.option("--live/--ready", "live", default=True, help="Ask if it is alive (the default), or if it is ready.")
@click.option("--config", "file", metavar="FILE", help="The configuration of the daemon. Without it: the defaults.")
@click.option("--url", metavar="URL", default="", help=_HELP_URL)
def health(*, live: bool, file: str | None, url: str) -> int:
    """Tell if a queue manager is alive, or ready: exit code 0, or 20 with the checks that fail on standard error.

    It asks [http] probes, else listen, and needs no user. Without them --live asks the Unix socket, or the port.
    """
    target = _target_of_url(url) if url else _target_of_config(file)
    if target.scheme == "mq" and not live:
        raise CannotRunError(
            '--ready is asked by HTTP, which is not served: write probes = "127.0.0.1:9481" below [http]'
        )
    try:
        failing = _greet(target) if target.scheme == "mq" else _get(target, "/livez" if live else "/readyz")
    except OSError as error:
        failing = f"no answer from {target}: {error.strerror or error or type(error).__name__}"
    if failing:
        warn_lines(failing)
        return COULD_NOT_RUN
    say("ok")
    return 0


# Whom to ask


def _target_of_url(url: str) -> ProbeTarget:
    scheme, _, rest = url.partition("://")
    if scheme == "mq+unix" and rest.startswith("/"):
        return ProbeTarget("mq", path=rest.partition("?")[0])
    found = _PLACE.fullmatch(rest.partition("/")[0])
    if scheme not in _PORTS or found is None:
        raise CannotRunError("--url is none of http://HOST:PORT, https://HOST:PORT, mq://HOST:PORT, mq+unix:///PATH")
    return ProbeTarget(scheme, found["host"].strip("[]"), int(found["port"] or _PORTS[scheme]))


def _target_of_config(file: str | None) -> ProbeTarget:
    from broker.config import load
    from broker.config.kinds import host_and_port

    config = load(Path(file) if file else None)
    http = config.http
    address = http.probes or http.listen
    if not address:
        return _target_of_listener(config)
    host, port = host_and_port(address)
    if not port:
        raise CannotRunError(f'[http] has "{address}", a port that is not known: name one')
    return ProbeTarget("https" if http.tls and not http.probes else "http", _EVERYWHERE.get(host, host), port)


def _target_of_listener(config: Config) -> ProbeTarget:
    listener = config.listener
    if listener.unix is not None:
        return ProbeTarget("mq", path=str(listener.unix))
    return ProbeTarget("mq", listener.host, listener.port)


# Ask


def _connected(target: ProbeTarget) -> socket.socket:
    if not target.path:
        return socket.create_connection((target.host, target.port), TIMEOUT_SECONDS)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(TIMEOUT_SECONDS)
        connected.connect(target.path)
    except BaseException:
        connected.close()
        raise
    return connected


def _get(target: ProbeTarget, path: str) -> str:
    """Ask by HTTP: the checks that fail, a line each, or nothing. Raises OSError."""
    with _connected(target) as plain, _with_tls(plain, target) as line:
        host = f"[{target.host}]" if ":" in target.host else target.host
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{target.port}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while len(answer) < ANSWER_BYTES_MAX and (more := line.recv(ANSWER_BYTES_MAX)):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    version, _, status = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    if not version.startswith("HTTP/") or not status[:3].isdecimal():
        return f"{target} does not answer as a queue manager does"
    text = body.decode("utf-8", "replace").strip()
    return "" if int(status[:3]) == _OK else text or f"{target} answers {status}"


def _with_tls(line: socket.socket, target: ProbeTarget) -> socket.socket:
    """The line itself, or with TLS. Whose certificate it is does not matter: nothing is told to it."""
    if target.scheme != "https":
        return line
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(line)


def _greet(target: ProbeTarget) -> str:
    """Say HELLO: a queue manager that lives answers WELCOME. Raises OSError."""
    with _connected(target) as line:
        line.sendall(HELLO)
        answer = b""
        while len(answer) <= _VERB_AT and (more := line.recv(ANSWER_BYTES_MAX)):
            answer += more
    welcome = len(answer) > _VERB_AT and answer[_VERB_AT] == _WELCOME
    return "" if welcome else f"{target} does not answer as a queue manager does"
