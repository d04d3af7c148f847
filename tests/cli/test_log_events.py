"""The events of the log: the table and the code agree."""

from __future__ import annotations

import ast
import logging
import re

from broker.cli.terminal.log_events import EVENTS
from broker.cli.terminal.log_fields import event_word
from broker.cli.terminal.logs import JsonLines
from tests.scripts import script
from tests.test_layers import FILES, nodes

METHODS = {"debug", "info", "warn", "warning", "error", "exception", "critical", "log"}


def test_o8_1_every_event_that_the_code_logs_is_in_the_table_and_the_other_way_round() -> None:
    calls = script("log_events_page").log_calls()
    assert [call for call in calls if call.event not in EVENTS] == []
    assert EVENTS.keys() - {call.event for call in calls} == set()


def test_o8_1_nothing_is_logged_that_the_comparison_does_not_see() -> None:
    """A logger is a module's `logger`, and its methods are called, or handed on with what they are to say."""
    seen = 0
    for node in (each for path in FILES for each in nodes(path)):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            whose = ast.unparse(node.value)
            assert whose == "logger" or "ogger" not in whose, whose
            seen += whose == "logger"
        elif isinstance(node, ast.Call):
            seen += ast.unparse(node.func) == "log_exception"
    assert seen == len(script("log_events_page").log_calls())


def test_o8_1_an_event_is_a_word_in_small_letters() -> None:
    assert [word for word in EVENTS if not re.fullmatch(r"[a-z]+(_[a-z]+){0,5}", word)] == []


def test_the_event_of_the_source_is_the_event_of_the_line() -> None:
    for template, arguments in [
        ("line refused peer=%s: %s", ("local", "why")),
        ("NOTRIGGER not written queue=%s: %s", ("Q", "full")),
        ("queue is served: queue=%s handler=%s", ("Q", "h")),
    ]:
        record = logging.LogRecord("broker.server", logging.INFO, "x.py", 1, template, arguments, None)
        assert f'"event": "{event_word(template)}"' in JsonLines().format(record)
