"""Explanations of what a user may do, asked of a queue manager that runs (security 9.1)."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.names import judging
from broker.core.security.rights import TYPE_WORDS, Q, Right, rights_of
from broker.mqi import MQOO, MQRC, Access, MQError, ObjectDescriptor
from broker.mqi.constants.objects import MQOT
from tests.security.world import MANAGER, World, world

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker import Connection

PROCESS = MQOT.PROCESS.value
USERS = ("alice", "bob", "carol", "root")
HASH = f"$scrypt$ln=15,r=8,p=1${'A' * 22}${'A' * 43}"
OBJECTS = [
    *((Q, name, "") for name in ("Q", "OTHER", "XQ", "ALIAS", "REMOTE", "MODEL", "NOPE")),
    (Q, "X", "QM2"), (Q, "OTHER", "QM8"), (Q, "OTHER", "QM9"), (Q, "Q", "QM1"), (Q, "X", "NOWHERE"),
    (PROCESS, "WORK", ""), (PROCESS, "NOPE", ""),
]  # fmt: skip
WANTED = [
    *("put", "get", "browse", "inq", "set", "put,get", "get,inq,browse"),
    *("put,setall", "put,setid", "put,passall", "put,passid,inq"),
]
RIGHTS = {
    "QUEUE": ["PUT", "GET,INQ", "ALLMQI", "ALLMQI", "ALL", "DSP,GET", "NONE"],
    "QMGR": ["CONNECT", "SETALL", "SETID,CONNECT"],
    "PROCESS": ["INQ"],
}
PROFILES = ("Q", "OTHER", "XQ", "ALIAS", "REMOTE", "MODEL", "*", "**", "O*", "X?")


def definitions(it: World) -> dict[tuple[str, str], dict[str, Any]]:
    """All definitions, without the instants of their changes."""
    found = it.manager.core.objects.definitions.items()
    return {key: {k: v for k, v in each.attributes.items() if not k.startswith("ALT")} for key, each in found}


async def run(it: World, commands: Iterable[str]) -> None:
    for command in commands:
        (reply,) = await it.owner.mqsc(command)
        assert reply.ok, (command, reply.text)


async def begin(it: World, random: Random) -> None:
    """Random users and records in place of those of the world before."""
    for space, name in list(it.manager.core.objects.definitions):
        if space == "AUTHREC":
            it.manager.core.objects.authority.delete(space, name)
            del it.manager.core.objects.definitions[space, name]
    for user in reversed(USERS):
        groups = ["mqm"] if user == "root" else random.sample(["app", "ops"], k=random.randint(0, 2))
        status = "DISABLED" if user != "root" and random.random() < 0.1 else "ENABLED"
        password = f"'{HASH}'" if random.random() < 0.8 or user == "root" else "NONE"
        listed = ",".join(f"'{each}'" for each in groups) or "' '"
        await run(it, [f"DEFINE USER('{user}') REPLACE GROUPS({listed}) STATUS({status}) PASSWORD({password})"])
    for _ in range(random.randint(0, 16)):
        about = random.choice([f"PROFILE('{random.choice(PROFILES)}') OBJTYPE(QUEUE)", "OBJTYPE(QMGR)"])
        if random.random() < 0.1:
            about = "PROFILE(WORK) OBJTYPE(PROCESS)"
        rights = {
            "QUEUE": ["PUT", "GET,INQ", "ALLMQI", "ALLMQI", "ALL", "DSP,GET", "NONE"],
            "QMGR": ["CONNECT", "SETALL", "SETID,CONNECT"],
        }
        given = random.choice(rights.get(about.rpartition("(")[2][:-1], ["INQ"]))
        whose = random.choice([f"PRINCIPAL('{user}')" for user in USERS] + ["GROUP('app')", "GROUP('ops')"])
        await run(it, [f"SET AUTHREC {about} {whose} AUTHADD({given})"])


async def opened(connection: Connection, about: tuple[int, str, str], wanted: str) -> MQRC | None:
    """The reason why an open for these rights fails."""
    object_type, name, q_mgr_name = about
    options, _ = judging.options_for(rights_of(wanted))
    od = ObjectDescriptor(object_name=name, object_q_mgr_name=q_mgr_name, object_type=object_type)
    try:
        async with connection.open(od, options):
            return None
    except MQError as error:
        return MQRC(error.reason)


async def explained(it: World, user: str, about: tuple[int, str, str], wanted: str) -> Access | MQRC:
    object_type, name, q_mgr_name = about
    try:
        return await it.owner.explain_open(
            name, for_=wanted, as_user=user, q_mgr_name=q_mgr_name, object_type=object_type
        )
    except MQError as error:
        return MQRC(error.reason)


async def granted(it: World, access: Access, user: str, about: set[tuple[int, str]]) -> None:
    """Run the commands of a grant: they change the records of that user for these objects, and nothing else."""
    before = definitions(it)
    await run(it, access.grant.splitlines())
    after = definitions(it)
    changed = {key for key in after | before if before.get(key) != after.get(key)}
    assert changed
    records = [after[key] for key in changed if key[0] == "AUTHREC"]
    assert {(each["ENTITY"], each["ENTTYPE"]) for each in records} <= {(user, 1)}
    assert {(each["OBJTYPE"], each["PROFILE"]) for each in records} <= about
    assert {key for key in changed if key[0] != "AUTHREC"} <= {("USER", user)}


@pytest.mark.parametrize("seed", range(20))
async def test_x9_1_what_is_explained_is_what_happens_and_is_granted_alone(seed: int) -> None:
    """250 random worlds each, of a queue manager that runs: users connect and open, or do not, as was explained."""
    random = Random(seed)
    counts = dict.fromkeys(["connected", "granted", "opened", "refused", "failed"], 0)
    async with world() as it:
        for _ in range(250):
            await begin(it, random)
            user, wanted = random.choice(USERS[:-1]), random.choice(WANTED)
            about = random.choice(OBJECTS)
            if not await connects(it, user):
                counts["refused"] += 1
                continue
            counts["connected"] += 1
            await opens(it, user, about, wanted, counts)
    assert min(counts.values()) > 5, counts


async def connects(it: World, user: str) -> bool:
    """True if the user is in, perhaps by what was granted to it."""
    access = await it.owner.explain_connect(user, from_="192.0.2.7")
    known = it.manager.core.objects.authority.users[user]
    if known.password:
        assert access.allowed == (await connecting(it, user) is None), access
    if not access.allowed and access.grant:
        await granted(it, access, user, {MANAGER})
        assert await connecting(it, user) is None
        assert (await it.owner.explain_connect(user, from_="192.0.2.7")).allowed
        return True
    assert access.allowed or not known.password, access
    return access.allowed


async def connecting(it: World, user: str) -> MQRC | None:
    try:
        async with it.connect(user):
            return None
    except MQError as error:
        return MQRC(error.reason)


async def opens(it: World, user: str, about: tuple[int, str, str], wanted: str, counts: dict[str, int]) -> None:
    async with it.connect(user) as connection:
        found = await explained(it, user, about, wanted)
        outcome = await opened(connection, about, wanted)
        if isinstance(found, MQRC):
            counts["failed"] += 1
            assert found == outcome
            return
        assert outcome == (None if found.allowed else MQRC.NOT_AUTHORIZED), found
        counts["opened"] += found.allowed
        if not found.allowed:
            judged = next(step.compared for step in found.steps if step.rule == "rights")
            word, _, name = judged.rpartition(" on ")[2].partition(" ")
            type = next(number for number, text in TYPE_WORDS.items() if text == word)
            await granted(it, found, user, {(type, name), MANAGER})
            counts["granted"] += 1
            again = await explained(it, user, about, wanted)
            with suppress(AttributeError):
                assert again.allowed  # type: ignore[union-attr]
            assert await opened(connection, about, wanted) == (again if isinstance(again, MQRC) else None)


async def test_x9_1_who_asks_about_others_is_an_administrator() -> None:
    async with world() as it:
        await begin(it, Random(1))
        it.let_connect("alice", {"Q": Right.GET}, Right.DSP)
        async with it.connect("alice") as connection:
            own = await connection.explain_open("Q", for_="get")
            assert (own.allowed, own.user) == (True, "alice")
            assert (await connection.explain_open("Q", for_="put", as_user="alice")).grant
            assert (await connection.explain_connect("alice", from_="192.0.2.7")).steps
            for call in (
                connection.explain_open("Q", for_="get", as_user="bob"),
                connection.explain_connect("bob", from_="192.0.2.7"),
            ):
                with pytest.raises(MQError) as refused:
                    await call
                assert (refused.value.reason, refused.value.detail) == (MQRC.NOT_AUTHORIZED, "not authorized")
        async with it.connect("root") as connection:
            assert (await connection.explain_open("Q", for_="get", as_user="alice")).allowed


async def test_x9_1_the_owner_is_not_judged() -> None:
    async with world() as it:
        own = await it.owner.explain_open("Q", for_="put")
        assert (own.allowed, own.steps[0].rule) == (True, "owner")


async def test_x9_1_the_name_that_is_judged_is_told_where_it_is_another() -> None:
    async with world() as it:
        access = await it.owner.explain_open("OTHER", q_mgr_name="QM8", for_="put", as_user="alice")
        assert str(access.steps[0]) == "name: OTHER at QM8: judged is QUEUE XQ"
        assert access.grant == "SET AUTHREC PROFILE('XQ') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT)"


async def test_x9_1_who_makes_a_temporary_queue_needs_no_record_for_it() -> None:
    async with world() as it:
        it.let_connect("alice", {"MODEL": Right.GET | Right.DSP})
        async with it.connect("alice") as connection, connection.open("MODEL", MQOO.INPUT_SHARED) as made:
            access = await connection.explain_open(made.name, for_="put")
            assert (access.allowed, access.steps[-1].verdict) == (True, "allowed: it has made the queue")
            assert not (await it.owner.explain_open(made.name, for_="put", as_user="bob")).allowed


async def test_x9_1_rights_of_commands_are_explained_too() -> None:
    async with world() as it:
        access = await it.owner.explain_open("Q", for_="dsp,CLR", as_user="bob")
        assert access.grant == "SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(CLR,DSP)"
        access = await it.owner.explain_open("", for_="chg", as_user="bob", object_type=MQOT.Q_MGR)
        assert access.grant == "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CHG)"


@pytest.mark.parametrize(
    ("question", "reason", "what"),
    [
        ({"for_": "putt"}, MQRC.OPTIONS_ERROR, "'putt' is no right"),
        ({"for_": ""}, MQRC.OPTIONS_ERROR, "'' is no right"),
        ({"for_": "put", "object_type": 99}, MQRC.OBJECT_TYPE_ERROR, "99"),
        ({"for_": "put", "object_type": MQOT.NAMELIST}, MQRC.OBJECT_TYPE_ERROR, "NAMELIST"),
        ({"from_": "192.0.2"}, MQRC.OPTIONS_ERROR, "192.0.2"),
        ({"from_": "192.0.2.7", "subject": "bob"}, MQRC.SSL_PEER_NAME_ERROR, "bob"),
    ],
)
async def test_x9_1_a_question_that_makes_no_sense_is_refused(
    question: dict[str, Any], reason: MQRC, what: str
) -> None:
    async with world() as it:
        with pytest.raises(MQError) as refused:
            if "from_" in question:
                await it.owner.explain_connect("bob", **question)
            else:
                await it.owner.explain_open("Q", as_user="bob", **question)
        assert refused.value.reason == reason
        assert what in refused.value.detail


async def test_x9_1_a_channel_that_is_stopped_or_asks_for_tls_is_told() -> None:
    async with world() as it:
        await begin(it, Random(1))
        await run(it, ["DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS13)"])
        plain = await it.owner.explain_connect("root", from_="192.0.2.7", channel="APP", plain=True)
        assert str(plain.steps[-1]) == "CHANNEL(APP) SSLCIPH(ANY_TLS13): a plain line: refused"
        await run(it, ["STOP CHANNEL(APP)"])
        stopped = await it.owner.explain_connect("root", from_="192.0.2.7", channel="APP")
        assert stopped.steps[-1].verdict == "refused: it is stopped"


async def test_x9_1_runcheck_shows_the_record_that_counts_and_what_explain_says() -> None:
    async with world() as it:
        await begin(it, Random(1))
        await run(
            it,
            [
                f"DEFINE USER('mary') PASSWORD('{HASH}')",
                "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)",
                "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('192.0.2.*') USERSRC(NOACCESS)",
                "SET CHLAUTH('*') TYPE(USERMAP) CLNTUSER('mary') USERSRC(CHANNEL)",
            ],
        )
        asked = "DISPLAY CHLAUTH(APP) MATCH(RUNCHECK) ADDRESS('192.0.2.7') CLNTUSER('mary')"
        (reply,) = await it.owner.mqsc(asked)
        (shown,) = reply.attributes
        assert (shown["CHLAUTH"], shown["TYPE"], shown["ADDRESS"]) == ("APP", "ADDRESSMAP", "192.0.2.*")
        access = await it.owner.explain_connect("mary", from_="192.0.2.7", channel="APP")
        assert reply.text.splitlines()[3:] == [*map(str, access.steps), *access.grant.splitlines()]
        await run(it, access.grant.splitlines())
        (reply,) = await it.owner.mqsc(asked)
        assert reply.attributes[0]["TYPE"] == "USERMAP"
        (reply,) = await it.owner.mqsc("DISPLAY CHLAUTH(APP) MATCH(RUNCHECK) ADDRESS('192.0.2.7') SSLPEER('bob')")
        assert (reply.ok, reply.code) == (False, "AMQ8425E")
