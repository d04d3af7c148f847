"""Count the steps that something takes: a measure of cost that no machine changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any


class Steps:
    """Counts the instructions of Python that are executed in the functions called inside its context. A loop in a
    comprehension or a generator counts each time round, one in C, such as `list` of a dict, does not.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: Callable[..., Any] | None = None

    def __enter__(self) -> Steps:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self._trace
