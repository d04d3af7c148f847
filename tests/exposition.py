"""Prometheus' exposition format, read for tests as strictly as it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Samples: TypeAlias = "dict[str, float]"
"""The values by their series, each as it is written: `name{label="value"}`."""

_SAMPLE: Final = re.compile(r'([a-z_0-9]+)(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? (\S+)')
_SUFFIXES: Final = ("_bucket", "_sum", "_count")


def samples(text: str) -> Samples:
    """Read the samples of a text. Raises AssertionError where it is not well formed, or says something twice."""
    found: Samples = {}
    kinds: dict[str, str] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in kinds, f"{family} stands in two places"
        elif line.startswith("# TYPE "):
            _, _, name, kinds[family] = line.split(" ")
            assert name == family
        else:
            match = _SAMPLE.fullmatch(line)
            assert match is not None, line
            name, labels, value = match.groups(default="")
            assert name == family or (kinds[family] == "histogram" and name.removeprefix(family) in _SUFFIXES), line
            assert (kinds[family] == "counter") == name.endswith("_total"), line
            assert f"{name}{labels}" not in found, line
            found[f"{name}{labels}"] = float(value)
    assert text.endswith("\n")
    return found


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> Samples:
    """Return what has been added to each series, where that is not nothing; a new one began at 0."""
    assert before.keys() <= after.keys(), sorted(before.keys() - after.keys())
    return {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
