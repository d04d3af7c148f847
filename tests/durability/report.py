"""The page `docs/explanation/durability.md`: what is promised, and how a run of this suite ended."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.durability.cuts import Cuts
from tests.durability.daemon import COULD_NOT_RUN
from tests.durability.faults import Faults

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from tests.durability.kills import Kills
    from tests.durability.ledger import Figures
    from tests.durability.outcome import Outcome
    from tests.simulation import Figures as SimulationFigures

_HEAD: Final = """\
# Durability

The promises, and the outcome of a run that tries to break them. This page is written by that run:

```sh
{command}
```

It was run on {date}, took {minutes} minutes, and found nothing lost, doubled, changed or out of its order. A run that
finds anything else fails, names the seed, and writes no page.

## What is promised

The tests cite these as "invariant 1" and so on.

1. **Acknowledged changes survive.** When a put or a get outside syncpoint, or a commit, of persistent messages has
   returned, its outcome is on the disk (synced, not only written) and survives `kill -9` and a power failure at any
   instant. A change that was not acknowledged is wholly there or wholly absent.
2. **A message is committed to one getter.** A backout returns it to its own place on the queue and raises BackoutCount;
   on a queue with HARDENBO, so does a crash while the message is in a program's hands.
3. **A unit of work is all or nothing**, over all its queues, over a crash, on a full disk.
4. **Under syncpoint, a line that breaks and a call that is cancelled lose and double nothing.** A get outside syncpoint
   is delivered at most once: if the line breaks when its removal is on the disk and its answer on the way, the message
   is gone. Programs that cannot have that get under syncpoint.
5. **Nobody sees what is not on the disk.** No get, browse, trigger or report shows a message before its unit of work is
   durable, so nothing that was seen is ever undone.

- A **full disk** refuses persistent puts with MQRC_STORAGE_MEDIUM_FULL (2192), and a commit that holds one with
  MQRC_BACKED_OUT (2003). Nonpersistent messages go through, and so do gets, with room that is kept back for them.
  Persistent puts do again when there is room.
- Any **other error of the disk** has an outcome that nobody can know: a failed sync may or may not have written. The
  queue manager then answers nothing, breaks all connections with MQRC_CONNECTION_BROKEN (2009), and `evermq run` ends
  with exit code 20 and a line that names the error. The next start believes no cache: it reads what the disk has,
  writes that anew, and then goes on.
- Data **damaged at rest** is reported: by the start, which then refuses, or by the get of the message, which stays
  where it is. It is not handed out, and nothing is left out without a word.

Not promised:

- Nonpersistent messages, which a crash loses.
- Messages on a disk that says it has synced and has not.
- That damage can be undone: what is lost is named, and a backup has it.
- To tell one kind of damage. After a crash, a log whose last records are damaged, with nothing valid behind them, looks
  like one whose last record was being written. So damage to what was written last may take it along: to the records of
  the last second under load, and to none after a tenth of a second without a batch, nor after an orderly stop.
- Anything on file systems whose locks and syncs are not those of a local disk (NFS, SMB, FUSE, 9p, Ceph), that are gone
  with the machine or the container (tmpfs, overlay), or that copy what is written (btrfs, ZFS, bcachefs, thin volumes),
  where preallocated files may find no room. A start on one of them says so.

## The rules of the journal

The code keeps these so that this holds; it cites them as "journal rule 5". They stand in full, for whoever changes
the journal, at the head of `broker/engine/journal/journal.py`.

### Journal rule 1: durable, then visible

A persistent call outside syncpoint is a unit of work of its own. Until the transaction of a unit is on the disk nobody
gets, browses or is told of anything in it, its nonpersistent messages included. Then all of it takes effect at once.

### Journal rule 2: a unit of work is one transaction

A transaction may hold many units, and each of them whole.

### Journal rule 3: first in, first out

There is one journal. Units settle in the order in which they came, the calls of a connection in the order in which it
made them: one about a nonpersistent message waits for the persistent ones before it.

### Journal rule 4: answered when durable

A put, a commit and a get outside syncpoint are answered when they are on the disk, a get under syncpoint at once.

### Journal rule 5: a put that meets a waiting get needs no write

Both outside syncpoint, and nothing else of the queue or of either connection on its way to the disk: the message goes
from hand to hand. If the getter has gone, it is put after all before the put is answered.

### Journal rule 6: a full disk changes nothing

Units that only remove go through, also after a start on the full disk: the log has its room already, and a ballast is
kept back for the snapshot. Those that put are undone, and with them the later unsettled calls of their connections:
2192, or 2003 for a commit. Puts are accepted again when there is room for them and for the ballast.

### Journal rule 7: after any other failure the outcome is unknown

So after one of a checkpoint, too. Nothing definite is answered: connections break (2009), the queue manager stops and
leaves all files as they are. The next start does not believe what the system still has in memory of them: it reads the
disk, writes what it recovers anew, syncs that, and only then acknowledges anything.

### Journal rule 8: backouts are counted durably

BackoutCount is on the disk before a message that was backed out is seen again. On a queue with HARDENBO it is also on
the disk that a message is in a program's hands before that program has it, so that a crash counts as a backout. A
handler has its message before that is on the disk: a crash within the first 10 ms may count nothing.

### Journal rule 9: an expired message and the report on it go in one transaction

Outside any unit of work. Trigger type FIRST counts a message when it is put; a unit that failed was backed out.

### Journal rule 10: bodies leave memory after they are on the disk

They are read back before the message is removed. Numbers of arrival and identifiers never repeat, whatever was removed.

### Journal rule 11: what a call whose answer was lost has done

Under syncpoint, nothing that a backout does not undo. A get outside syncpoint may have removed its message, if the line
broke after that was on the disk; if its answer is known not to have arrived, the message is put back.

### Journal rule 12: a cancelled call decides nothing

A unit that was handed to the journal is written and settled, whoever waits for it or no longer does.

### Journal rule 13: what is damaged is told

Every record of the log, every message and every body has a check. A bad record ends the log only where nothing valid
comes after it; else, and where a file is missing, foreign or older than another says it must be, the queue manager
refuses to start and says what would be lost. No byte that was changed on the disk is handed to a program: the get of
such a message fails, and the message stays.

### Journal rule 14: the log is reused in order

Before a byte of a log file is written again, what the file still holds is in the snapshot, synced, together with the
number up to which the log is obsolete.
"""


@dataclass
class Results:
    """The results of a run."""

    command: str
    kills: Kills
    cuts: Cuts = field(default_factory=Cuts)
    faults: Faults = field(default_factory=Faults)
    outcomes: list[Outcome] = field(default_factory=list)
    not_run: list[Outcome] = field(default_factory=list)
    simulation: SimulationFigures | None = None
    schedules: dict[str, int] = field(default_factory=dict)


def page(results: Results, date: datetime, seconds: float) -> str:
    """The page, in Markdown."""
    head = _HEAD.format(command=results.command, date=f"{date:%Y-%m-%d}", minutes=f"{seconds / 60:.1f}")
    parts = [
        head, _killed(results.kills), _cut(results.cuts), _failed(results.faults), _faults(results),
        _simulated(results), _scheduled(results), _machine(),
    ]  # fmt: skip
    return "\n".join(parts)


def _killed(kills: Kills) -> str:
    rows = {
        "kills": sum(kills.moments.values()),
        **{f"- {moment.value}": count for moment, count in sorted(kills.moments.items(), key=lambda each: -each[1])},
        "seeds": f"{kills.seeds[0]} to {kills.seeds[-1]}",
        "client connections": kills.connections,
        **_passed(kills.figures, "kill"),
    }
    return (
        "## Killed under load\n\n"
        "A daemon process is killed with SIGKILL at moments that a seed chooses, while six client programs put\n"
        "and get over TCP: in and outside syncpoint, in units of work over two queues, pipelined and many in one\n"
        "call, with backouts, waits and `async for`. In every second seed the wall clock is up to a day off, by\n"
        "another time at each start. After each restart every message on every queue is compared with what the\n"
        "programs were told.\n\n" + _table(("", ""), rows.items())
    )


def _passed(figures: Figures, end: str) -> dict[str, int]:
    """The calls that passed between programs and daemons that ended by a kill, or a power cut."""
    return {
        "puts acknowledged": figures.puts_acknowledged,
        "gets acknowledged": figures.gets_acknowledged,
        "units of work and single calls done": figures.units_done,
        "units of work backed out by their programs": figures.units_backed_out,
        f"units of work cut short by a {end}, none of which left a trace": figures.units_cut_short,
        "calls and commits of unknown outcome": figures.unknown_done + figures.unknown_undone,
        "- found done, as a whole": figures.unknown_done,
        "- found not done, as a whole": figures.unknown_undone,
        "gets outside syncpoint that took their message along": figures.lost_unseen,
        "audits of every message on every queue": figures.reconciliations,
    }


def _cut(cuts: Cuts) -> str:
    text = (
        "## Power cut\n\n"
        "The data directory is on an ext4 file system in a file, which is shut down at once, so that nothing\n"
        "that was written and not synced reaches it any more, but for pages that the seed has written back; then the\n"
        "daemon is killed, the file system mounted again, which replays its journal, and a daemon started. The moment\n"
        "is a random one, or a system call that changes a file, before it, after it, or when a part of a write is\n"
        "done. The load is that of the kills; log files of 256 KiB to 16 MiB; the system has started anew, or so it\n"
        "tells the daemon, three times in four. A cache of the device itself is not cut.\n\n"
        "The control is a daemon that syncs nothing: below, among the faults.\n\n"
    )
    if not cuts.seeds:
        return text + "Not part of this run.\n"
    rows = {
        "power cuts": cuts.moments.total(),
        **{f"- {moment.value}": count for moment, count in cuts.moments.most_common()},
        "seeds": f"{cuts.seeds[0]} to {cuts.seeds[-1]}",
        "client connections": cuts.connections,
        **_passed(cuts.figures, "cut"),
    }
    return text + _table(("", ""), rows.items()) + "\nThe system calls:\n\n" + _calls(cuts.points)


def _failed(faults: Faults) -> str:
    text = (
        "## A device that fails once\n\n"
        "The device takes nothing while one system call is made, of a seed's choice, under load or during a start,\n"
        "and is well again. The call fails, or what it wrote is gone when the cache goes, as the kernel has it.\n"
        "After a restart programs put and get on, then the power is cut in every second case, and all is compared.\n\n"
    )
    if not faults.seeds:
        return text + "Not part of this run.\n"
    rows = {
        "faults": faults.points.total(),
        f"daemons that ended by them, with code {COULD_NOT_RUN}": faults.ended,
        "power cuts afterwards": faults.cuts,
        "seeds": f"{faults.seeds[0]} to {faults.seeds[-1]}",
        **_passed(faults.figures, "cut, a kill or a failure"),
    }
    return text + _table(("", ""), rows.items()) + "\nThe system calls:\n\n" + _calls(faults.points)


def _calls(points: Counter[str]) -> str:
    """The system calls at which something was done, the most frequent first."""
    ordered = sorted(points.items(), key=lambda each: (-each[1], each[0]))
    return _table(("system call and file", "times"), ((f"`{call}`", count) for call, count in ordered))


def _faults(results: Results) -> str:
    text = "## Faults\n\nEach against a daemon process, unless it says otherwise.\n\n"
    text += _table(("fault", "how it ended"), results.outcomes)
    if results.not_run:
        text += "\nNot run on this machine:\n\n" + _table(("fault", "why"), results.not_run)
    return text


def _simulated(results: Results) -> str:
    text = (
        "## Simulated\n\n"
        "A whole queue manager runs in one process, on a virtual clock and a store that a seed makes fail and\n"
        "crash at every write. Each seed can be replayed: `python -m tests.simulation --help`.\n\n"
    )
    if results.simulation is None:
        return text + "Not part of this run.\n"
    figures: Mapping[str, int] = asdict(results.simulation)
    return text + _table(("", ""), ((name.replace("_", " "), value) for name, value in figures.items()))


def _scheduled(results: Results) -> str:
    text = (
        "## The store on a simulated disk\n\n"
        "The real store on a disk that tears, forgets, fails and is damaged as a seed has it, at each of its steps:\n"
        "`python -m tests.disk --help`.\n\n"
    )
    if not results.schedules:
        return text + "Not part of this run.\n"
    rows = sorted(results.schedules.items())
    return text + _table(("", ""), ((name.replace("_", " "), value) for name, value in rows))


def _machine() -> str:
    rows = {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": os.cpu_count(),
        "file system of the data": _file_system(Path(tempfile.gettempdir())),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
    }
    return "## The machine\n\n" + _table(("", ""), rows.items())


def _file_system(path: Path) -> str:
    """The kind of file system that a path is on, where the system tells."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    lines = (line.split() for line in mounts.read_text("utf-8").splitlines())
    places = {Path(place): kind for _, place, kind, *_ in lines}
    return next(places[each] for each in (path.resolve(), *path.resolve().parents) if each in places)


def _table(head: tuple[str, str], rows: Iterable[tuple[str, object]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |" for name, value in rows]
    return "\n".join(lines) + "\n"
