"""The task of a worker of the demonstration: in a file of its folder, which nobody else may read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Self

from broker.cli.demo.transactions.death import Death, DeathPlace
from broker.cli.demo.transactions.orders import OrderTable, order_table

FILE: Final = "task.json"


@dataclass(frozen=True, kw_only=True)
class WorkerTask:
    """The database of orders, and the death of this worker; None: it lives."""

    address: str = "orders.db"
    table: str = "orders"
    death: Death | None = None

    def with_death(self, death: Death | None) -> Self:
        """The same with another death."""
        return replace(self, death=death)

    def write(self, folder: Path) -> None:
        """Leave it in a folder, for the worker that is started there."""
        file = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(asdict(self), out)

    @classmethod
    def read(cls) -> Self:
        """Return that of the current folder; where there is none, that of a worker which lives."""
        try:
            text = Path(FILE).read_text("utf-8")
        except FileNotFoundError:
            return cls()
        told = json.loads(text)
        if told["death"] is not None:
            place, skipped, seconds = told["death"]
            told["death"] = Death(DeathPlace(place), skipped, seconds)
        return cls(**told)

    def orders(self) -> OrderTable:
        """The table of orders."""
        return order_table(self.address, self.table)
