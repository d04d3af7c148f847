"""The parts of the demonstration: the format of a reservation, the stamp, the account, the sample."""

from __future__ import annotations

import json

import pytest

from broker.cli.demo.account import Account, percentile
from broker.cli.demo.command import SAMPLE
from broker.cli.demo.reservation import Refusal, RefusedError, parsed
from broker.cli.demo.stamp import Stamp
from broker.cli.demo.working import Worked
from tests.scripts import script

RIGHT = {
    "record": "K7QX2M",
    "name": "MEIER/ANNA",
    "flight": "EV1234",
    "date": "2026-12-01",
    "from": "ZRH",
    "to": "LIS",
    "class": "C",
    "seats": 2,
}


def line(**changes: object) -> bytes:
    return json.dumps({**RIGHT, **changes}).encode()


def test_a_reservation_is_confirmed_with_its_fare() -> None:
    assert json.loads(parsed(line()).reply()) == {
        "record": "K7QX2M",
        "flight": "EV1234",
        "status": "confirmed",
        "seats": 2,
        "fare": 920,
    }


def test_a_line_that_ends_as_on_windows_is_a_reservation_too() -> None:
    assert parsed(line() + b"\r").record == "K7QX2M"


@pytest.mark.parametrize(
    ("data", "refusal", "detail"),
    [
        (b"", Refusal.NOT_JSON, "not JSON at all"),
        (b"hello", Refusal.NOT_JSON, "not JSON at all"),
        (line()[:-9], Refusal.NOT_JSON, "not JSON at all"),
        (b"[" * 4000, Refusal.NOT_JSON, "not JSON at all"),
        (b"1" * 4096, Refusal.NOT_JSON, ""),
        (b"[1]", Refusal.NOT_JSON, "a JSON list"),
        (b"\xff\xfe", Refusal.NOT_TEXT, "byte 0"),
        (b"\x00\x01\x02", Refusal.NOT_JSON, "not JSON at all"),
        (b" " * 4097, Refusal.TOO_LONG, "4097 bytes"),
        (b"{}", Refusal.FIELD_MISSING, "record"),
        (line(record=7), Refusal.FIELD_WRONG, "record"),
        (line(name="anna"), Refusal.FIELD_WRONG, "name"),
        (line(date="2026-02-30"), Refusal.FIELD_WRONG, "date"),
        (line(to="ZRH"), Refusal.FIELD_WRONG, "to is where from is"),
        (line(seats=0), Refusal.FIELD_WRONG, "seats"),
        (line(seats=True), Refusal.FIELD_WRONG, "seats"),
        (line(seats="2"), Refusal.FIELD_WRONG, "seats"),
        (line(**{"class": "X"}), Refusal.FIELD_WRONG, "class"),
    ],
)
def test_what_is_no_reservation_is_refused_with_the_reason(data: bytes, refusal: Refusal, detail: str) -> None:
    with pytest.raises(RefusedError) as caught:
        parsed(data)
    assert caught.value.refusal == refusal
    assert detail in str(caught.value)


def test_a_stamp_is_a_correl_id() -> None:
    stamp = Stamp(3_000_000_000, 123_456_789_012)
    assert len(bytes(stamp)) == 24
    assert Stamp.of(bytes(stamp)) == stamp


def test_the_sample_is_what_its_generator_makes() -> None:
    made = script("reservations").lines()
    assert SAMPLE.read_bytes() == ("\n".join(made) + "\n").encode()


def test_one_line_in_fifty_of_the_sample_is_no_reservation() -> None:
    refused = 0
    for data in SAMPLE.read_bytes().splitlines():
        try:
            parsed(data)
        except RefusedError:
            refused += 1
    assert refused == 60


def test_an_account_is_complete_when_each_line_has_come_back_once() -> None:
    account = Account()
    account.put, account.put_seconds, account.total_seconds = 3, 0.5, 2.0
    account.back(3)
    account.back(1)
    assert account.missing == 1
    account.back(2, Refusal.FIELD_WRONG)
    account.steady += [4000, 1000, 2000]
    assert account.complete
    assert list(account.report()) == [
        "lines                            3",
        "  confirmed                      2  a reply each",
        "  rejected                       1  on the dead-letter queue",
        "    field wrong                  1  line 2",
        "",
        "put             0.50 s           6 lines/s  persistent, over TCP",
        "handled         2.00 s           2 lines/s  one handler each, one unit of work each",
        "put to handler, at 200 messages a second:  p50 2.0 ms  p90 4.0 ms  p99 4.0 ms  longest 4.0 ms",
    ]


def test_an_account_names_what_is_missing_doubled_refused_or_too_long() -> None:
    account = Account()
    account.put = 7
    account.too_long.append(8)
    account.refused[9] = "MQRC_Q_FULL (2053)"
    for number in (1, 1, 2):
        account.back(number)
    report = "\n".join(account.report())
    assert not account.complete
    assert "lines                            9" in report
    assert "missing                        5  put, but not back: line 3, 4, 5, ..." in report
    assert "doubled                        1" in report
    assert "refused                        1  not put: line 9: MQRC_Q_FULL (2053)" in report
    assert "too long to put                1  line 8" in report


def test_lines_too_long_to_put_are_accounted_for() -> None:
    account = Account()
    account.too_long.append(1)
    assert account.complete


def test_an_account_of_nothing_is_complete() -> None:
    account = Account()
    assert account.complete
    assert list(account.report())[:3] == [
        "lines                            0",
        "  confirmed                      0  a reply each",
        "  rejected                       0  on the dead-letter queue",
    ]


@pytest.mark.parametrize(("rank", "value"), [(50, 50), (90, 90), (99, 99), (100, 100)])
def test_percentiles_are_of_nearest_rank(rank: int, value: int) -> None:
    assert percentile(range(1, 101), rank) == value
    assert percentile([7], rank) == 7


def test_tasks_are_accounted_for_when_each_is_back_once() -> None:
    worked = Worked(3)
    worked.done.update([1, 3])
    before = worked.complete
    worked.dead[2] = "3 attempts: ValueError: no"
    worked.again, worked.at_kill = 1, 1
    assert (before, worked.complete) == (False, True)
    assert list(worked.report()) == [
        "tasks                            3  for a worker, killed when 1 were done; another went on",
        "  done                           2  once each",
        "    tried again                  1  the handler raised, or went with its worker",
        "  dead letters                   1  on TASKS.DEAD",
        "    task 2, 3 attempts: ValueError: no",
    ]


@pytest.mark.parametrize("again", [1, 2])
def test_a_task_that_is_back_twice_is_told(again: int) -> None:
    worked = Worked(3)
    worked.done.update([1, 3, again])
    worked.dead[2] = "dead, and perhaps done"
    assert not worked.complete
    assert list(worked.report())[-1] == "  doubled                        1  back more than once"
    account = Account()
    account.worked = worked
    assert not account.complete


def test_a_task_that_is_not_back_is_told() -> None:
    worked = Worked(3)
    worked.done.update([1, 3])
    assert list(worked.report())[-1] == "  missing                        1  put, but not back"
