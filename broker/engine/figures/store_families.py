"""The figures of the store: of a queue manager in memory there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.engine.figures.families import Section, Thing, counter, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.engine.figures.scrape import Scrape
    from broker.storage.figures import StoreFigures


def _store(scrape: Scrape) -> Iterator[Thing[StoreFigures]]:
    figures = scrape.manager.store.figures()
    if figures is not None:
        yield Thing((), figures)


def _scrape(scrape: Scrape) -> Iterator[Thing[Scrape]]:
    yield Thing((), scrape)


STORE: Final = Section(
    title="The store",
    labels=(),
    things=_store,
    families=(
        counter("evermq_log_batches_total", "Records of the log.", lambda s, _: s.log.syncs.count),
        counter("evermq_log_bytes_total", "Bytes of these records.", lambda s, _: s.log.bytes),
        histogram("evermq_log_sync_seconds", "Seconds that records took to be durable.", lambda s, _: s.log.syncs),
        gauge(
            "evermq_log_file_fill_ratio",
            "The share of the present file of the log that is written.",
            lambda s, _: round(s.log_fill, 4),
        ),
        counter(
            "evermq_carry_overs_total", "Carry-overs from the log to the snapshot.", lambda s, _: s.carry_overs.count
        ),
        histogram("evermq_carry_over_seconds", "Seconds that carry-overs took.", lambda s, _: s.carry_overs),
        gauge("evermq_database_bytes", "The length of the snapshot.", lambda s, _: s.database_bytes),
        gauge(
            "evermq_disk_free_bytes",
            "Bytes that may still be written to the disk of the data.",
            lambda s, _: s.disk.free,
        ),
        gauge("evermq_disk_bytes", "The size of the disk of the data.", lambda s, _: s.disk.size),
        gauge("evermq_store_full", "1 while what grows is refused, since there is no room.", lambda s, _: int(s.full)),
    ),
)

DAMAGE: Final = Section(
    title="The store",
    labels=(),
    things=_scrape,
    families=(gauge("evermq_damaged_messages", "Messages whose data is damaged.", lambda scrape, _: scrape.damaged),),
)
