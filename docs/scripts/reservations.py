"""Makes the sample of `evermq demo`, `broker/cli/demo/reservations.jsonl`: airline reservations, a line of JSON each.

    python docs/scripts/reservations.py

One line in fifty is deliberately no reservation, each in one of the ways in which such a line goes wrong. The file is
the same at each run: the generator is seeded, and uses only `random()`, whose numbers no version of Python changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COUNT = 3000
WRONG_EVERY = 50
SEED = 28136
FILE = Path(__file__).parents[2] / "broker" / "cli" / "demo" / "reservations.jsonl"

AIRPORTS = (
    "AMS",
    "ARN",
    "ATH",
    "BCN",
    "CPH",
    "DUB",
    "FRA",
    "HEL",
    "JFK",
    "LHR",
    "LIS",
    "NRT",
    "ORD",
    "SFO",
    "SIN",
    "ZRH",
)
SURNAMES = (
    "BERG",
    "CRUZ",
    "DE WIT",
    "HALL",
    "KATO",
    "LIND",
    "MEIER",
    "NOVAK",
    "O'NEIL",
    "ROSSI",
    "SILVA",
    "WEBER-HAAS",
)
GIVEN_NAMES = ("ADA", "BEN", "CLEO", "EMIL", "GRETA", "IVO", "JUNE", "KENJI", "LENA", "MILO", "NORA", "OTTO")
CLASSES = "YYYYYYYCCF"
RECORD_CHARACTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

Element = TypeVar("Element")
Fields = dict[str, Any]


def pick(chance: Random, choices: Sequence[Element]) -> Element:
    """One of the choices."""
    return choices[int(chance.random() * len(choices))]


def reservation(chance: Random) -> Fields:
    """A reservation as it should be."""
    origin = pick(chance, AIRPORTS)
    return {
        "record": "".join(pick(chance, RECORD_CHARACTERS) for _ in range(6)),
        "name": f"{pick(chance, SURNAMES)}/{pick(chance, GIVEN_NAMES)}",
        "flight": f"EV{100 + int(chance.random() * 900)}",
        "date": f"2026-{1 + int(chance.random() * 12):02}-{1 + int(chance.random() * 28):02}",
        "from": origin,
        "to": pick(chance, [airport for airport in AIRPORTS if airport != origin]),
        "class": pick(chance, CLASSES),
        "seats": pick(chance, (1, 1, 1, 2, 2, 3, 4)),
    }


def written(fields: Fields) -> str:
    """A line of JSON."""
    return json.dumps(fields, separators=(",", ":"))


MISTAKES: tuple[Callable[[Fields], str], ...] = (
    lambda fields: written(fields)[:-20],  # cut off
    lambda fields: written({**fields, "date": "2026-02-30"}),
    lambda fields: written({**fields, "seats": 0}),
    lambda fields: written({**fields, "seats": str(fields["seats"])}),
    lambda fields: written({**fields, "to": fields["from"]}),
    lambda fields: written({**fields, "class": "X"}),
    lambda fields: written({key: value for key, value in fields.items() if key != "flight"}),
    lambda fields: ",".join(map(str, fields.values())),  # the format of another system
    lambda fields: "",
)


def lines() -> list[str]:
    """All lines of the file."""
    chance = Random(SEED)
    made: list[str] = []
    wrong = 0
    for number in range(COUNT):
        if number % WRONG_EVERY == 0:
            wrong = number + int(chance.random() * WRONG_EVERY)
        fields = reservation(chance)
        made.append(pick(chance, MISTAKES)(fields) if number == wrong else written(fields))
    return made


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", "utf-8")
