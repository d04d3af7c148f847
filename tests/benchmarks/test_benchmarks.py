"""The workloads of `evermq bench`, each as a test: it comes to its end, and every message is accounted for."""

from __future__ import annotations

import sys

import anyio
import pytest

from broker.benchmarks.catalog import WORKLOADS
from broker.benchmarks.report import figure_rows
from broker.benchmarks.session import BenchmarkSession
from broker.cli.administration.status import table

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_message_is_accounted_for(name: str) -> None:
    session = BenchmarkSession.of([name], runs=1, tell=lambda text: None)
    report = anyio.run(session.report, backend_options={"use_uvloop": True})
    assert report.errors == []
    sys.stdout.write("\n".join(["", *table(figure_rows(report.as_json())), ""]))
