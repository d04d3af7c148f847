"""Stores as older releases have left them.

Of version 1, without a log: one database, which was journal and snapshot. Of version 2: their database knows nobody who
holds a message, and their log has nothing of it. Of version 3: so it is with what handlers leave, and with keys; of
version 4 with steps.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.storage.store import MessageRow, ObjectRow

VERSION: Final = 1

_COLUMNS: Final = """
    id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, rank INTEGER NOT NULL, persistent INTEGER NOT NULL,
    length INTEGER NOT NULL, backout_count INTEGER NOT NULL, got INTEGER NOT NULL, head_check INTEGER NOT NULL,
    counters_check INTEGER NOT NULL, descriptor BLOB NOT NULL, data BLOB, data_check INTEGER"""
_COLUMNS_3: Final = """, holder INTEGER NOT NULL DEFAULT 0, sequence INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0"""
_NAMES: Final = """
    id, queue, rank, persistent, length, backout_count, got, head_check, counters_check, descriptor, data, data_check"""

TO_OLDER: Final = """
BEGIN;
CREATE TABLE older ({columns});
INSERT INTO older SELECT {names} FROM message;
DROP TABLE message;
ALTER TABLE older RENAME TO message;
CREATE TRIGGER message_body AFTER DELETE ON message WHEN OLD.data IS NULL BEGIN DELETE FROM body WHERE id = OLD.id; END;
DROP TABLE put_key;
DROP TABLE step;
PRAGMA user_version = {version};
COMMIT;
"""

TO_4: Final = """
BEGIN;
DROP TABLE step;
PRAGMA user_version = 4;
COMMIT;
"""

SCHEMA: Final = """
PRAGMA application_id = 0x45764d51;
CREATE TABLE message (
    id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, rank INTEGER NOT NULL, persistent INTEGER NOT NULL,
    length INTEGER NOT NULL, backout_count INTEGER NOT NULL DEFAULT 0, got INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0, unit BLOB, consumer BLOB, claim INTEGER, descriptor BLOB NOT NULL, data BLOB
);
CREATE TABLE body (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TRIGGER message_body AFTER DELETE ON message WHEN OLD.data IS NULL BEGIN DELETE FROM body WHERE id = OLD.id; END;
CREATE TABLE object (
    space TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL UNIQUE, kind TEXT NOT NULL,
    attributes BLOB NOT NULL, PRIMARY KEY (space, name)
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
"""


def old_store(
    path: Path, messages: Iterable[MessageRow], objects: Iterable[ObjectRow], high_water: int, *, killed: bool
) -> None:
    """Make one in the directory `path`. One whose queue manager was `killed` has all rows in its write-ahead log."""
    path.mkdir(parents=True, exist_ok=True)
    made = path if not killed else path / "made"
    made.mkdir(exist_ok=True)
    with closing(sqlite3.connect(made / "evermq.db", isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA page_size = 8192")
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(SCHEMA)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("BEGIN")
        for row in messages:
            inline = row.length <= 1024
            db.execute(
                "INSERT INTO message (id, queue, rank, persistent, descriptor, length, data, backout_count, got)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row._replace(data=row.data if inline else None)[:9],
            )
            if not inline:
                db.execute("INSERT INTO body VALUES (?, ?)", (row.id, row.data))
        db.executemany("INSERT INTO object VALUES (?, ?, ?, ?, ?)", objects)
        db.execute("INSERT INTO meta VALUES ('high_water', ?)", (high_water,))
        db.execute("COMMIT")
        if killed:
            for each in ("evermq.db", "evermq.db-wal"):
                (path / each).write_bytes((made / each).read_bytes())
    db.close()
    if killed:
        for file in made.iterdir():
            file.unlink()
        made.rmdir()


def to_older(database: Path, version: int, *, killed: bool) -> dict[str, bytes]:
    """Make the database of a store in which nobody holds a message, and handlers have left nothing, one of version 2 to
    4; its files by their names, with the write-ahead log where its queue manager was `killed`.
    """
    log = database.with_name(f"{database.name}-wal")
    columns, names = (
        (_COLUMNS, _NAMES) if version == 2 else (_COLUMNS + _COLUMNS_3, f"{_NAMES}, holder, sequence, place")
    )
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        newer = "SELECT count(*) FROM message WHERE holder OR sequence OR place OR length(handling)"
        assert db.execute(newer).fetchone() == db.execute("SELECT count(*) FROM put_key").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM step").fetchone() == (0,)
        db.executescript(TO_4 if version == 4 else TO_OLDER.format(columns=columns, names=names, version=version))
        db.execute("PRAGMA wal_checkpoint(RESTART)")
        files = {each.name: each.read_bytes() for each in (database, log)}
    db.close()
    return files if killed else {database.name: database.read_bytes()}


def is_refused_by_old_releases(path: Path) -> bool:
    """True if a release of version 1 that is started in the directory refuses: by its rule, a database that is ours and
    of a newer version. It would begin an empty store where there is none.
    """
    with closing(sqlite3.connect(path / "evermq.db")) as db:
        (application_id,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
    return bool(application_id == 0x45764D51 and version > VERSION)
