"""Messages of units of work that are prepared, and whose decision lies in a database (transactions rule 2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.explain.findings import are, finding
from broker.core.explain.held import MESSAGES_NAMED
from broker.core.prepared.resolvers import name_of
from broker.core.queues.unit import IN_DOUBT
from broker.mqi.explanations import Cause
from broker.mqi.external_units import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker.core.explain.held import HeldByUnit, HeldMessages
    from broker.core.manager import Manager
    from broker.core.prepared.branches import Decider, PreparedBranch
    from broker.core.queues.unit import Unit
    from broker.mqi.explanations import Finding


def in_doubt(
    core: Manager, branches: Mapping[Unit, PreparedBranch], units: HeldByUnit, did: str, now: float
) -> Iterator[Finding]:
    """A finding for each database that decides some of these units, counted by their messages. They leave the count."""
    found: dict[Decider, list[tuple[PreparedBranch, HeldMessages]]] = {}
    for unit in [each for each in units if each is not None and each in branches]:
        branch = branches[unit]
        found.setdefault(branch.decider, []).append((branch, units.pop(unit)))
    for decider, those in found.items():
        oldest = min((branch for branch, _ in those), key=lambda each: each.since)
        messages, seconds = sum(held.messages for _, held in those), max(0.0, now - oldest.since)
        many = f", the oldest of {len(those)} units" if len(those) > 1 else ""
        label = label_of(*decider) if decider.database else ""
        where = f"database {label}" if label else "the queue-sharing group"
        who = _resolver(core, oldest, now) if label else ""
        yield finding(
            Cause.IN_DOUBT,
            f"{are(messages)} {did} in unit of work {oldest.id}{many}, which {where} decides, in doubt since "
            f"{seconds:.0f} s{who}",
            messages=messages,
            msg_ids=[each for _, held in those for each in held.msg_ids][:MESSAGES_NAMED],
            units=len(those),
            unit=str(oldest.id),
            database=label,
            since=oldest.since,
            seconds=seconds,
        )


def _resolver(core: Manager, branch: PreparedBranch, now: float) -> str:
    if branch.owner is not None:
        asks = branch.unit.state == IN_DOUBT
        doing = "asks it, and has no answer yet" if asks else "has prepared it, and has not said yet what it decided"
        return f"; {name_of(branch.owner)} {doing}"
    last = core.branches.resolvers.last(branch.decider.database)
    until = "" if last is None else f", {last[0]} was the last one, {max(0.0, now - last[1]):.0f} s ago"
    return f"; no program that sees it is connected{until}"
