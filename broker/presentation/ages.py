"""Ages in few characters."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def age(seconds: float) -> str:
    """Return a time in few characters: `12.3 s`, `5 m 02 s`, `3 h 07 m`, `4 d 11 h`; "" for none."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s" if seconds else ""
    whole = int(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} m {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} m"
    return f"{whole // _DAY:,} d {whole % _DAY // _HOUR:02} h"


def coarse_age(seconds: float) -> str:
    """Return a time that changes seldom while somebody looks at it: `12 s`, `5 m`, `3 h 07 m`, `4 d 11 h`."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    return f"{whole // _MINUTE} m" if whole < _HOUR else age(whole)
