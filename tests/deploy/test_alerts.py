"""The alerts and the dashboard: they are about figures that there are, and Prometheus reads them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.engine.figures.families import FamilyKind
from broker.engine.figures.table import EVERMQ

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
ALERTS = DEPLOY / "alerts.yml"
TESTS = Path(__file__).with_name("alerts_test.yml")

FAMILIES = {family.name: family for section in EVERMQ for family in section.families}
LABELS = {
    family.name: {*section.labels, family.label, "le"} for section in EVERMQ for family in section.families
}  # fmt: skip
SCRAPED = {"instance", "job"}
"""The labels that Prometheus adds."""

promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")


def expressions() -> Iterator[str]:
    """Yield what the alerts and the panels of the dashboard ask Prometheus."""
    yield from re.findall(r"^        expr: (?:\|\n((?: {10}.*\n)+)|.+)", ALERTS.read_text("utf-8"), re.MULTILINE)
    yield from (
        match[1] for match in re.finditer(r"^        expr: (?!\|)(.+)", ALERTS.read_text("utf-8"), re.MULTILINE)
    )
    dashboard = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query")


def family_of(name: str) -> str:
    """Return the family of a series."""
    base = re.sub("_(bucket|sum|count)$", "", name)
    return base if base in FAMILIES and FAMILIES[base].kind is FamilyKind.HISTOGRAM else name


@pytest.mark.parametrize("expression", sorted(set(filter(None, expressions()))))
def test_an_alert_and_a_panel_ask_for_figures_that_there_are(expression: str) -> None:
    names = re.findall(r"\bevermq_[a-z_]+", expression)
    assert names
    for name in names:
        assert family_of(name) in FAMILIES, name
    for name, chosen in re.findall(r"\b(evermq_[a-z_]+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*=~?", chosen)) <= LABELS[family_of(name)] | SCRAPED, name


def test_each_alert_has_a_test() -> None:
    alerts = re.findall(r"^      - alert: (\w+)$", ALERTS.read_text("utf-8"), re.MULTILINE)
    tested = re.findall(r"^      - alertname: (\w+)\n.*\n        exp_alerts:\n", TESTS.read_text("utf-8"), re.MULTILINE)
    assert len(alerts) == 11
    assert sorted(tested) == sorted(alerts)


@promtool
def test_prometheus_accepts_the_alerts() -> None:
    assert_good(["promtool", "check", "rules", str(ALERTS)])


@promtool
def test_each_alert_fires_where_it_has_to(tmp_path: Path) -> None:
    tests = tmp_path / "tests.yml"
    tests.write_text(TESTS.read_text("utf-8").replace("ALERTS", str(ALERTS)), "utf-8")
    assert_good(["promtool", "test", "rules", str(tests)])


def assert_good(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
