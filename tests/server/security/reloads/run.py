"""A daemon whose certificates change under load: new ones, other issuers of the certificates of programs, bad ones.

Behind each change somebody comes who must be shown what is new, or what was there where the new is bad, and somebody
with a certificate of the issuers that count no more, who must not come in.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trustme

from broker.benchmarks.child import child
from broker.benchmarks.daemon import resident_mib
from tests.durability.daemon import daemon
from tests.hostile.verdict import unexplained
from tests.server.security.bad_files import BAD_FILES
from tests.server.security.conftest import LETS_IN_AS_BOB, Files, dial
from tests.server.security.reloads.lines import DEFINITIONS, work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker.benchmarks.child import Told
    from tests.durability.daemon import Daemon

BAD_EVERY: Final = 10
OTHER_ISSUERS_EVERY: Final = 2

_RELOADED: Final = "certificate reloaded serial="
_NOT_RELOADED: Final = "configuration not reloaded: "

Ledger = dict[int, tuple[int, list[tuple[int, int]]]]
"""By line, how many messages it put, and those that it got: of which line, and which of them."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The number of lines, of processes that they are in, and of reloads."""

    lines: int = 1000
    processes: int = 4
    reloads: int = 100


@dataclass(kw_only=True)
class Result:
    """The outcome, with all that is wrong."""

    chosen: Chosen
    wrong: list[str] = field(default_factory=list)
    bad: int = 0
    seconds: float = 0.0
    messages: int = 0
    fewest: int = 0
    longest: float = 0.0
    resident: tuple[float, float] = (0.0, 0.0)

    def __str__(self) -> str:
        chosen = self.chosen
        figures = [
            f"{chosen.lines} lines in {chosen.processes} processes, {chosen.reloads} reloads, {self.bad} of bad files",
            f"{self.messages} messages in {self.seconds:.0f} s, at least {self.fewest} by each line",
            f"longest put, get and commit {self.longest:.2f} s",
            f"memory of the daemon {self.resident[0]:.0f} MiB before, {self.resident[1]:.0f} MiB after",
            f"{len(self.wrong)} wrong",
        ]
        return "\n".join([*figures, *self.wrong[:20]])


class Entry(NamedTuple):
    """The serial number that whoever comes is shown, and a certificate that lets them in."""

    serial: str
    certificate: trustme.LeafCert


class Changes:
    """Changes the files of a daemon, and looks at what comes of that."""

    def __init__(self, files: Files, server: Daemon, port: int) -> None:
        self.bad = 0
        self._files = files
        self._server = server
        self._port = port
        self._entry = Entry("", files.bob)
        self._refused: trustme.LeafCert | None = None

    async def begin(self) -> None:
        """Look at what there is before all changes."""
        self._entry = Entry(await self.shown_to(self._files.bob), self._files.bob)

    async def make(self, number: int) -> list[str]:
        """Make the change of this number, from 0, let the daemon load it, and return what is wrong then."""
        files, before = self._files, self._entry
        files.renew()
        files.trust(trustme.CA() if number % OTHER_ISSUERS_EVERY else files.programs)
        is_bad = number % BAD_EVERY == BAD_EVERY - 1
        if is_bad:
            spoil, _ = BAD_FILES[self.bad % len(BAD_FILES)]
            spoil(files)
            self.bad += 1
        os.kill(self._server.pid, signal.SIGHUP)
        line = await self._server.logged(_RELOADED, _NOT_RELOADED, number=number + 1)
        if not is_bad:
            self._entry = Entry(line.partition(_RELOADED)[2].partition(" ")[0], files.bob)
            if number % OTHER_ISSUERS_EVERY:
                self._refused = before.certificate
        shown = await self.shown_to(self._entry.certificate)
        refused = None if self._refused is None else await self.shown_to(self._refused)
        wrong = [
            (is_bad == (_RELOADED in line), f"the log says {line.strip()!r}"),
            (is_bad == (self._entry.serial != before.serial), "the new certificate is the old one"),
            (shown != self._entry.serial, f"a new line is shown {shown or 'nothing'}, not {self._entry.serial}"),
            (bool(refused), "a certificate of the issuer before was let in"),
        ]
        return [f"change {number}: {complaint}" for is_so, complaint in wrong if is_so]

    async def shown_to(self, certificate: trustme.LeafCert) -> str:
        """The serial number that whoever has this certificate is shown; empty if they do not come in."""
        try:
            line = await dial(self._port, self._files.client(certificate))
            try:
                await line.log_in()
                return line.serial
            finally:
                line.close()
        except (EOFError, ConnectionError, ssl.SSLError):
            return ""


def judge(ledger: Ledger) -> Iterator[str]:
    """Say which messages were lost, and which were got that nobody has put, or more than once."""
    put = Counter((line, number) for line, (count, _) in ledger.items() for number in range(count))
    got = Counter(message for _, messages in ledger.values() for message in messages)
    for line, number in put - got:
        yield f"message {number} of line {line} was lost"
    for (line, number), times in (got - put).items():
        yield f"message {number} of line {line} was got {times + put[line, number]} times, put {put[line, number]}"


async def run(folder: Path, chosen: Chosen) -> Result:
    """Run it, with all files in a folder."""
    result = Result(chosen=chosen)
    files = Files(folder)
    files.write("hosts.pem", files.hosts.cert_pem.bytes())
    files.write("line.pem", files.bob.cert_chain_pems[0].bytes())
    files.write("line.key", files.bob.private_key_pem.bytes())
    async with daemon(folder, LETS_IN_AS_BOB + DEFINITIONS, settings=_settings(files)) as server:
        address = server.url.removeprefix("mq://")
        changes = Changes(files, server, int(address.rpartition(":")[2]))
        reported = await _under_load(folder, f"mqs://{address}", changes, result, server.pid)
        wrong = [complaint for each in reported for complaint in each["lost"]]
        result.wrong += [*wrong, *judge(_ledger(reported)), *unexplained(server.log, (_NOT_RELOADED,))]
    return result


async def _under_load(folder: Path, url: str, changes: Changes, result: Result, pid: int) -> list[Told]:
    """Make all changes while the lines work; what the lines report."""
    chosen = result.chosen
    share = chosen.lines // chosen.processes
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(child(work, url=url, folder=str(folder), first=share * number, count=share))
            for number in range(chosen.processes)
        ]
        for client in clients:
            await client.prepared()
        await changes.begin()
        before, begun = resident_mib(pid), time.monotonic()
        for client in clients:
            await client.go()
        for client in clients:
            await client.prepared()
        for number in range(chosen.reloads):
            result.wrong += await changes.make(number)
        result.resident = before, resident_mib(pid)
        for client in clients:
            await client.go()
        reported = [await client.result() for client in clients]
    result.seconds, result.bad = time.monotonic() - begun, changes.bad
    result.fewest = min(each["fewest"] for each in reported)
    result.longest = max(each["longest"] for each in reported)
    result.messages = sum(count for count, _ in _ledger(reported).values())
    return reported


def _settings(files: Files) -> Mapping[str, str]:
    names = ("host", "port", "certificate", "key", "ca")
    return {f"EVERMQ_TLS_{name.upper()}": str(getattr(files.config, name)) for name in names}


def _ledger(reported: list[Told]) -> Ledger:
    ledger: Ledger = {}
    for each in reported:
        for line, (count, messages) in json.loads(Path(each["ledger"]).read_text("ascii")).items():
            ledger[int(line)] = count, [(whose, which) for whose, which in messages]
    return ledger
