"""Users, records, channels and rules of a running queue manager: kept, told to the judge, gone with their objects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.commands.security.records import record_of_creator
from broker.core.names.definitions import OWN, Definition, Together
from broker.core.security.rights import Right
from broker.engine.jobs.awaits import Changed
from broker.mqi.constants.objects import MQOT
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.first_user import FIRST_USER, HASH

if TYPE_CHECKING:
    from broker import Connection

Q = MQOT.Q.value
CORPUS = sorted((Path(__file__).parents[1] / "commands" / "corpus").glob("*.mqsc"))
THERE_ALREADY = ("AMQ8150E", "EMQ0024E")
NOUNS = ("USER(*)", "AUTHINFO(*)", "CHANNEL(*)", "CHLAUTH('*')", "AUTHREC")


def opened(store: MemoryStore | FaultStore, *, defaults: str | None = None) -> QueueManager:
    return QueueManager.open(store=store, clock=VirtualClock(), defaults=defaults)


async def shown(connection: Connection) -> list[object]:
    """All that DISPLAY shows of users, authentication information, channels, rules and records."""
    replies = await connection.mqsc("\n".join(f"DISPLAY {noun} ALL" for noun in NOUNS))
    return [reply.attributes for reply in replies]


async def test_x2_1_what_the_corpus_defines_is_there_after_a_restart() -> None:
    store = MemoryStore()
    async with opened(store) as manager, manager.connect() as connection:
        for path in CORPUS:
            replies = await connection.mqsc(path.read_text())
            assert [reply.text for reply in replies if not reply.ok and reply.code not in THERE_ALREADY] == []
        before = await shown(connection)
        judged = manager.core.objects.authority
    async with opened(store) as manager, manager.connect() as connection:
        assert await shown(connection) == before
        again = manager.core.objects.authority
        assert (again.users, again.channels, again.auth_infos) == (judged.users, judged.channels, judged.auth_infos)
        assert again.rules == judged.rules
        assert again.rights("worker-1", Q, "TEAM.X") == judged.rights("worker-1", Q, "TEAM.X") != Right.NONE


async def test_the_judge_knows_of_each_change_when_it_is_answered() -> None:
    async with opened(MemoryStore()) as manager, manager.connect() as connection:
        authority = manager.core.objects.authority
        await connection.mqsc(f"{FIRST_USER}\nDEFINE USER('a') GROUPS('g')\nDEFINE QLOCAL(X)")
        for command, expected in (
            ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) GROUP('g') AUTHADD(PUT)", Right.PUT),
            ("SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a') AUTHADD(GET)", Right.PUT | Right.GET),
            ("ALTER USER('a') GROUPS('h')", Right.GET),
            ("DELETE AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a')", Right.NONE),
            ("ALTER USER('a') GROUPS('g')", Right.PUT),
            ("DELETE QLOCAL(X)", Right.NONE),
            ("DEFINE QLOCAL(X)", Right.NONE),
        ):
            (reply,) = await connection.mqsc(command)
            assert (reply.ok, authority.rights("a", Q, "X")) == (True, expected), command


async def test_a_record_and_its_object_are_one_transaction() -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as manager, manager.connect() as connection:
        await connection.mqsc(f"{FIRST_USER}\nDEFINE USER('a') GROUPS('g')")
        store.fill()
        (reply,) = await connection.mqsc(
            "SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a','b') GROUP('g') AUTHADD(PUT)"
        )
        assert (reply.ok, manager.core.objects.records) == (False, {})
        assert manager.core.objects.authority.rights("a", Q, "X") == Right.NONE
        store.make_room()
        (reply,) = await connection.mqsc(
            "SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a','b') GROUP('g') AUTHADD(PUT)"
        )
        assert (reply.ok, len(manager.core.objects.records[OWN, Q, "X"])) == (True, 3)


async def test_the_record_of_a_creator_is_made_with_the_object() -> None:
    store = MemoryStore()
    async with opened(store) as manager, manager.connect() as connection:
        record = record_of_creator(Definition("QLOCAL", "X", {}), "a", manager.catalog)
        assert record is not None
        core = manager.core
        frozen, rows = core.freeze(Together((record,)))
        assert [row.space for row in rows.objects] == ["AUTHREC"]
        core.apply(frozen)
        assert core.objects.authority.rights("a", Q, "X") & (Right.PUT | Right.DLT)
        await connection.mqsc("DEFINE QLOCAL(X)\nDELETE QLOCAL(X)")
        assert core.objects.records == {}
        assert Changed(record).changes == (record,)


async def test_a_queue_with_many_messages_goes_with_its_records() -> None:
    store = MemoryStore()
    async with opened(store) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(X)\nSET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a','b') AUTHADD(GET)")
        async with connection.unit_of_work():
            for _ in range(600):
                await connection.put1("X", b"A", persistence=1)
        (reply,) = await connection.mqsc("DELETE QLOCAL(X) PURGE")
        assert (reply.ok, manager.core.objects.records) == (True, {})
    async with opened(store) as manager:
        assert manager.core.objects.records == {}


async def test_x2_2_a_password_in_clear_is_in_no_byte(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    texts = []
    async with QueueManager.open(name="QM1", data=tmp_path / "data") as manager, manager.connect() as connection:
        await connection.mqsc(f"{FIRST_USER}\nDEFINE USER('a')")
        for command in SECRETS:
            (reply,) = await connection.mqsc(command)
            assert not reply.ok
            texts.append(reply.text)
        user = manager.core.objects.authority.users["a"]
        assert user.password == ""
    kept = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert "canary" not in "\n".join([*texts, caplog.text])
    assert [each for each in kept if b"canary" in each] == []
    assert "evermq user password" in texts[0]


SECRETS = [
    "ALTER USER('a') PASSWORD('canary')",
    "ALTER USER('a') PASSWORD('canary') STATUS(ENABLED)",
    "ALTER USER('a') STATUS(NONE) PASSWORD('canary')",
    "ALTER USER('a') PASSWORD('canary') FOO(BAR)",
    "ALTER USER('a') FOO(BAR) PASSWORD('canary')",
    "ALTER USER('a') PASSWRD('canary')",
    "ALTER USER('a') PASWORD(canary)",
    "ALTER USER('a') PASSWORD(a canary)",
    "ALTER USER('a') PASSWORD('canary",
    "ALTER USER('a') PASSWORD(\"it's canary\") PASSWORD('canary')",
    "ALTER USER('a') PASSWORD($canary)",
    "ALTER QLOCAL(Q) PASSWORD('canary')",
    "FROB USER('a') PASSWORD('canary')",
    "DEFINE USER('b') PASSWORD('canary')",
    "DISPLAY USER(*) WHERE(PASSWORD EQ 'canary')",
    "DISPLAY USER(*) WHERE(PASSWORD LK canary*)",
    "ZMQSC ALTER QL-A PASSWORD-canary",
]


async def test_x2_2_a_hash_is_shown_as_set() -> None:
    async with opened(MemoryStore()) as manager, manager.connect() as connection:
        replies = await connection.mqsc(
            f"DEFINE USER('a') PASSWORD('{HASH}') GROUPS('mqm')\nDEFINE USER(B) LIKE('a')", check=True
        )
        replies += await connection.mqsc("DISPLAY USER(*) PASSWORD")
        assert [row["PASSWORD"] for row in replies[-1].attributes] == ["NONE", "SET"]
        assert "scrypt" not in repr(replies)
        users = manager.core.objects.authority.users
        assert (users["a"].password, users["B"].password) == (HASH, "")
        await connection.mqsc("DEFINE USER('a') REPLACE DESCR('again')")
        assert users["a"].password == HASH
        await connection.mqsc("ALTER USER('a') PASSWORD(NONE)")
        assert users["a"].password == ""


async def test_channels_are_stopped_and_started() -> None:
    heard: list[object] = []
    async with opened(MemoryStore()) as manager, manager.connect() as connection:
        manager.commands.security.followers.append(heard.append)
        stopped = manager.core.objects.stopped_channels
        codes = [reply.code for reply in await connection.mqsc("DEFINE CHL(C) CHLTYPE(SVRCONN)\nSTOP CHL(C)")]
        assert (codes, stopped) == (["AMQ8014I", "AMQ8019I"], {"C"})
        codes = [
            reply.code for reply in await connection.mqsc("START CHL(C)\nSTOP CHL(C) STATUS(INACTIVE)\nSTART CHL(D)")
        ]
        assert (codes, stopped) == (["AMQ8018I", "AMQ8019I", "AMQ8147E"], set())
        await connection.mqsc("STOP CHL(C)\nDELETE CHL(C)\nREFRESH SECURITY TYPE(SSL)")
        assert stopped == set()
        assert [type(each).__name__ for each in heard] == [
            "StopChannelRequest", "StartChannelRequest", "StopChannelRequest", "StopChannelRequest",
            "RefreshSecurityRequest",
        ]  # fmt: skip
        (reply,) = await connection.mqsc(["DEFINE CHL(S) CHLTYPE(SDR)", "START CHL(S)"][0])
        (reply,) = await connection.mqsc("START CHL(S)")
        assert reply.code == "EMQ0001E"


async def test_entauth_shows_the_rights_of_all_records_together() -> None:
    async with opened(MemoryStore()) as manager, manager.connect() as connection:
        await connection.mqsc(FIRST_USER)
        await connection.mqsc("""
            DEFINE USER('a') GROUPS('g')
            SET AUTHREC PROFILE('X*') OBJTYPE(QUEUE) GROUP('g') AUTHADD(PUT)
            SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a') AUTHADD(GET)
        """)
        (reply,) = await connection.mqsc("DISPLAY ENTAUTH PRINCIPAL('a') OBJNAME(X) OBJTYPE(QUEUE)")
        assert reply.text.split("\n")[0] == "AMQ8866I: Display entity authority details."
        assert reply.attributes[0]["AUTHLIST"] == "GET,PUT"
        (reply,) = await connection.mqsc("DISPLAY ENTAUTH GROUP('g') OBJNAME(X) OBJTYPE(QUEUE)")
        assert (reply.attributes[0]["AUTHLIST"], reply.attributes[0]["ENTTYPE"]) == ("PUT", "GROUP")
        (reply,) = await connection.mqsc("DISPLAY ENTAUTH PRINCIPAL('mqm') OBJTYPE(QMGR)")
        assert reply.attributes[0]["AUTHLIST"] == "ALTUSR,CHG,CONNECT,CRT,CTRL,DSP,INQ,SET,SETALL,SETID"


@pytest.mark.parametrize(("defaults", "word"), [(None, "REQUIRED"), ("mq", "REQDADM")])
async def test_clients_prove_who_they_are_unless_ibms_defaults_are_asked_for(defaults: str | None, word: str) -> None:
    async with opened(MemoryStore(), defaults=defaults) as manager, manager.connect() as connection:
        (reply,) = await connection.mqsc("DISPLAY AUTHINFO(*) ALL")
        (row,) = reply.attributes
        assert (row["CHCKCLNT"], row["CHCKLOCL"], row["ADOPTCTX"], row["FAILDLAY"]) == (word, "OPTIONAL", "YES", 1)


async def test_rules_that_were_removed_stay_away() -> None:
    store = MemoryStore()
    async with opened(store) as manager, manager.connect() as connection:
        assert len(manager.core.objects.authority.rules) == 5
        await connection.mqsc("SET CHLAUTH('*') TYPE(BLOCKUSER) ACTION(REMOVEALL)\nDELETE CHANNEL(EVERMQ.SVRCONN)")
    async with opened(store) as manager:
        assert len(manager.core.objects.authority.rules) == 4
        assert "EVERMQ.SVRCONN" in manager.core.objects.authority.channels


async def test_connauth_that_checks_nobody_is_warned_of() -> None:
    async with opened(MemoryStore()) as manager, manager.connect() as connection:
        replies = await connection.mqsc("""
            DEFINE AUTHINFO(L) AUTHTYPE(IDPWLDAP)
            ALTER QMGR CONNAUTH(L)
            ALTER QMGR CONNAUTH(NOSUCH)
            ALTER QMGR CONNAUTH(' ')
            ALTER QMGR CONNAUTH(SYSTEM.DEFAULT.AUTHINFO.IDPWOS)
        """)
        assert [[line[:9] for line in reply.warnings] for reply in replies] == [
            ["EMQ0002W:"], ["EMQ0025W:"], ["EMQ0025W:"], [], [],
        ]  # fmt: skip
