"""A class name stands for one thing: it is defined once, or its packages say which is meant."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.test_layers import FILES, ROOT, nodes

PLAIN_BY_PACKAGE = {
    "Caller": {"broker/core", "broker/http"},
    "Consumer": {"broker/core", "broker/interface"},
    "Database": {"broker/databases", "broker/sharing"},
    "Deliveries": {"broker/core", "broker/interface"},
    "Delivery": {"broker/core", "triggers"},
    "OutcomeUnknownError": {"broker/databases", "broker/sharing"},
    "Outcome": {"broker/dead_letters", "broker/mqi"},
    "Sink": {"broker/core", "broker/interface"},
    "Sinks": {"broker/core", "broker/interface"},
    "Staging": {"broker/core", "broker/interface"},
    "UnitName": {"broker/core", "broker/interface"},
    "UnitOfWork": {"broker/engine", "broker/interface"},
    "Wanted": {"broker/dead_letters", "broker/spark"},
}
"""One idea at two layers, each with its own class, and names that programs write."""


def test_a_class_name_is_defined_once() -> None:
    found = defaultdict(list)
    for path in FILES:
        parts = path.relative_to(ROOT).parts
        package = parts[0] if parts[0] == "triggers" else "/".join(parts[:2])
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(package)
    assert {name: set(packages) for name, packages in found.items() if len(packages) > 1} == PLAIN_BY_PACKAGE
    assert all(len(found[name]) == len(packages) for name, packages in PLAIN_BY_PACKAGE.items())
