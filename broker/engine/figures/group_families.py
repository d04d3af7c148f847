"""The figures of a queue-sharing group, as this member has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.engine.figures.families import Section, Thing, counter, counter_by, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.queues.shared_queue import SharedQueue
    from broker.engine.figures.scrape import Scrape
    from broker.engine.figures.sources import GroupFigures


def _group(scrape: Scrape) -> Iterator[Thing[GroupFigures]]:
    figures = scrape.manager.context.figures.group
    if figures is not None:
        yield Thing((), figures())


def _structures(scrape: Scrape) -> Iterator[Thing[list[SharedQueue]]]:
    objects = scrape.manager.core.objects
    for name, structure in sorted(objects.structures.items()):
        if structure.definition is not None:
            yield Thing((name,), [queue for queue in objects.shared_queues.values() if queue.structure is structure])


GROUP: Final = Section(
    title="The queue-sharing group",
    labels=(),
    things=_group,
    families=(
        gauge("evermq_group_members", "Members of the group, whether they run or not.", lambda g, _: g.members),
        gauge("evermq_group_joined", "1 while this member is in the group, with a lease.", lambda g, _: int(g.joined)),
        gauge(
            "evermq_group_lease_seconds",
            "Seconds until the lease of this member is over, unless it is renewed.",
            lambda g, _: round(g.lease_left, 3),
        ),
        histogram("evermq_group_round_trip_seconds", "Seconds that calls of the database took.", lambda g, _: g.calls),
        counter("evermq_group_recoveries_total", "Peers that this member has recovered.", lambda g, _: g.recoveries),
        counter_by(
            "outcome",
            "evermq_group_transactions_total",
            "Transactions in the database: begun, made again, and those whose outcome had to be looked up.",
            lambda g, _: g.transactions,
        ),
        gauge("evermq_group_in_doubt_units", "Units of work whose outcome is not known yet.", lambda g, _: g.in_doubt),
    ),
)

STRUCTURE: Final = Section(
    title="The queue-sharing group",
    labels=("structure",),
    things=_structures,
    families=(
        gauge(
            "evermq_structure_depth",
            "Messages on the shared queues of the structure.",
            lambda queues, _: sum([queue.depth for queue in queues]),
        ),
        gauge("evermq_structure_queues", "Shared queues in the structure.", lambda queues, _: len(queues)),
    ),
)
