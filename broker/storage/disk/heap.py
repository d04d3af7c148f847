"""Memory that is free goes back to the system, where the allocator has to be told so.

What glibc's heap has free below something that is in use it keeps for later: after a burst of messages for good.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc alone."""


def give_back() -> None:
    """Give free memory back. It takes milliseconds, during which threads that allocate may wait."""
    if _TRIM is not None:
        _TRIM(ctypes.c_size_t(0))
