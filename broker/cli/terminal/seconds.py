"""A number of seconds on the command line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click import Context, Parameter

_MAX: Final = 2_147_483.0  # what a WaitInterval holds, but for ever


class SecondsType(click.FloatRange):
    """A range of seconds, or `inf`. What is not a number, as Python's `nan`, is in none."""

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        """The number. Raises UsageError."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds) or _MAX < seconds < math.inf:
            self.fail(f"{value} is not a number of seconds up to {_MAX:.0f}, or inf.", param, ctx)
        return seconds
