"""Claims, prepared units and handlers in figures, for commands and for the status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from broker.core.claims.claiming import refusal
from broker.core.claims.lag import lag_of
from broker.core.explain.holders import claimed, pairs
from broker.core.prepared.resolvers import name_of
from broker.core.queues.unit import STATE_NAMES
from broker.mqi.external_units import label_of
from broker.mqi.reasons import MQRC

_HANDLER_FIGURES: Final = {
    "HANDLER": "handler", "PROCESS": "process", "STARTED": "started", "RUNNING": "running", "SUCCEEDED": "succeeded",
    "FAILED": "failed", "TIMEDOUT": "timed_out", "REJECTED": "rejected", "UNREADABLE": "unreadable", "LATER": "later",
    "CRASHED": "crashed", "RETURNED": "returned", "RETRIED": "retried", "DEADLETTERED": "dead_lettered",
    "HELD": "held", "EMPTY": "empty", "DELAYED": "delayed", "WAITING": "waiting", "LASTERROR": "last_error",
}  # fmt: skip
"""By keyword."""

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.clock import Clock
    from broker.core.claims.consumer import Consumer
    from broker.core.manager import Manager
    from broker.core.prepared.branches import PreparedBranch
    from broker.core.prepared.unit import PreparedUnit


def structure_status(core: Manager, clock: Clock) -> Iterator[dict[str, int | str] | None]:
    """The figures of DISPLAY CFSTATUS (`broker.commands.table.statuses`), as far as they are known here."""
    for name, structure in sorted(core.objects.structures.items()):
        if structure.definition is None:
            continue
        queues = [queue for queue in core.objects.shared_queues.values() if queue.structure is structure]
        saved = None if structure.backed_up is None else datetime.fromtimestamp(structure.backed_up, UTC)
        yield {
            "CFSTATUS": name,
            "TYPE": "SUMMARY",
            "CFTYPE": "APPL",
            "STATUS": "FAILED" if structure.failed else "ACTIVE",
            "QUEUES": len(queues),
            "ENTSUSED": sum(queue.depth for queue in queues),
            "BKUPDATE": "" if saved is None else saved.strftime("%Y-%m-%d"),
            "BKUPTIME": "" if saved is None else saved.strftime("%H.%M.%S"),
        }


def claim_status(core: Manager, clock: Clock) -> Iterator[dict[str, int | str] | None]:
    """The figures of DISPLAY QSTATUS TYPE(CLAIM) (`broker.commands.table.statuses`); None between two steps."""
    for pair in pairs(core.consumers):
        if pair is None:
            yield None
            continue
        queue, consumer = pair
        held = yield from claimed(consumer, queue)
        lag, now = lag_of([queue]), clock.time()
        yield {
            "QUEUE": queue.name,
            "TYPE": "CLAIM",
            "CONSUMER": consumer.name,
            "GENERATION": consumer.generation,
            "CLAIMS": held.messages,
            "PINNED": held.pinned,
            "CLMBYTES": held.bytes,
            "CLMAGE": int(consumer.age(now)),
            "LAG": lag.messages,
            "LAGBYTES": lag.bytes,
            "LAGAGE": int(lag.age(now)),
        }


def thread_status(core: Manager, clock: Clock) -> Iterator[dict[str, int | str] | None]:
    """The figures of DISPLAY THREAD TYPE(INDOUBT); None between two steps."""
    for unit in _in_order(core):
        yield {
            "THREAD": unit.name.text,
            "TYPE": "INDOUBT",
            "SINK": unit.name.sink,
            "BATCH": unit.name.batch,
            "UOWSTATE": STATE_NAMES[unit.state],
            "MSGS": unit.messages,
            "BYTES": unit.bytes,
            "AGE": int(max(0.0, clock.time() - unit.since)),
            "QUEUES": ", ".join(f"{q_name} {count}" for q_name, count in _by_queue(unit).items()),
            "DATABASE": "",
            "RESOLVER": "",
        }
    for branch in sorted(core.branches.by_id.values(), key=_since):
        counts = branch.counts()
        yield {
            "THREAD": str(branch.id),
            "TYPE": "INDOUBT",
            "SINK": "",
            "BATCH": 0,
            "UOWSTATE": STATE_NAMES[branch.unit.state],
            "MSGS": sum(counts.values()),
            "BYTES": branch.bytes,
            "AGE": int(max(0.0, clock.time() - branch.since)),
            "QUEUES": ", ".join(f"{q_name} {count}" for q_name, count in sorted(counts.items())),
            "DATABASE": label_of(*branch.decider) if branch.external else "",
            "RESOLVER": _resolver(core, branch) if branch.external else "",
        }


def _resolver(core: Manager, branch: PreparedBranch) -> str:
    """Return who decides a branch now: the program that has prepared it or a resolver; or who was there last."""
    if branch.owner is not None:
        return name_of(branch.owner)
    last = core.branches.resolvers.last(branch.decider.database)
    if last is None:
        return ""
    return f"{last[0]} until {datetime.fromtimestamp(last[1], UTC):%Y-%m-%d %H:%M:%S} UTC"


def in_doubt_figures(core: Manager, now: float) -> dict[str, Any]:
    """Return how many units of work are prepared and not decided, and for how many seconds the oldest is."""
    since = min((branch.since for branch in core.branches.by_id.values()), default=now)
    return {
        "in_doubt_units": len(core.branches.by_id),
        "in_doubt_oldest_seconds": round(max(0.0, now - since), 3),
    }


def _since(branch: PreparedBranch) -> tuple[float, int]:
    return branch.since, branch.number


def handler_status(core: Manager, clock: Clock) -> Iterator[dict[str, int | str] | None]:
    """The figures of DISPLAY QSTATUS TYPE(HANDLER); None between two steps."""
    for figures in handler_figures(core):
        shown = {keyword: figures[name] for keyword, name in _HANDLER_FIGURES.items()}
        shown["LASTERROR"] = shown["LASTERROR"].partition("\n")[0]
        yield {"QUEUE": figures["queue"], "TYPE": "HANDLER", **shown}


def _in_order(core: Manager) -> list[PreparedUnit]:
    return sorted(core.sinks.all(), key=lambda unit: unit.name)


def _by_queue(unit: PreparedUnit) -> dict[str, int]:
    return {queue.name: unit.counts[queue] for queue in sorted(unit.counts, key=lambda each: each.name)}


def unit_figures(core: Manager, now: float) -> Iterator[dict[str, Any]]:
    """Each prepared unit in figures, by name, for the status: one a step."""
    for unit in _in_order(core):
        yield {
            "name": unit.name.text,
            "state": STATE_NAMES[unit.state],
            "messages": unit.messages,
            "bytes": unit.bytes,
            "age": max(0.0, now - unit.since),
            "queues": _by_queue(unit),
        }


def handler_figures(core: Manager) -> Iterator[dict[str, Any]]:
    """Yield the counts of each queue under each handler, by their names, for the status: one a step."""
    for q_name, handler, counts in core.deliveries.counts():
        queue = core.objects.queues.get(q_name)
        if queue is not None:
            process = queue.process_name
            yield {
                "queue": q_name,
                "handler": handler,
                "process": process,
                "workers": core.deliveries.workers(queue, counts),
                "delayed": len(queue.shelf.delayed),
                "waiting": len(queue.shelf.delayed),  # the old word, until 0.2
                **counts.figures(),
            }


def consumer_figures(core: Manager, now: float, claim_age: float) -> Iterator[dict[str, Any]]:
    """Each consumer in figures, by name, for the status: one a step. It is `overdue` when the oldest of its claims has
    been claimed for longer than `claim_age` seconds.
    """
    for consumer in sorted(core.consumers.all(), key=lambda each: each.name):
        yield _figures(core, consumer, now, claim_age)


def _figures(core: Manager, consumer: Consumer, now: float, claim_age: float) -> dict[str, Any]:
    queues = core.consumers.queues_for(consumer)
    lag = lag_of(queues)
    refusals = {queue.name: refusal(queue) for queue in queues}
    age = consumer.age(now)
    return {
        "name": consumer.name,
        "queues": ", ".join(consumer.q_names),
        "generation": consumer.generation,
        "claims": consumer.claim_count,
        "pinned": consumer.claim_count - consumer.not_pinned,
        "bytes": consumer.bytes,
        "age": age,
        "overdue": age > claim_age,
        "lag": lag.messages,
        "lag_bytes": lag.bytes,
        "lag_age": lag.age(now),
        "passed_over": {name: MQRC(error.reason).name for name, error in refusals.items() if error is not None},
    }
