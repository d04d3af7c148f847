"""The figures of the process and of its collector of garbage, as each program in Python has them in Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest


class ProcessFigures:
    """The families `process_*` and `python_gc_*`."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> str:
        """Return them in format 0.0.4, as they are now."""
        return generate_latest(self._registry).decode()
