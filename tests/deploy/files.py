"""The files of `examples/deploy`, read."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from broker.config import SECTIONS, settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
CLIENT = {"EVERMQ_URL", "EVERMQ_USER", "EVERMQ_PASSWORD_FILE", "EVERMQ_CA"}


class Instruction(NamedTuple):
    """An instruction of a Dockerfile."""

    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its arguments, in the exec form."""
        found: list[str] = json.loads(self.text)
        return found


def dockerfile() -> list[Instruction]:
    """Return the instructions of the Dockerfile, in their order."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Instruction(*line.split(maxsplit=1)) for line in lines]


def last(word: str) -> Instruction:
    """Return the last instruction of this kind: that of the image."""
    return [each for each in dockerfile() if each.word == word][-1]


def image_environment() -> dict[str, str]:
    """Return the environment that the image gives to its processes."""
    return dict(each.split("=", 1) for each in shlex.split(last("ENV").text))


def documents(name: str) -> list[Any]:
    """Return the documents of a file of YAML."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def unknown_variables(environment: dict[str, str]) -> set[str]:
    """Return the variables of EverMQ that are neither a setting nor one of a client."""
    known = {f"EVERMQ_{section}_{key}".upper() for section in SECTIONS for key in settings(section)} | CLIENT
    return {name for name in environment if name.startswith("EVERMQ_")} - known
