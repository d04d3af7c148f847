"""An attack on a daemon of its own, and the verdict."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import anyio

from broker.benchmarks.child import child
from tests.durability.daemon import daemon
from tests.hostile.bystander import BYSTANDER_DEFINITIONS, stand_by
from tests.hostile.scene import watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.durability.daemon import Daemon
    from tests.hostile.scene import Attack, Seen

_MEMORY: Final = Path("/dev/shm")
_STOP_SECONDS: Final = 30.0
_BODY_BYTES: Final = "16777216"  # the default, which the tests of durability lower

_RECORD: Final = re.compile(r"time=\S+ level=(?P<level>[A-Z]+) ")
"""The beginning of a line of the log; what Python itself writes has another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on an attack: what was seen, and its `faults`; there are none when it has come to nothing."""

    seen: Seen
    faults: tuple[str, ...]


async def judged(attack: Attack, folder: Path) -> Verdict:
    """The verdict on what a daemon with its files in `folder` makes of `attack`. Its data are in memory where there is
    such a folder: that others keep the disk busy is nothing that it could do anything about.
    """
    settings = {"EVERMQ_LIMITS_BODY_BYTES": _BODY_BYTES, **attack.settings}
    definitions = BYSTANDER_DEFINITIONS + attack.definitions
    with TemporaryDirectory(prefix="evermq-hostile-", dir=_MEMORY if _MEMORY.is_dir() else folder) as data:
        async with (
            child(stand_by) as bystander,
            daemon(folder, definitions, Path(data) / "data", settings) as server,
        ):
            seen = await watched(attack, server.url, server.pid, bystander)
            ended = await faults_of_stop(server)
    return Verdict(seen=seen, faults=(*_beyond(attack, seen), *seen.complaints, *ended, *_logged(attack, server.log)))


def _beyond(attack: Attack, seen: Seen) -> Iterator[str]:
    if seen.worst_ms > attack.worst_ms:
        yield f"{seen.worst} of the bystander took {seen.worst_ms:.0f} ms, the limit is {attack.worst_ms:.0f}"
    if seen.peak_mib > attack.peak_mib:
        yield f"the daemon's memory came to {seen.peak_mib:.0f} MiB, the limit is {attack.peak_mib:.0f}"


async def faults_of_stop(server: Daemon) -> list[str]:
    """Stop the daemon. Return the way it ended, nothing where that was in order."""
    with suppress(ProcessLookupError):
        server.terminate()
    with anyio.move_on_after(_STOP_SECONDS):
        code = await server.ended()
        return [f"it has ended with {code}"] if code else []
    await server.end()
    return [f"it did not stop within {_STOP_SECONDS:g} s"]


def _logged(attack: Attack, log: list[str]) -> Iterator[str]:
    for record in unexplained(log, attack.errors):
        yield f"in its log: {record.strip()}"
    for pattern in attack.logs:
        if not re.search(pattern, "".join(log)):
            yield f"its log does not say {pattern!r}"


def unexplained(log: list[str], errors: tuple[str, ...]) -> Iterator[str]:
    """The errors and tracebacks in a log that none of these patterns is found in."""
    for record in _records(log):
        head = _RECORD.match(record)
        bad = head is None or head["level"] in ("ERROR", "CRITICAL") or "Traceback (" in record
        if bad and not any(re.search(pattern, record) for pattern in errors):
            yield record


def _records(log: list[str]) -> Iterator[str]:
    """The records of a log, each with its traceback."""
    record = ""
    for line in log:
        if record and _RECORD.match(line):
            yield record
            record = ""
        record += line
    if record:
        yield record
