"""Measures what a put by REST costs beside one by the protocol: `python docs/scripts/rest_speed.py [--messages N]`.

A daemon of its own with a user; 8 connections that stay, each of which puts 256 bytes and waits for the answer, in
turns by HTTP and by the protocol. What counts is the processor time of the daemon (`/proc/PID/stat`), which a busy
machine leaves as it is. The bound is four times that of the protocol.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from base64 import b64encode
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import broker
from broker.engine.security.passwords import hash_of
from broker.mqi import MQOO, MQPER

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY: Final = b"x" * 256
CONNECTIONS: Final = 8
BOUND: Final = 4.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
PASSWORD: Final = "correct horse"

_CONFIGURATION: Final = """
[queue_manager]
name = "QM1"
data = "{0}/data"
startup = ["{0}/startup.mqsc"]

[listener]
port = 0

[http]
listen = "127.0.0.1:0"
"""

_STARTUP: Final = """
DEFINE USER('root') GROUPS('mqm') PASSWORD('{0}')
DEFINE USER('app') PASSWORD('{0}')
DEFINE QLOCAL(Q) MAXDEPTH(999999999)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT,INQ)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET,BROWSE,INQ)
"""


def processor_seconds(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class RestLine:
    """A line of HTTP that stays, on which one put is awaited after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        credentials = b64encode(f"app:{PASSWORD}".encode()).decode()
        head = (
            "POST /ibmmq/rest/v2/messaging/qmgr/QM1/queue/Q/message HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Basic {credentials}\r\nibm-mq-rest-csrf-token: blank\r\n"
            f"Content-Type: text/plain;charset=utf-8\r\nContent-Length: {len(BODY)}\r\n\r\n"
        )
        self._request = head.encode() + BODY

    async def put(self, messages: int) -> None:
        for _ in range(messages):
            self._writer.write(self._request)
            answer = await self._reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise SystemExit(answer.decode("latin-1"))


async def by_rest(address: str, messages: int) -> None:
    host, _, port = address.rpartition(":")
    lines = [RestLine(*await asyncio.open_connection(host, int(port))) for _ in range(CONNECTIONS)]
    await asyncio.gather(*[line.put(messages // CONNECTIONS) for line in lines])
    for line in lines:
        line._writer.close()


async def by_protocol(address: str, messages: int) -> None:
    async def put() -> None:
        async with (
            broker.connect(f"mq://{address}/QM1", user="app", password=PASSWORD) as connection,
            connection.open("Q", MQOO.OUTPUT) as queue,
        ):
            for _ in range(messages // CONNECTIONS):
                await queue.put(BODY, persistence=MQPER.NOT_PERSISTENT)

    await asyncio.gather(*[put() for _ in range(CONNECTIONS)])


def measured(messages: int, rounds: int) -> tuple[float, float]:
    """Microseconds of the daemon for a put by REST and one by the protocol: medians of the rounds."""
    found: dict[str, list[float]] = {"rest": [], "protocol": []}
    with served_daemon() as (pid, protocol, rest):
        for number in range(rounds + 1):
            for way, put, address in (("rest", by_rest, rest), ("protocol", by_protocol, protocol)):
                before = processor_seconds(pid)
                asyncio.run(put(address, messages))
                if number:  # the first warms up
                    found[way].append((processor_seconds(pid) - before) / messages * 1e6)
    return statistics.median(found["rest"]), statistics.median(found["protocol"])


@contextmanager
def served_daemon(startup: str = "") -> Iterator[tuple[int, str, str]]:
    """Run a daemon that does these commands at its start, besides those here: its process, and its addresses of the
    protocol and of HTTP.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "startup.mqsc").write_text(_STARTUP.format(hash_of(PASSWORD)) + startup)
        configuration = Path(folder, "broker.toml")
        configuration.write_text(_CONFIGURATION.format(folder))
        command = [sys.executable, "-m", "broker", "run", "--config", str(configuration)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
            assert daemon.stderr is not None
            ready = next(line for line in daemon.stderr if "event=ready" in line)
            protocol, http = ready.rpartition(" addresses=")[2].strip().split(",")
            try:
                yield daemon.pid, protocol, http.removeprefix("http://")
            finally:
                daemon.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rest, protocol = measured(arguments.messages, arguments.rounds)
    print(f"a put by REST:         {rest:6.0f} us of the daemon's processor")
    print(f"a put by the protocol: {protocol:6.0f} us")
    print(f"ratio:                 {rest / protocol:6.2f} (at most {BOUND:g})")


if __name__ == "__main__":
    main()
