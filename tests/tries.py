"""The number of examples that Hypothesis tries of a property."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

QUICK: Final = 25
"""The most that a quick run tries of any."""


def register_profiles() -> None:
    """quick and suite try the same examples each time, search others. How long one takes says little where several
    processes share the processors.
    """
    settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("suite", settings.get_profile("search"), derandomize=True)
    settings.register_profile("quick", settings.get_profile("suite"), max_examples=QUICK)


def tries(number: int) -> settings:
    """Settings of a property of which so many examples are tried, or fewer in a profile that is content with them."""
    allowed = settings().max_examples
    return settings(max_examples=number if allowed > QUICK else min(number, allowed))
