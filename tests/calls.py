"""Count the functions that something calls: a measure of cost that no machine changes, nearer to time than `Steps`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

_COUNTED = ("/broker/", "/logging/", "<string>")  # the last are methods that dataclasses and named tuples have


class Calls:
    """Counts the calls that are made inside its context, on this thread: `python` those of our functions and of
    logging, with generators each time that they go on, `c` those that these make of functions written in C.
    """

    def __init__(self) -> None:
        self.python = 0
        self.c = 0
        self.names: list[str] = []
        """Of the Python functions, in the order of the calls: what to look at where they are too many."""
        self._before: Callable[..., Any] | None = None

    def __enter__(self) -> Calls:
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(self._before)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if not any(each in code.co_filename for each in _COUNTED):
            return
        if event == "call":
            self.python += 1
            self.names.append(code.co_qualname)
        elif event == "c_call":
            self.c += 1
