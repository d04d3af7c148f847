"""A seeded simulation of the whole queue manager, which crashes and fails at every write boundary.

`simulate` is one run: a seed and, perhaps, a fault. `every_boundary` runs one workload again and again, with each kind
of fault at each of its writes. `run` does both for many seeds. All raise `SimulationFailed`, which says how to have the
same run again. `python -m tests.simulation` is the command.

The queue manager is a real one, embedded, on a clock that stands still and a disk made of memory (`disk`). Programs
make calls that overlap, are cancelled and cut off (`program`); a ledger outside the queue manager keeps what they were
told (`ledger`), and compares it with what is there, in the middle of a life and after each restart (`audit`).
Claims and prepared units have a simulation of their own in `tests.simulation.claims`, handlers in
`tests.simulation.handlers`, beside puts and gets as here.
"""

from __future__ import annotations

import logging

from tests.simulation.faults import Fault as Fault
from tests.simulation.faults import Kind as Kind
from tests.simulation.figures import Figures as Figures
from tests.simulation.runs import SimulationFailed as SimulationFailed
from tests.simulation.runs import every_boundary as every_boundary
from tests.simulation.runs import run as run
from tests.simulation.runs import simulate as simulate

logging.getLogger("broker").addHandler(logging.NullHandler())  # what it says of full and failing stores is no news here
