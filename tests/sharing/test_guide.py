"""docs/how-to/queue-sharing.md: what it shows does what it says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.config import load
from tests.examples.test_readme import blocks

if TYPE_CHECKING:
    from tests.sharing.database import GroupDatabase

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "queue-sharing.md").read_text("utf-8")


def shown(language: str) -> list[str]:
    return [block.text for block in blocks(PAGE) if block.language == language]


def test_the_section_of_broker_toml_is_one(tmp_path: Path) -> None:
    (section,) = shown("toml")
    (tmp_path / "broker.toml").write_text(section)
    group = load(tmp_path / "broker.toml", {}).queue_sharing_group
    told = tomllib.loads(section)["queue_sharing_group"]
    assert group.dsn_password_file == tmp_path / told.pop("dsn_password_file")
    assert told == {"name": group.name, "dsn": group.dsn}


@pytest.mark.postgres
async def test_the_statements_for_administrators_suit_the_tables_which_ask_for_their_own_autovacuum(
    group: GroupDatabase,
) -> None:
    session = await group.session()
    changes = session.transaction()
    await changes.start()
    try:
        for script in shown("sql"):
            await session.execute(script.replace("evermq_grp1", group.schema))
        tuned = await session.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND reloptions::text LIKE '%autovac%'",
            group.schema,
        )
        assert {row["relname"] for row in tuned} == {
            "message_persistent", "message_nonpersistent", "held_persistent", "held_nonpersistent", "share",
            "unit_of_work",
        }  # fmt: skip
    finally:
        await changes.rollback()  # others use the tables after this test
        await session.close()
