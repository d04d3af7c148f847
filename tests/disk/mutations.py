"""Ways to break the store, by name, each of which schedules must find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

MUTATIONS: dict[str, Callable[[], AbstractContextManager[object]]] = {}
