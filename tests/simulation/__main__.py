"""`python -m tests.simulation`: simulate many seeds and report in figures, or have one run again."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from tests.simulation import Fault, Kind, SimulationFailed, every_boundary, run, simulate


def main() -> int:
    """0 when nothing was found; 1, with what was found on standard error."""
    arguments = _parser().parse_args()
    try:
        if arguments.seed is None:
            figures = run(arguments.seeds, arguments.first, boundaries_every=arguments.boundaries_every)
        elif arguments.every_boundary:
            figures = every_boundary(arguments.seed)
        else:
            fault = None if arguments.fault is None else Fault(Kind(arguments.fault), arguments.at)
            outcome = simulate(arguments.seed, fault, keep_trace=arguments.trace)
            figures = outcome.figures
            sys.stdout.writelines(f"{line}\n" for line in outcome.trace)
    except SimulationFailed as failure:
        sys.stdout.writelines(f"{note}\n" for note in getattr(failure, "__notes__", ()))
        sys.stderr.write(f"{failure}\n")
        return 1
    found = asdict(figures)
    lines = [json.dumps(found)] if arguments.json else [f"{name:<12}{value:>12,}" for name, value in found.items()]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to simulate")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument(
        "--boundaries-every",
        type=int,
        default=100,
        metavar="N",
        help="one seed in N runs with each kind of fault at each of its writes too; 0: none",
    )
    parser.add_argument("--json", action="store_true", help="the figures as a JSON object")
    parser.add_argument("--seed", type=int, help="one run of this seed")
    parser.add_argument("--fault", choices=[str(kind) for kind in Kind], help="its fault; without, faults are chance")
    parser.add_argument("--at", type=int, default=0, help="the write, or for a crash the step, where the fault strikes")
    parser.add_argument("--every-boundary", action="store_true", help="this seed with every fault at every write")
    parser.add_argument("--trace", action="store_true", help="every step of the run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
