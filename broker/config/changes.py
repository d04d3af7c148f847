"""The differences between two configurations: what a reload changes, and what waits for the next start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from broker.config.printing import toml
from broker.config.sections import SECTIONS, settings

if TYPE_CHECKING:
    from broker.config.sections import Config


class SettingChange(NamedTuple):
    """A key with another value. Prints as `[limits] connections = 500 (was 10_000)`, without passwords."""

    section: str
    key: str
    before: object
    after: object
    live: bool
    """True if it takes effect while the daemon runs."""

    def __str__(self) -> str:
        return f"[{self.section}] {self.key} = {toml(self.after)} (was {toml(self.before)})"


def changes(before: Config, after: Config) -> list[SettingChange]:
    """Return the keys whose values differ, in the order of the sample file."""
    return [
        SettingChange(section, key, old, new, setting.live)
        for section in SECTIONS
        for key, setting in settings(section).items()
        if (old := getattr(getattr(before, section), key)) != (new := getattr(getattr(after, section), key))
    ]


def with_live_values(running: Config, wanted: Config) -> Config:
    """Return the configuration that runs with all values of the wanted one that can change while it does."""
    sections = {
        section: replace(
            getattr(running, section),
            **{key: getattr(getattr(wanted, section), key) for key, each in settings(section).items() if each.live},
        )
        for section in SECTIONS
    }
    return replace(running, **sections)
