"""Scripts of the kinds that are found in public: developers' containers, clusters, file transfer, dumps (X2.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.commands.language.script import commands_of
from broker.commands.table.default_objects import default_objects
from tests.commands.catalog import NOON, Manager

if TYPE_CHECKING:
    from broker.core.names.definitions import Definition

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.mqsc"))
DISPLAYED = {
    "USER": "DISPLAY USER(*) ALL",
    "AUTHINFO": "DISPLAY AUTHINFO(*) ALL",
    "CHANNEL": "DISPLAY CHANNEL(*) ALL",
    "CHLAUTH": "DISPLAY CHLAUTH('*') ALL",
    "AUTHREC": "DISPLAY AUTHREC ALL",
}
STAMPS = ("ALTDATE", "ALTTIME")


def fresh(*, defaults: bool = True) -> Manager:
    manager = Manager()
    if defaults:
        for each in default_objects(NOON, durable=True):
            manager.objects[each.space, each.name] = each
    return manager


def shown(manager: Manager) -> dict[str, list[dict[str, int | str | bool]]]:
    """All that DISPLAY shows of users, authentication information, channels, rules and records."""
    return {noun: list(manager.run(command).attributes) for noun, command in DISPLAYED.items()}


def said_again(noun: str, row: dict[str, int | str | bool]) -> str:
    """The command that makes the object that DISPLAY has shown."""
    given = {keyword: value for keyword, value in row.items() if keyword not in STAMPS}
    if noun == "AUTHREC":
        entity = f"{given.pop('ENTTYPE')}('{given.pop('ENTITY')}')"
        about = f"PROFILE('{given['PROFILE']}') OBJTYPE({given['OBJTYPE']})"
        return f"SET AUTHREC {about} {entity} AUTHADD({given['AUTHLIST']})"
    name = given.pop(noun)
    words = " ".join(f"{keyword}({_quoted(value)})" for keyword, value in given.items())
    if noun == "CHLAUTH":
        return f"SET CHLAUTH('{name}') {words}"
    return f"DEFINE {noun}('{name}') {words} REPLACE"


def _quoted(value: int | str | bool) -> str:
    return "'" + str(value).replace("'", "''") + "'"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_x2_1_every_command_of_the_corpus_is_accepted(path: Path) -> None:
    manager = fresh()
    for command in commands_of(path.read_text()):
        reply = manager.run(command)
        assert reply.ok, f"{command}: {reply.text}"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_x2_1_display_gives_back_what_was_set(path: Path) -> None:
    manager, again = fresh(), fresh(defaults=False)
    manager.script(path.read_text())
    secret = [user for user in manager.users.values() if user.password]
    for noun, rows in shown(manager).items():
        for row in rows:
            command = said_again(noun, row)
            if noun == "USER":
                command = command.replace("PASSWORD('SET')", f"PASSWORD('{secret[0].password}')" if secret else "")
            assert again.run(command).ok, again.run(command).text
    assert shown(again) == shown(manager)


def test_x2_1_the_corpus_has_twenty_scripts_that_use_every_command() -> None:
    text = "\n".join(path.read_text() for path in CORPUS)
    assert len(CORPUS) >= 20
    for command in (
        "SET AUTHREC",
        "DELETE AUTHREC",
        "SET CHLAUTH",
        "DEFINE AUTHINFO",
        "REFRESH SECURITY",
        "DEFINE CHANNEL",
    ):
        assert command in text


def test_a_directory_password_is_not_kept() -> None:
    manager = fresh()
    manager.script((Path(__file__).parent / "corpus" / "directory.mqsc").read_text())
    kept: Definition = manager.objects["AUTHINFO", "USE.LDAP"]
    assert kept.attributes["LDAPPWD"] == "SET"
    assert "directory1" not in repr(manager.objects)
