"""The options of the data source `mq`, each checked with an error that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.spark.options import LATEST, OPTIONS, Options, Use, parse, stream_use

URL = {"url": "mq://h"}
READ = {**URL, "queue": "Q"}
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "spark.md").read_text("utf-8")


def test_what_is_not_said_has_its_default() -> None:
    options = parse({"url": "mq://h", "queue": "Q", "consumer": "C"}, Use.CONSUME)
    assert options == Options(use=Use.CONSUME, url="mq://h", queues=("Q",), consumer="C", partitions=options.partitions)
    assert (options.messages_max, options.bytes_max, options.retry_timeout) == (100_000, 256 * 1024**2, 60.0)


def test_names_may_be_in_any_case_as_spark_hands_them_on() -> None:
    given = {**READ, "maxmessagespertrigger": "7", "MaxBytesPerTrigger": "2m", "startingposition": "latest"}
    options = parse(given, Use.BROWSE)
    assert (options.messages_max, options.bytes_max, options.starting_position) == (7, 2 * 1024**2, LATEST)


def test_several_queues_are_named_by_a_list_or_generically() -> None:
    assert parse({**URL, "queue": "A, B.*,A"}, Use.READ).queues == ("A", "B.*")


def test_the_mode_says_what_a_stream_is_for() -> None:
    assert stream_use({"MODE": "Consume"}) is Use.CONSUME
    assert stream_use({}) is stream_use({"mode": "browse"}) is Use.BROWSE


def test_a_key_that_cannot_be_a_name_is_kept_as_its_hash() -> None:
    one, two = (
        parse({**URL, "idempotencyKey": key}, Use.WRITE).sink for key in ("import 2026-11-22", "import 2026-11-23")
    )
    assert parse({**URL, "idempotencyKey": "IMPORT.7"}, Use.WRITE).sink == "IMPORT.7"
    assert one != two
    assert len(one) <= 48


@pytest.mark.parametrize(
    ("given", "use", "what"),
    [
        ({"queue": "Q"}, Use.READ, "one of the options url .* and path .* is needed: neither"),
        ({**READ, "path": "d"}, Use.READ, "one of the options url .* and path .* is needed: both"),
        (URL, Use.READ, "option queue is missing"),
        (READ, Use.CONSUME, "option consumer is missing"),
        ({**READ, "consumer": "C"}, Use.BROWSE, "option consumer is for a stream that consumes, not for a stream that"),
        ({**READ, "sinkId": "S"}, Use.WRITE, "option sinkId is for a streaming write, not for a batch write"),
        ({**READ, "qeue": "Q"}, Use.READ, "qeue is no option of mq; did you mean queue?"),
        ({**URL, "queue": "A B"}, Use.READ, "option queue is 'A B': 'A B' is no name of a queue"),
        ({**URL, "queue": "Q" * 49}, Use.READ, "option queue"),
        ({**READ, "mode": "get"}, Use.READ, "option mode is 'get': it is one of browse, consume"),
        ({**READ, "consumer": "a-b"}, Use.CONSUME, "option consumer is 'a-b': a name has 1 to 48"),
        ({**READ, "startingPosition": "first"}, Use.BROWSE, "option startingPosition is 'first'"),
        ({**READ, "maxMessagesPerTrigger": "0"}, Use.BROWSE, "option maxMessagesPerTrigger is '0'"),
        ({**READ, "maxBytesPerTrigger": "2 bytes"}, Use.BROWSE, "option maxBytesPerTrigger is '2 bytes'"),
        ({**READ, "numPartitions": "-1"}, Use.READ, "option numPartitions is '-1'"),
        ({**READ, "groups": "some"}, Use.CONSUME, "option groups is 'some'"),
        ({**READ, "includeBody": "1"}, Use.READ, "option includeBody is '1': it is one of true, false"),
        ({**READ, "failOnDataLoss": "no"}, Use.BROWSE, "option failOnDataLoss is 'no'"),
        ({**READ, "selector": "a=1"}, Use.READ, "option selector is 'a=1': not supported: filter the rows"),
        ({**URL, "putTimeout": "soon"}, Use.WRITE, "option putTimeout is 'soon': it is a time in seconds"),
        ({**URL, "retryTimeout": "nan"}, Use.WRITE, "option retryTimeout is 'nan'"),
        ({**URL, "groupOrder": "yes"}, Use.WRITE, "option groupOrder is 'yes': it is one of given, logical"),
        ({**URL, "sinkId": ""}, Use.WRITE_STREAM, "option sinkId is ''"),
        ({**URL, "idempotencyKey": ""}, Use.WRITE, "option idempotencyKey is ''"),
        ({**READ, "positionFrom": "-1"}, Use.READ, "option positionFrom is '-1': it is an arrival number"),
        ({**READ, "positionTo": str(2**63)}, Use.READ, f"option positionTo is '{2**63}': it is an arrival number"),
        ({**READ, "positionFrom": "9", "positionTo": "8"}, Use.READ, "option positionTo is 8, below positionFrom 9"),
        ({**READ, "since": "2026-11-22T12:00:00"}, Use.READ, "option since is '2026-11-22T12:00:00': the zone is miss"),
        ({**READ, "since": "yesterday"}, Use.READ, "option since is 'yesterday': it is a time with its zone in ISO"),
        ({**READ, "msgId": "ab"}, Use.READ, "option msgId is 'ab': it is an identifier of 24 bytes as 48 hexadec"),
        ({**READ, "correlId": "0x" + 46 * "1"}, Use.READ, "option correlId is '0x1+': it is an identifier"),
        ({**READ, "groupId": 48 * "0"}, Use.READ, "option groupId is '0+': zeros stand for none and select nothing"),
        ({**READ, "since": "2026-11-22T12:00:00Z"}, Use.BROWSE, "option since is for a batch read, not for a stream"),
        ({"url": ""}, Use.WRITE, "option url is ''"),
        ({"path": ""}, Use.WRITE, "option path is ''"),
    ],
)
def test_an_error_names_the_option(given: dict[str, str], use: Use, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse(given, use)


def test_what_spark_passes_on_of_its_own_is_let_through() -> None:
    parse({**URL, "checkpointLocation": "d", "queryName": "q"}, Use.WRITE_STREAM)


def test_asynchronous_progress_is_refused() -> None:
    with pytest.raises(ValueError, match="asyncProgressTrackingEnabled: not supported"):
        parse({**URL, "asyncProgressTrackingEnabled": "true"}, Use.WRITE_STREAM)


def test_the_page_has_each_option_with_its_default_and_help() -> None:
    rows = [f"| `{option.name}` | {option.default or '-'} | {option.help} |" for option in OPTIONS]
    assert re.findall(r"^\| `\w+` \| .*(?<=\|)$", PAGE.partition("## Options")[2].partition("\n## ")[0], re.M) == rows
