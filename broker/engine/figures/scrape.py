"""One look at all figures: the values are taken down and written in steps, those of one thing in one step.

Nothing is added up over messages. What is deleted meanwhile has no series.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from broker.engine.figures.exposition import SectionText
from broker.engine.figures.table import sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.queues.queue import LocalQueue
    from broker.engine.figures.scraped import ScrapedManager
    from broker.engine.figures.selection import FigureSelection

THINGS_A_STEP: Final = 8
_LOOKS_A_STEP: Final = 500


class Scrape:
    """A scrape of a queue manager. `queues` are those that have series of their own, in the order of their names;
    `left_out` counts those that would be one too many. `damaged` counts the damaged messages on all queues.
    """

    def __init__(self, manager: ScrapedManager, selection: FigureSelection) -> None:
        self.manager = manager
        self.selection = selection
        self.queues: list[LocalQueue] = []
        self.left_out: int = 0
        self.damaged: int = 0
        self.text = ""

    def steps(self) -> Iterator[None]:
        """Take down and write everything: it is `text` then."""
        yield from self._choose()
        clock = self.manager.clock
        written: list[SectionText[Any]] = []
        for section in sections(self.selection.names):
            written.append(SectionText(section))
            things = section.things(self)
            while some := list(islice(things, THINGS_A_STEP)):
                written[-1].add(some, clock.time())
                yield
        text = ""
        for piece in chain.from_iterable([each.text() for each in written]):
            text += piece  # where it lies: to join them all would be a step of many milliseconds
            yield
        self.text = text

    def _choose(self) -> Iterator[None]:
        """Look at all queues, and find those that have series of their own."""
        selection, queues = self.selection, self.manager.core.objects.queues
        singly = selection.per != "none"
        chosen: list[str] = []
        for number, name in enumerate(list(queues), 1):
            queue = queues.get(name)
            if queue is not None:
                self.damaged += len(queue.shelf.damaged)
                if singly and selection.admits(queue):
                    chosen.append(name)
            if number % _LOOKS_A_STEP == 0:
                yield
        chosen.sort()
        self.left_out = max(0, len(chosen) - selection.queues_max)
        self.queues = [queues[name] for name in chosen[: selection.queues_max] if name in queues]
