"""Events and log lines about users (security 9.2), and that no secret is in them (9.3)."""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.security.admission import admit
from broker.core.security.partner import Partner, Posture, Proof
from broker.core.security.rights import Right
from broker.log_rate import LINES_A_SECOND
from broker.mqi import MQAT, MQCA, MQCO, MQIA, MQOO, MQRC, MQError, ObjectDescriptor
from broker.mqi.constants.objects import MQOT
from broker.mqi.structures import ObjectRecord
from tests.conformance.test_events import Event, event_of
from tests.security.test_explain import HASH, run
from tests.security.world import World, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker import Connection

QUALIFIER, COMMAND, OPTIONS = 1020, 1021, 1022  # MQIACF
APPL_NAME, OBJECT_Q_MGR, USER = 3024, 3023, 3025  # MQCACF
CHANNEL, CONNECTION, PEER, STAGE, CLIENT_USER, RETURN_CODE = 3501, 3506, 3545, 3546, 3567, 1533  # MQCACH, MQIACH
Q_MGR_EVENT, CHANNEL_EVENT = 44, 46  # MQCMD
OWN: dict[int, Any] = {MQCA.Q_MGR_NAME: "QM1"}
PROGRAM: dict[int, Any] = {MQIA.APPL_TYPE: MQAT.UNIX, APPL_NAME: "program"}
SUBJECT = (("CN", "app1"), ("O", "Example"))


async def events_on(it: World, q_name: str) -> list[Event]:
    found: list[Event] = []
    async with it.owner.open(q_name, MQOO.INPUT_SHARED) as queue:
        try:
            while True:
                found.append(event_of(await queue.get()))
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
    return found


async def authority(it: World) -> list[Event]:
    return await events_on(it, "SYSTEM.ADMIN.QMGR.EVENT")


def not_authorized(parameters: dict[int, Any]) -> list[Event]:
    return [Event(Q_MGR_EVENT, MQRC.NOT_AUTHORIZED, OWN | parameters)]


async def fails(call: Any) -> None:
    with pytest.raises(MQError) as refused:
        await call
    assert (refused.value.reason, refused.value.detail) == (MQRC.NOT_AUTHORIZED, "not authorized")


async def opening(connection: Connection, od: ObjectDescriptor, options: int) -> None:
    async with connection.open(od, options):
        pass


async def test_x9_2_type_1_tells_who_may_not_connect() -> None:
    async with world() as it:
        await run(it, ["ALTER QMGR AUTHOREV(ENABLED)"])
        with pytest.raises(MQError):
            it.connect("stranger")
        assert await authority(it) == not_authorized({QUALIFIER: 1, USER: "stranger", **PROGRAM})


@pytest.mark.parametrize(
    ("od", "options", "named"),
    [
        (ObjectDescriptor(object_name="Q"), MQOO.OUTPUT, {MQCA.Q_NAME: "Q"}),
        (
            ObjectDescriptor(object_name="X", object_q_mgr_name="QM8"),
            MQOO.OUTPUT,
            {OBJECT_Q_MGR: "QM8", MQCA.Q_NAME: "X"},
        ),
        (ObjectDescriptor(object_name="MODEL"), MQOO.INPUT_SHARED, {MQCA.Q_NAME: "MODEL"}),
        (
            ObjectDescriptor(object_name="WORK", object_type=MQOT.PROCESS),
            MQOO.INQUIRE,
            {MQCA.PROCESS_NAME: "WORK"},
        ),
        (ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.INQUIRE, {}),
    ],
)
async def test_x9_2_type_2_tells_what_may_not_be_opened(
    od: ObjectDescriptor, options: int, named: dict[int, str]
) -> None:
    async with world() as it:
        await run(it, ["ALTER QMGR AUTHOREV(ENABLED)"])
        it.let_connect("alice")
        async with it.connect("alice") as connection:
            await fails(opening(connection, od, options))
        told = not_authorized({QUALIFIER: 2, OPTIONS: options, USER: "alice", **PROGRAM, **named})
        assert await authority(it) == told
        (found,) = told
        assert [*found.parameters][:2] == [MQCA.Q_MGR_NAME, QUALIFIER]


async def test_x9_2_type_2_is_told_of_put1_too_by_whatever_way_it_goes() -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.PUT})
        async with it.connect("alice") as connection:
            await connection.put1("Q", b"x")  # the way is known from now on
            await run(it, ["ALTER QMGR AUTHOREV(ENABLED)"])
            await connection.put1("Q", b"x")
            it.let_connect("alice", {"Q": Right.NONE})
            await fails(connection.put1("Q", b"x"))
        assert await authority(it) == not_authorized(
            {QUALIFIER: 2, OPTIONS: MQOO.OUTPUT, USER: "alice", **PROGRAM, MQCA.Q_NAME: "Q"}
        )


async def test_x9_2_type_2_is_told_of_each_destination_of_a_list() -> None:
    async with world() as it:
        await run(it, ["ALTER QMGR AUTHOREV(ENABLED)"])
        it.let_connect("alice", {"Q": Right.PUT})
        async with it.connect("alice") as connection:
            for names in (("Q", "OTHER"), ("OTHER",)):
                records = [ObjectRecord(object_name=name) for name in names]
                with suppress(MQError):
                    await opening(connection, ObjectDescriptor(records=records), MQOO.OUTPUT)
                told = {QUALIFIER: 2, OPTIONS: MQOO.OUTPUT, USER: "alice", **PROGRAM, MQCA.Q_NAME: "OTHER"}
                assert await authority(it) == not_authorized(told)


async def test_x9_2_type_3_tells_what_may_not_be_deleted_by_a_close() -> None:
    async with world() as it:
        await run(it, ["ALTER QMGR AUTHOREV(ENABLED)"])
        it.let_connect("alice", {"LASTING": Right.GET | Right.DSP, "L.*": Right.GET})
        od = ObjectDescriptor(object_name="LASTING", dynamic_q_name="L.1")
        async with it.owner.open(od, MQOO.INPUT_SHARED):
            pass
        async with it.connect("alice") as connection, connection.open("L.1", MQOO.INPUT_SHARED) as queue:
            await fails(queue.close(MQCO.DELETE))
        assert await authority(it) == not_authorized({QUALIFIER: 3, MQCA.Q_NAME: "L.1", USER: "alice", **PROGRAM})


async def test_x9_2_type_4_tells_whose_commands_are_not_run() -> None:
    async with world() as it:
        await run(it, ["ALTER QMGR AUTHOREV(ENABLED)"])
        it.let_connect("alice")
        async with it.connect("alice") as connection:
            await fails(connection.mqsc("DISPLAY QMGR"))
        assert await authority(it) == not_authorized({QUALIFIER: 4, COMMAND: 38, USER: "alice"})


async def test_x9_2_a_switch_that_is_off_tells_nothing() -> None:
    async with world() as it:
        it.let_connect("alice")
        async with it.connect("alice") as connection:
            await fails(opening(connection, ObjectDescriptor(object_name="Q"), MQOO.OUTPUT))
        for partner in PARTNERS:
            await refuse(it, partner)
        assert await authority(it) == await events_on(it, "SYSTEM.ADMIN.CHANNEL.EVENT") == []


# Connections that the listener refuses

RULES = [
    f"DEFINE USER('root') GROUPS('mqm') PASSWORD('{HASH}')",
    f"DEFINE USER('bob') PASSWORD('{HASH}')",
    "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)",
    "DEFINE CHANNEL(TLS) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS13) SSLPEER('CN=app2') SSLCAUTH(OPTIONAL)",
    "DEFINE CHANNEL(CERT) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS13) SSLCAUTH(REQUIRED)",
    "SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('192.0.2.66')",
    "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('192.0.2.8') USERSRC(NOACCESS)",
    "SET CHLAUTH(APP) TYPE(SSLPEERMAP) SSLPEER('O=Example') USERSRC(NOACCESS)",
    "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('192.0.2.9') USERSRC(NOACCESS) WARN(YES)",
]
TLS13 = {"protocol": "TLSv1.3", "suite": "TLS_AES_256_GCM_SHA384"}


def bob(channel: str = "APP", address: str = "192.0.2.7", **more: Any) -> Partner:
    return Partner(channel, address, "bob", Proof.PASSWORD)._replace(**more)


PARTNERS = [
    bob(address="192.0.2.66"), bob(address="192.0.2.8"), bob(subject=SUBJECT, **TLS13), bob(user="root"),
    bob(address="192.0.2.9"), bob("TLS"), bob("CERT", **TLS13), bob("TLS", subject=SUBJECT, **TLS13),
    bob("TLS", **TLS13), bob(proof=Proof.FAILED), bob("NO.SUCH"),
]  # fmt: skip

AT = {CONNECTION: "192.0.2.7"}
APP = {CHANNEL: "APP"}
BLOCKED = [
    (MQRC.CHANNEL_BLOCKED, {QUALIFIER: 21, CONNECTION: "192.0.2.66"}),
    (MQRC.CHANNEL_BLOCKED, {QUALIFIER: 23, **APP, CONNECTION: "192.0.2.8", CLIENT_USER: "bob", **PROGRAM}),
    (
        MQRC.CHANNEL_BLOCKED,
        {QUALIFIER: 23, **APP, **AT, PEER: 'CN="app1",O="Example"', CLIENT_USER: "bob", **PROGRAM},
    ),
    (MQRC.CHANNEL_BLOCKED, {QUALIFIER: 22, **APP, USER: "root", **AT, **PROGRAM}),
    (
        MQRC.CHANNEL_BLOCKED_WARNING,
        {QUALIFIER: 23, **APP, CONNECTION: "192.0.2.9", CLIENT_USER: "bob", **PROGRAM},
    ),
]
TLS_ERRORS = [
    {QUALIFIER: 14, CHANNEL: "TLS", **AT},
    {QUALIFIER: 15, CHANNEL: "CERT", **AT},
    {QUALIFIER: 16, CHANNEL: "TLS", **AT, PEER: 'CN="app1",O="Example"'},
    {QUALIFIER: 15, CHANNEL: "TLS", **AT},
]


async def refuse(it: World, partner: Partner) -> None:
    """Tell the outcome of an admission, as a login does."""
    core = it.manager.core
    admission = admit(core.objects.authority, partner, Posture.of(core.objects.definition.attributes, trusts=False))
    log = it.manager.context.security_log
    if admission.lacking is not None:
        log.connection_refused(admission, partner, "program")
    if admission.warned:
        log.connection_warned(admission, partner, "program")
    if admission.admitted:
        log.connected(admission.user, partner, "program")


async def refused_events(it: World, switch: str) -> Sequence[tuple[int, int, dict[int, int | str]]]:
    await run(it, [*RULES, f"ALTER QMGR {switch}(ENABLED)"])
    for partner in PARTNERS:
        await refuse(it, partner)
    return await events_on(it, "SYSTEM.ADMIN.CHANNEL.EVENT")


async def test_x9_2_chlev_tells_whom_a_rule_of_channels_blocks_or_warns_of() -> None:
    async with world() as it:
        expected = [Event(CHANNEL_EVENT, reason, OWN | parameters) for reason, parameters in BLOCKED]
        assert await refused_events(it, "CHLEV") == expected


async def test_x9_2_sslev_tells_of_lines_that_a_channel_does_not_take() -> None:
    async with world() as it:
        expected = [Event(CHANNEL_EVENT, MQRC.CHANNEL_SSL_ERROR, OWN | parameters) for parameters in TLS_ERRORS]
        assert await refused_events(it, "SSLEV") == expected
        it.manager.context.security_log.handshake_failed("192.0.2.7", "unknown ca")
        (event,) = await events_on(it, "SYSTEM.ADMIN.CHANNEL.EVENT")
        assert event.parameters == OWN | {QUALIFIER: 13, **AT, STAGE: "unknown ca", RETURN_CODE: 0}
        it.manager.context.security_log.handshake_failed("192.0.2.7", "w" * 100)
        await refuse(it, bob("TLS", subject=(("CN", "ü" * 2000),), **TLS13))
        handshake, peer = await events_on(it, "SYSTEM.ADMIN.CHANNEL.EVENT")
        assert (handshake.parameters[STAGE], peer.parameters[PEER]) == ("w" * 32, 'CN="' + "ü" * 510)


async def test_x9_2_authorev_tells_of_a_login_that_proves_nothing() -> None:
    async with world() as it:
        await refused_events(it, "AUTHOREV")
        assert await authority(it) == not_authorized({QUALIFIER: 1, USER: "bob", **PROGRAM})


# The log


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name.endswith("security_log")]
    caplog.clear()
    return found


async def test_x9_2_the_log_has_step_and_rule_of_what_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world() as it:
        it.let_connect("alice")
        caplog.clear()
        with pytest.raises(MQError):
            it.connect("stranger")
        async with it.connect("alice") as connection:
            await fails(opening(connection, ObjectDescriptor(object_name="Q"), MQOO.OUTPUT))
            await fails(opening(connection, ObjectDescriptor(object_name="MODEL"), MQOO.INPUT_SHARED))
            await fails(connection.status())
            await fails(connection.mqsc("DISPLAY QMGR"))
        begins = "not_authorized user=alice application="
        assert lines(caplog) == [
            "not_authorized user=stranger application=program step=connect rule=stranger has no CONNECT on QMGR",
            f"{begins}program step=open rule=alice has no PUT on QUEUE Q",
            f"{begins}program step=open rule=alice has no GET,DSP on QUEUE MODEL",
            f"{begins} step=call rule=alice has no DSP on QMGR",
            f"{begins} step=command rule=alice has no DSP on QMGR",
        ]


async def test_x9_2_the_log_has_ten_lines_a_second_of_one_user_and_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with world() as it:
        it.let_connect("alice")
        it.let_connect("bob")
        caplog.clear()
        log = it.manager.context.security_log
        now = 1000.0
        log._clock = clock = Clock(now)  # type: ignore[assignment]
        async with it.connect("alice") as connection, it.connect("bob") as other:
            for _ in range(LINES_A_SECOND + 5):
                await fails(connection.status())
            await fails(other.status())
            found = lines(caplog)
            assert [each.split()[1] for each in found].count("user=alice") == LINES_A_SECOND
            assert "lines_left_out after=not_authorized lines=5" in found
            clock.now += 1
            await fails(connection.status())
            assert [each.split()[1] for each in lines(caplog)] == ["user=alice"]


class Clock:
    """A clock that stands."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


async def test_x9_2_the_log_has_each_command_of_security_with_its_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world() as it, it.manager.connect("program", user="admin") as connection:
        caplog.clear()
        for command in CHANGES + UNTOLD:
            (reply,) = await connection.mqsc(command)
            assert reply.ok, reply.text
        await connection.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL(bob) AUTHADD(NOSUCH)")
        told = [f"security_changed user=admin command={command}".replace(f"'{HASH}'", "***") for command in CHANGES]
        assert lines(caplog) == told


CHANGES = [
    f"DEFINE USER('root') GROUPS('mqm') PASSWORD('{HASH}')",
    "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)",
    "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)",
    "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('192.0.2.8') USERSRC(NOACCESS)",
    "ALTER QMGR CONNAUTH(' ')",
    "STOP CHANNEL(APP)",
    "REFRESH SECURITY",
    "DELETE AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob')",
]
UNTOLD = ["ALTER QMGR DESCR('x')", "ALTER QLOCAL(Q) DESCR('x')", "DISPLAY CHLAUTH(*)", "DISPLAY USER(*)"]


async def test_x9_2_the_log_has_who_came_in_and_who_did_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with world() as it:
        await run(it, RULES)
        caplog.clear()
        await refuse(it, bob())
        await refuse(it, bob(address="192.0.2.8"))
        it.manager.context.security_log.credential_expired("bob", "APP", "192.0.2.7")
        assert lines(caplog) == [
            "connected user=bob application=program channel=APP peer=192.0.2.7 proof=password",
            "connection_refused user=bob application=program channel=APP peer=192.0.2.8 step=no access rule="
            "CHLAUTH('APP') TYPE(ADDRESSMAP) ADDRESS('192.0.2.8') USERSRC(NOACCESS): channel APP, address 192.0.2.8, "
            "user bob: refused",
            "credential_expired user=bob channel=APP peer=192.0.2.7",
        ]


# Secrets


async def test_x9_3_no_secret_is_in_logs_events_reprs_tracebacks_status_or_explanations(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "Canary0Canary0Canary0"
    digest = f"$scrypt$ln=15,r=8,p=1${canary}A${canary * 2}A"
    said: list[object] = []
    async with world() as it:
        commands = [
            "ALTER QMGR AUTHOREV(ENABLED) CHLEV(ENABLED) SSLEV(ENABLED)",
            f"DEFINE USER('bob') GROUPS('mqm') PASSWORD('{digest}')",
            f"ALTER USER('bob') PASSWORD('{canary}')",
            f"ALTER USER('bob') PASSWORD({canary}",
            f"DEFINE USER('carol') PASSWRD('{canary}')",
            "DISPLAY USER('bob') ALL",
            "DISPLAY CHLAUTH(EVERMQ.SVRCONN) MATCH(RUNCHECK) ADDRESS('192.0.2.7') CLNTUSER('bob')",
        ]
        for command in commands:
            said += await it.owner.mqsc(command)
        assert it.manager.core.objects.authority.users["bob"].password == digest
        it.let_connect("alice")
        async with it.connect("alice") as connection:
            with pytest.raises(MQError) as refused:
                await connection.mqsc(f"ALTER USER('bob') PASSWORD('{digest}')")
            said += traceback.format_exception(refused.value)
            with pytest.raises(MQError) as refused:
                await connection.explain_open("Q", for_="put", as_user="bob")
            said += [repr(refused.value), str(refused.value), *traceback.format_exception(refused.value)]
        for partner in PARTNERS:
            await refuse(it, partner)
        said += [
            await it.owner.explain_connect("bob", from_="192.0.2.7"),
            await it.owner.explain_open("Q", for_="put", as_user="bob"),
            await it.owner.status(),
            *await authority(it),
            *await events_on(it, "SYSTEM.ADMIN.CHANNEL.EVENT"),
        ]
    said += [record.getMessage() for record in caplog.records]
    assert len(said) > 20
    assert not [each for each in said if "Canary" in repr(each)]
