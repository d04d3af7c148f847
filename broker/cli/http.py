"""`evermq http`: the HTTP server as a process of its own, for a queue manager at a URL."""

from __future__ import annotations

import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

import anyio
import click

from broker.cli.conversation import run, with_url
from broker.cli.program import CannotRunError, lone
from broker.cli.terminal import logs
from broker.client.address import completed
from broker.clock import Clock
from broker.config import load
from broker.config.kinds import SocketAddress
from broker.server import StartError
from broker.server.http_serving import serve_remote

if TYPE_CHECKING:
    from broker.config import Config

logger = logging.getLogger(__name__)

LISTEN = "127.0.0.1:9480"


@click.command()
@click.option("--listen", metavar="HOST:PORT", default="", help=f"Where to listen; else [http] listen, or {LISTEN}.")
@click.option("--probes", metavar="HOST:PORT", default="", help="The address of the probes; else [http] probes.")
@click.option("--config", "file", metavar="FILE", help="A broker.toml, with [http], [tls], [limits] and [logging].")
@with_url
def http(*, listen: str, probes: str, file: str | None, url: str) -> None:
    """Serve health and figures of a queue manager by HTTP, from a process of its own.

    /livez is about this process, /readyz about its connection. Where /metrics needs users, callers are those of the
    queue manager, by their own passwords and tokens. SIGTERM or Ctrl-C end it.
    """
    config = _config(load(Path(file) if file else None), listen, probes)
    logs.set_up(config.logging)
    try:
        run(lambda: _serve(config, *_urls(url)))
    except* StartError as group:
        error = lone(group)
        raise CannotRunError(str(error)) from error


def _config(config: Config, listen: str, probes: str) -> Config:
    try:
        for each in (listen, probes):
            SocketAddress().check(each, Path())
    except ValueError:
        raise CannotRunError(f"--listen and --probes want {SocketAddress().expected}") from None
    probes = probes or config.http.probes
    listen = listen or config.http.listen or ("" if probes else LISTEN)
    return replace(config, http=replace(config.http, listen=listen, probes=probes))


def _urls(url: str) -> tuple[str, str]:
    """Return the URL by which the server connects, and the one for its callers, who bring what proves them: without
    the user and the certificate of the server, which would make them that user.
    """
    certificate, key = os.environ.pop("EVERMQ_CERT", ""), os.environ.pop("EVERMQ_KEY", "")
    head, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    if certificate and url.startswith("mqs://") and "cert" not in options:
        url = completed(url, cert=certificate, key=key)
    scheme, _, place = head.partition("://")
    if scheme != "mq+unix":
        place = place.rpartition("@")[2]
    kept = urlencode({name: value for name, value in options.items() if name not in ("cert", "key")}, safe="/")
    return url, f"{scheme}://{place}{'?' if kept else ''}{kept}"


async def _serve(config: Config, url: str, callers_url: str) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with serve_remote(config, Clock(), url, callers_url) as addresses:
            line = f"evermq http ready on {', '.join(addresses)}"
            logger.info("%s", line, extra={"event": "ready", "addresses": addresses})
            if not logger.isEnabledFor(logging.INFO):
                print(line, file=sys.stderr, flush=True)
            await anext(signals)
