"""Run schedules: `python -m tests.simulation.handlers --seeds 0-9999`, `--seeds 4711 --trace` for one in full."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.handlers.mutations import MUTATIONS
from tests.simulation.handlers.runs import Result, run_seeds


def main() -> int:
    """The command: 0 when no schedule found anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.handlers", description=__doc__)
    parser.add_argument("--seeds", default="0-999", help="first-last, or one")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="take a rule out; ends at the first find")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print each step, and the traceback of a find")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    begun = time.perf_counter()
    result = Result(Counter(), [])
    chunks = [range(at, min(at + 250, seeds.stop)) for at in range(seeds.start, seeds.stop, 250)]
    if options.processes > 1:
        with ProcessPoolExecutor(options.processes) as pool:
            for part in pool.map(run_seeds, chunks, [options.mutation] * len(chunks)):
                result = result.joined(part)
    else:
        for chunk in chunks:
            result = result.joined(run_seeds(chunk, options.mutation, trace=options.trace))
            if options.mutation and result.found:
                break
    seconds = time.perf_counter() - begun
    for name, count in sorted(result.figures.items()):
        sys.stdout.write(f"{count:10} {name}\n")
    for seed, what in result.found[:20]:
        sys.stdout.write(f"seed {seed}: {what}\n")
    sys.stdout.write(f"{len(result.found)} finds, {seconds:.1f} s\n")
    return 1 if result.found else 0


if __name__ == "__main__":
    sys.exit(main())
