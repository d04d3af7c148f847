"""The numbers of commands, as events tell them."""

from __future__ import annotations

import pytest

from broker.commands.language.numbers import NUMBERS, number_of
from broker.commands.language.words import COMMANDS

OWN = {"CONFIG", "USER", "CONSUMER", "SINK"}
"""Nouns that IBM MQ does not have."""


def test_each_command_of_ibm_mq_has_its_number() -> None:
    known = {(verb, noun) for verb, nouns in COMMANDS.items() for noun in nouns if noun not in OWN}
    assert known == NUMBERS.keys()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("DEFINE QLOCAL(Q)", 11),
        ("def ql('q') replace", 11),
        ("  DIS QMGR", 2),
        ("DEF QL-ORDERS, TRIGGER-YES", 11),
        ("DISP QL-ORDERS", 13),
        ("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(bob) AUTHADD(PUT)", 90),
        ("RES INDOUBT('x') ACTION(COMMIT)", 131),
        ("DEFINE USER(bob)", 0),
        ("NOTHING", 0),
        ("", 0),
    ],
)
def test_a_command_is_told_by_its_text(text: str, number: int) -> None:
    assert number_of(text) == number
