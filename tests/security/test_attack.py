"""An attack from a host of its own on a daemon that serves another one: a short one, in which times are not judged, and
the report, which sees what must not be.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from broker.cli.terminal.logs import TextLines
from tests.security.attack.honest import Handled, Ledger, LoggedIn
from tests.security.attack.report import QUIET, Phase, Report
from tests.security.attack.run import ATTACKS, TOGETHER, Chosen, run
from tests.security.attack.scene import CANARY, body, number_of
from tests.security.attack.watch import Sample
from tests.security.network.namespaces import NoNamespacesError

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 26.0
"""Two for each attack alone, and for all at once."""


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: the daemon has its own."""
    return "asyncio"


async def test_x8_1_and_x8_2_an_attack_comes_to_nothing_and_others_put_get_and_log_in(tmp_path: Path) -> None:
    try:
        report = await run(tmp_path, Chosen(seconds=SECONDS))
    except NoNamespacesError as error:
        pytest.skip(str(error))
    assert report.wrong == [], str(report)
    attacks = [phase.name for phase in report.phases if phase.name != QUIET]
    assert attacks == [*ATTACKS, TOGETHER]
    assert all(phase.seen for phase in report.phases if phase.name != QUIET), str(report)
    assert report.put > 0
    assert {login.kind for login in report.logins} == {"remembered", "other", "attacked", "token"}


def test_an_attack_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no attack sprya; there are port-scan, half-open"):
        Chosen(only="spray,sprya").names()


# The report


def report(
    *,
    attacked: float = 1.0,
    log: list[str] | None = None,
    mib: float = 100.0,
    logins: list[LoggedIn] | None = None,
) -> Report:
    """The report of a run with one attack, in whose seconds messages took so many milliseconds, and 1 in the quiet."""
    phases = [Phase(QUIET, 0, 10, {}), Phase("spray", 10, 20, {"wrong passwords": 7}), Phase(QUIET, 20, 30, {})]
    handled = [Handled(at / 10, attacked if 100 <= at < 200 else 1.0, beside_login=False) for at in range(300)]
    samples = [Sample(at, mib, at / 2, at / 4) for at in range(30)]
    return Report([], phases, handled, logins or [], samples, log or [])


def lines(text: str, count: int, second: int = 7) -> list[str]:
    """Lines of the log of a daemon."""
    record = logging.LogRecord("broker.server", logging.INFO, "", 0, text, (), None)
    vars(record)["event"] = text.partition(" ")[0]
    record.created = datetime(2026, 11, 21, 10, 0, second, tzinfo=UTC).timestamp()
    return [f"{TextLines().format(record)}\n"] * count


def test_times_are_those_of_the_quiet_beside_them() -> None:
    found = report(attacked=1.5)
    assert found.times == 1.5
    assert [(each.name, each.times) for each in found.figures] == [(QUIET, 1.0), ("spray", 1.5)]
    assert found.wrong == []
    spray = found.figures[1]
    assert (spray.processors, spray.loop) == (0.5, 0.25)
    assert "p99 under attack: 1.50 times" in str(found)
    assert "spray: 7 wrong passwords" in str(found)


def test_more_lines_of_one_origin_in_a_second_are_wrong() -> None:
    peer = "connection_refused peer=192.0.2.66: its address is blocked"
    assert report(log=[*lines(peer, 10), *lines(peer, 10, second=8)]).wrong == []
    (wrong,) = report(log=lines(peer, 11)).wrong
    assert wrong == "11 lines of the log about 192.0.2.66 at 2026-11-21T10:00:07, the limit is 10"


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("line refused peer=192.0.2.66:40000: not a frame", "192.0.2.66"),
        ("connected user=bob application=x channel=C peer=192.0.2.7 proof=password", "192.0.2.7"),
        ("not_authorized user=bob application=x step=open rule=bob has no PUT on QUEUE Q", "bob"),
        ("connection_refused peer=192.0.2.66: no TLS handshake: eof", "192.0.2.66"),
    ],
)
def test_a_line_counts_for_its_address_or_its_user(text: str, origin: str) -> None:
    assert report(log=lines(text, 1)).lines == {("2026-11-21T10:00:07", origin): 1}


def test_changes_of_security_and_counts_of_lines_have_no_origin() -> None:
    assert not report(log=lines("security_changed user=root command=DEFINE USER('x')", 20)).lines
    assert not report(log=lines("lines_left_out after=connected lines=7", 20)).lines


def test_too_much_memory_is_wrong() -> None:
    assert report(mib=301.0).wrong == ["the daemon's memory came to 301 MiB, the limit is 300"]


def test_messages_beside_a_login_of_their_own_host_do_not_count() -> None:
    found = report()
    found.handled[:] = [each._replace(beside_login=True, ms=500.0) for each in found.handled[:50]] + found.handled[50:]
    again = Report([], found.phases, found.handled, [], found.samples, [])
    assert again.times == 1.0


# The ledger


def ledger(acknowledged: int, *handled: int) -> Ledger:
    made = Ledger()
    made.acknowledged = acknowledged
    made.times.update(handled)
    return made


def test_the_ledger_sees_what_is_lost_doubled_and_changed() -> None:
    assert list(ledger(3, 0, 1, 2).complaints()) == []
    assert list(ledger(3, 0, 2).complaints()) == ["1 messages were lost: [1]"]
    assert list(ledger(3, 0, 1, 1, 2).complaints()) == ["1 messages were doubled: [1]"]
    changed = ledger(1, 0)
    changed.changed = 2
    assert list(changed.complaints()) == ["2 messages were changed"]


def test_the_ledger_sees_a_login_that_failed() -> None:
    made = ledger(0)
    made.logins += [LoggedIn("other", 1.0, 90.0, ""), LoggedIn("attacked", 2.0, 90.0, "MQRC_NOT_AUTHORIZED (2035)")]
    assert list(made.complaints()) == ["a login (attacked) failed: MQRC_NOT_AUTHORIZED (2035)"]


def test_a_message_is_that_of_its_number_or_of_none() -> None:
    assert number_of(body(7)) == 7
    assert CANARY.encode() in body(7)
    assert {number_of(b"7" + body(8)[1:]), number_of(body(7)[:-1]), number_of(b""), number_of(b"x:y:z")} == {-1}
