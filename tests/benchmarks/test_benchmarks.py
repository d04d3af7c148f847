"""The workloads of `evermq bench`, each as a test: it comes to its end, and every message is accounted for."""

from __future__ import annotations

import sys

import anyio
import pytest

from broker.cli.status import table
from tests.benchmarks.suite.catalog import WORKLOADS
from tests.benchmarks.suite.report import figure_rows
from tests.benchmarks.suite.session import Session

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_message_is_accounted_for(name: str) -> None:
    session = Session.of([name], runs=1, tell=lambda text: None)
    report = anyio.run(session.report, backend_options={"use_uvloop": True})
    assert report.errors == []
    sys.stdout.write("\n".join(["", *table(figure_rows(report.as_json())), ""]))
