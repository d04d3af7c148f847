"""The part of a running app that looks for results: it is made when the first is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triggers.history.results import Results


class ResultsAsked:
    """A part of `AppSession`."""

    _results: Results | None = None

    @property
    def results(self) -> Results:
        """The looks for the results of messages."""
        if self._results is None:
            from triggers.history.results import Results  # most apps ask for none

            self._results = Results(self)  # type: ignore[arg-type]  # it is a part of one
        return self._results

    async def close_results(self) -> None:
        """End what looks for results, if anybody has asked for one."""
        if self._results is not None:
            await self._results.close()
