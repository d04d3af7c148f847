"""/metrics: the text of the figures, who may read it, and how often it is taken."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metric_families
from prometheus_client.parser import text_string_to_metric_families

from broker import MQError, QueueManager
from broker.config import Config, QueueManagerConfig, TokensConfig
from broker.http.served_manager import ManagerInProcess
from broker.mqi import MQRC
from tests.engine.security.issuer import AUDIENCE, ISSUER, key_set, token
from tests.http.client import ask
from tests.http.conftest import FREE, port_of, serving
from tests.security.lines import hashed
from tests.server.security.conftest import Files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.http.entrance import CallerCredentials
    from broker.testing import VirtualClock

ROOT = f"""
DEFINE USER('root') GROUPS('mqm') PASSWORD('{hashed()}')
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)
"""

USERS = f"""
{ROOT}
DEFINE USER('alice') PASSWORD('{hashed("correct horse")}')
DEFINE USER('bob') PASSWORD('{hashed("battery staple")}')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,DSP)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(DSP)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
"""


def basic(user: str, password: str) -> str:
    return f"Authorization: Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


async def run(manager: QueueManager, commands: str) -> None:
    async with manager.connect() as owner:
        for reply in await owner.mqsc(commands):
            assert reply.ok, reply.text


def families_of(text: str) -> dict[str, Any]:
    """The families of a text, by their names."""
    return {each.name: each for each in text_string_to_metric_families(text)}


def samples(text: str, family: str) -> dict[str, float]:
    """The values of a family, by their queues."""
    found = families_of(text).get(family)
    return {} if found is None else {each.labels["queue"]: each.value for each in found.samples}


# The text


async def test_the_figures_of_queue_manager_and_process_are_one_text(manager: QueueManager, port: int) -> None:
    async with manager.connect() as connection:
        await connection.put1("Q", b"A")
    answer = await ask(port, "/metrics")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert samples(answer.text, "evermq_queue_depth") == {"Q": 1, "R": 0}
    assert families_of(answer.text).keys() >= {
        "evermq_info",
        "process_cpu_seconds",
        "process_open_fds",
        "python_gc_objects_collected",
    }


async def test_openmetrics_is_given_to_who_asks_for_it(port: int) -> None:
    wanted = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    answer = await ask(port, "/metrics", wanted)
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {each.name: each for each in open_metric_families(answer.text)}  # type: ignore[no-untyped-call]
    assert families["process_cpu_seconds"].type == "counter"
    assert families["evermq_queue_puts"].type == "counter"
    assert families["evermq_queue_depth"].type == "gauge"
    assert (
        (await ask(port, "/metrics", "Accept: application/openmetrics-text;q=0"))
        .headers["content-type"]
        .startswith("text/plain")
    )


async def test_parameters_choose_the_series(manager: QueueManager, port: int) -> None:
    assert samples((await ask(port, "/metrics?queue=Q*")).text, "evermq_queue_depth") == {"Q": 0}
    assert samples((await ask(port, "/metrics?per=none")).text, "evermq_queue_depth") == {}
    assert (await ask(port, "/metrics?names=ibmmq")).status == 200


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("queu=Q", "'queu' is no parameter; there are queue, per, names, each once\n"),
        ("queue=Q&queue=R", "'queue' is given twice; there are queue, per, names, each once\n"),
        ("per=handler", None),
        ("names=prometheus", None),
        ("queue=a+b", None),
    ],
)
async def test_what_is_no_parameter_is_answered_with_those_that_there_are(
    port: int, query: str, text: str | None
) -> None:
    answer = await ask(port, f"/metrics?{query}")
    assert answer.status == 400
    assert answer.text == text or (text is None and answer.text.startswith("MQRC_"))


async def test_the_settings_bound_the_queues(manager: QueueManager) -> None:
    async with serving(manager, listen=FREE, queues_max=1) as server:
        answer = await ask(port_of(server), "/metrics")
        assert len(samples(answer.text, "evermq_queue_depth")) == 1
        assert "evermq_queues_left_out 1\n" in answer.text


async def test_figures_of_a_queue_manager_that_quiesces_cannot_be_had(manager: QueueManager) -> None:
    async with serving(manager) as server:
        await manager.quiesce(0)
        answer = await ask(port_of(server), "/metrics")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.text == "MQRC_Q_MGR_QUIESCING (2161): QM1 is quiescing\n"


# How often it is taken


class Counted(ManagerInProcess):
    """Counts scrapes, and holds them while it is told to."""

    def __init__(self, manager: QueueManager) -> None:
        super().__init__(manager)
        self.scrapes = self.running = self.most = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    @asynccontextmanager
    async def as_server(self) -> AsyncIterator[Any]:
        yield self

    async def figures(self, **asked: object) -> str:
        self.scrapes += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go_on.wait()
        self.running -= 1
        return f"scrape {self.scrapes}\n"


async def test_one_scrape_runs_at_a_time_and_is_given_to_all_who_ask_the_same_within_a_second(
    manager: QueueManager, clock: VirtualClock
) -> None:
    counted = Counted(manager)
    async with serving(manager, counted, listen=FREE, probes=FREE) as server:
        counted.go_on.clear()
        asking = [
            asyncio.ensure_future(ask(port_of(server, number % 2), path))
            for number, path in enumerate(["/metrics", "/metrics", "/metrics", "/metrics?per=none"])
        ]
        while counted.running < 1:  # noqa: ASYNC110  # requests are on their way through sockets
            await asyncio.sleep(0)
        assert (await ask(port_of(server), "/livez")).status == 200
        counted.go_on.set()
        answers = [answer.text.partition("\n")[0] for answer in await asyncio.gather(*asking)]
        assert (sorted(set(answers)), counted.scrapes, counted.most) == (["scrape 1", "scrape 2"], 2, 1)
        assert len({answers[0], answers[1], answers[2]}) == 1
        assert (await ask(port_of(server), "/metrics")).text.startswith(answers[0])
        await clock.advance(1.1)
        assert (await ask(port_of(server), "/metrics")).text.startswith("scrape 3\n")


@pytest.mark.parametrize("metrics", ["open", "users"])
async def test_no_connection_stays_behind_a_scrape(manager: QueueManager, metrics: str) -> None:
    async with serving(manager, listen=FREE, metrics=metrics) as server:
        for path in ("/metrics", "/metrics", "/metrics?per=none", "/metrics?per=x"):
            await ask(port_of(server), path)
        assert len(manager.conversations) == 0


async def test_a_scrape_that_fails_is_given_to_nobody_else(manager: QueueManager) -> None:
    class Failing(Counted):
        async def figures(self, **asked: object) -> str:
            if not self.scrapes:
                self.scrapes = 1
                raise MQError(MQRC.CONNECTION_BROKEN, "it is broken")
            return await super().figures()

    async with serving(manager, Failing(manager)) as server:
        assert (await ask(port_of(server), "/metrics")).status == 503
        assert (await ask(port_of(server), "/metrics")).text.startswith("scrape 2\n")


# Who may read it


async def test_users_see_what_they_may_display_and_nobody_else_anything(manager: QueueManager) -> None:
    await run(manager, USERS)
    async with serving(manager, listen=FREE, metrics="users") as server:
        port = port_of(server)
        for wrong in ("X: y", basic("alice", "wrong"), basic("nobody", "x"), "Authorization: Bearer abc"):
            answer = await ask(port, "/metrics", wrong)
            assert (answer.status, answer.text) == (401, "not authorized\n")
            assert answer.headers["www-authenticate"] == (
                'Basic realm="EverMQ", charset="UTF-8", Bearer realm="EverMQ"'
            )
        assert (await ask(port, "/metrics", basic("bob", "battery staple"))).status == 403
        answer = await ask(port, "/metrics", basic("alice", "correct horse"))
        assert (answer.status, samples(answer.text, "evermq_queue_depth")) == (200, {"Q": 0})
        assert (await ask(port, "/livez")).status == 200


async def test_a_token_is_the_user_that_it_names(clock: VirtualClock, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set("ed-1"))
    tokens = TokensConfig(issuer=ISSUER, audience=AUDIENCE, jwks=str(tmp_path / "keys.json"))
    config = Config(queue_manager=QueueManagerConfig(name="QM1", data=None, defaults="mq"), tokens=tokens)
    async with QueueManager.open(config, clock=clock) as manager:
        await run(manager, f"DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)\n{USERS}")
        async with serving(manager, listen=FREE, metrics="users") as server:
            good, late = (f"Authorization: Bearer {token(sub='alice', exp=clock.time() + left)}" for left in (60, -120))
            answer = await ask(port_of(server), "/metrics", good)
            assert (answer.status, samples(answer.text, "evermq_queue_depth")) == (200, {"Q": 0})
            assert (await ask(port_of(server), "/metrics", late)).status == 401
            await clock.advance(200)  # with what the clocks of others may differ by
            assert (await ask(port_of(server), "/metrics", good)).status == 401


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic YWxpY2U=",
        "Basic /w==",
        "Digest x",
        "Bearer",
        "Basic YTpi\r\nAuthorization: Basic YTpi",
    ],
)
async def test_credentials_that_are_none_let_nobody_in(manager: QueueManager, header: str) -> None:
    await run(manager, USERS)
    async with serving(manager, listen=FREE, metrics="users") as server:
        assert (await ask(port_of(server), "/metrics", f"Authorization: {header}")).status == 401


async def test_trust_in_this_machine_lets_nobody_in_by_http(manager: QueueManager) -> None:
    await run(manager, "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)")
    async with serving(manager, listen=FREE, metrics="users") as server:
        assert (await ask(port_of(server), "/metrics")).status == 401
        assert (await ask(port_of(server), "/metrics", basic("root", "secret"))).status == 401


async def test_texts_of_users_are_not_given_to_one_another(manager: QueueManager, clock: VirtualClock) -> None:
    await run(manager, USERS + "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(DSP)")
    async with serving(manager, listen=FREE, metrics="users") as server:
        for user, password, seen in (("alice", "correct horse", {"Q": 0}), ("bob", "battery staple", {})):
            answer = await ask(port_of(server), "/metrics", basic(user, password))
            assert samples(answer.text, "evermq_queue_depth") == seen
        await run(manager, f"ALTER USER('alice') PASSWORD('{hashed('another one')}')")
        assert (await ask(port_of(server), "/metrics", basic("alice", "correct horse"))).status == 401


async def test_at_the_address_of_the_probes_figures_are_open_and_a_start_beyond_this_machine_warns_of_that(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    await run(manager, USERS)
    async with serving(manager, probes="0.0.0.0:0") as server:
        assert (await ask(port_of(server), "/metrics")).status == 200
        assert "names told address=0.0.0.0:0: whoever reaches it learns the names of queues" in caplog.text
    caplog.clear()
    for settings in ({"probes": FREE}, {"probes": "0.0.0.0:0", "probes_metrics": False}):
        async with serving(manager, **settings):
            assert "names told" not in caplog.text


async def test_no_password_stays_with_the_server(manager: QueueManager) -> None:
    await run(manager, USERS)
    seen: list[CallerCredentials] = []

    class Noting(ManagerInProcess):
        async def admitted(self, credentials: CallerCredentials) -> Any:
            seen.append(credentials)
            return await super().admitted(credentials)

    async with serving(manager, Noting(manager), listen=FREE, metrics="users") as server:
        await ask(port_of(server), "/metrics", basic("alice", "correct horse"))
    (credentials,) = seen
    assert credentials.password == b"correct horse"
    assert "correct" not in f"{credentials!r} {credentials}"
    assert b"correct" not in credentials.digest


async def test_a_certificate_is_the_user_that_a_rule_maps_it_to(manager: QueueManager, tmp_path: Path) -> None:
    files = Files(tmp_path)
    await run(
        manager,
        f"""
        {ROOT}
        SET CHLAUTH(EVERMQ.SVRCONN) TYPE(SSLPEERMAP) SSLPEER('CN=bob') USERSRC(MAP) MCAUSER('bob')
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT,DSP)
        SET AUTHREC PROFILE(R) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(DSP)
        """,
    )
    async with serving(manager, files=files.config, listen=FREE, metrics="users", tls=True) as server:
        port = port_of(server)
        assert server.addresses[0].startswith("https://")
        assert (await ask(port, "/metrics", context=files.client())).status == 401
        answer = await ask(port, "/metrics", context=files.client(files.bob))
        assert samples(answer.text, "evermq_queue_depth") == {"R": 0}
