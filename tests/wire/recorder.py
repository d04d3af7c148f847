"""A port that does nothing but remember which calls were made on it."""

from __future__ import annotations

from typing import Any

from broker.interface.port import Call


class RecordingPort:
    """Every method notes its name and arguments in `calls` and answers with a call that never ends."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def method(*arguments: Any, **options: Any) -> Call[Any]:
            self.calls.append((name, *arguments, *options.values()))
            return Call()

        return method
