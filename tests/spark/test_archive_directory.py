"""An archive on the disk: what goes on and what is refused, without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from broker.spark.pipelines.archive import consumer_name
from broker.spark.pipelines.directory import ArchiveDirectory, Description
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.sink_log import DataFile

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "queue=ORDERS/date=2026-01-31"


@pytest.fixture
def place(tmp_path: Path) -> ArchiveDirectory:
    return ArchiveDirectory(tmp_path / "kept")


def with_batches(place: ArchiveDirectory, *, offered: int, done: int, listed: int) -> None:
    """As Spark leaves it: batches up to these numbers are offered and done in the checkpoint, and on the list."""
    for folder, last in ((place.checkpoint / "offsets", offered), (place.checkpoint / "commits", done)):
        folder.mkdir(parents=True)
        (folder / "metadata").touch()
        for number in range(last + 1):
            (folder / str(number)).touch()
            (folder / f".{number}.crc").touch()
    if listed >= 0:
        write_list(place, listed, [f"{FOLDER}/part-{number}.parquet" for number in range(listed + 1)])


def write_list(place: ArchiveDirectory, number: int, paths: list[str], suffix: str = ".compact") -> None:
    lists = place.path / "_spark_metadata"
    lists.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": f"file://{place.path}/{path}", "size": 4, "action": "add"}) for path in paths]
    (lists / f"{number}{suffix}").write_text("\n".join(["v1", *lines]))
    (lists / f".{number}{suffix}.crc").write_text("a checksum")
    for path in paths:
        (place.path / path).parent.mkdir(parents=True, exist_ok=True)
        (place.path / path).write_text("data")


@pytest.mark.parametrize(
    ("offered", "done", "listed"),
    [(-1, -1, -1), (0, -1, -1), (0, -1, 0), (0, 0, 0), (5, 4, 4), (5, 4, 5), (5, 5, 5)],
    ids=["new", "in the first", "listed", "done", "in a batch", "listed, not done", "between two"],
)
def test_a_run_goes_on_wherever_the_last_one_was_killed(
    place: ArchiveDirectory, offered: int, done: int, listed: int
) -> None:
    with_batches(place, offered=offered, done=done, listed=listed)
    place.check()


@pytest.mark.parametrize(
    ("offered", "done", "listed", "words"),
    [
        (-1, -1, 0, "has batches up to 0 and the checkpoint .* knows of none: it is new or was restored"),
        (0, 0, 2, "has batches up to 2 and the checkpoint .* knows of those up to 0"),
        (3, 2, 9, "has batches up to 9 and the checkpoint .* knows of those up to 3"),
        (4, 4, -1, "has batches up to 4 as done, and .*/_spark_metadata is gone: restore it"),
        (4, 4, 3, "has batches up to 4 as done, and .*/_spark_metadata ends with 3"),
    ],
)
def test_a_checkpoint_that_does_not_go_with_the_files_is_refused(
    place: ArchiveDirectory, offered: int, done: int, listed: int, words: str
) -> None:
    with_batches(place, offered=offered, done=done, listed=listed)
    with pytest.raises(PipelineError, match=words):
        place.check()


def test_what_counts_is_the_last_complete_list_and_those_behind_it(place: ArchiveDirectory) -> None:
    write_list(place, 8, [f"{FOLDER}/part-old.parquet"], suffix="")
    write_list(place, 9, [f"{FOLDER}/part-a.parquet"])
    write_list(place, 10, [f"{FOLDER}/part-b.parquet"], suffix="")
    assert [each.path for each in place.sink_log.files()] == [f"{FOLDER}/part-a.parquet", f"{FOLDER}/part-b.parquet"]
    assert place.sink_log.latest() == 10


def test_a_list_is_replaced_as_a_whole_with_its_checksum(place: ArchiveDirectory) -> None:
    write_list(place, 9, [f"{FOLDER}/part-a.parquet", f"{FOLDER}/part-b.parquet"])
    place.sink_log.replace([DataFile(f"{FOLDER}/part-b.parquet", 4)])
    assert place.sink_log.files() == [DataFile(f"{FOLDER}/part-b.parquet", 4)]
    assert [path.name for path in (place.path / "_spark_metadata").iterdir()] == ["9.compact"]


def test_a_list_that_is_not_complete_is_not_replaced(place: ArchiveDirectory) -> None:
    write_list(place, 9, [f"{FOLDER}/part-a.parquet"])
    write_list(place, 10, [f"{FOLDER}/part-b.parquet"], suffix="")
    with pytest.raises(PipelineError, match=r"the list of batch 10 names the files of few batches alone"):
        place.sink_log.replace([])


@pytest.mark.parametrize("text", ["v2\n{}", "v1\nnonsense"])
def test_a_list_of_another_kind_is_refused(place: ArchiveDirectory, text: str) -> None:
    write_list(place, 0, [])
    (place.path / "_spark_metadata" / "0.compact").write_text(text)
    with pytest.raises(PipelineError, match=r"0.compact: "):
        place.sink_log.files()


def test_the_files_of_a_moved_archive_are_listed_where_they_are_now(place: ArchiveDirectory, tmp_path: Path) -> None:
    with_batches(place, offered=1, done=1, listed=1)
    moved = ArchiveDirectory(tmp_path / "moved to #2")
    place.path.rename(moved.path)
    assert moved.sink_log.is_elsewhere()
    moved.check()
    assert not moved.sink_log.is_elsewhere()
    assert [each.path for each in moved.sink_log.files()] == [f"{FOLDER}/part-{number}.parquet" for number in (0, 1)]


WAS = Description(queues=("A", "B"), mode="consume", consumer="C", columns={"body": "binary", "priority": "int"})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            {"queues": ("A",)},
            "is of A, B moved by consumer C, and not of A moved by consumer C: give another directory",
        ),
        ({"mode": "browse", "consumer": None}, "is of A, B moved by consumer C, and not of A, B copied"),
        ({"consumer": "D"}, "and not of A, B moved by consumer D"),
        (
            {"columns": {"body": "binary", "priority": "string"}},
            "column priority of the archive .* is int, and would be",
        ),
    ],
)
def test_another_archive_in_its_directory_is_refused(
    place: ArchiveDirectory, now: dict[str, object], words: str
) -> None:
    with place.writing():
        place.describe(WAS)
        reported = {"queues": WAS.queues, "mode": WAS.mode, "consumer": WAS.consumer, "columns": WAS.columns, **now}
        with pytest.raises(PipelineError, match=words):
            place.describe(Description(**reported))  # type: ignore[arg-type]
    assert place.description == WAS


def test_columns_are_only_added(place: ArchiveDirectory) -> None:
    with place.writing():
        place.describe(WAS)
        place.describe(
            Description(queues=("A", "B"), mode="consume", consumer="C", columns={"body": "binary", "x": "int"})
        )
    assert place.description is not None
    assert place.description.columns == {"body": "binary", "priority": "int", "x": "int"}


@pytest.mark.parametrize("text", ["nonsense", "{}", '{"queues": ["A"], "mode": "browse", "more": 1}'])
def test_a_description_that_is_none_is_refused(place: ArchiveDirectory, text: str) -> None:
    with place.writing():
        (place.path / "_evermq" / "archive.json").write_text(text)
    with pytest.raises(PipelineError, match=r"archive.json: not the description of an archive"):
        assert place.description


def test_one_writes_and_while_somebody_reads_nothing_is_removed(place: ArchiveDirectory) -> None:
    with place.writing():
        place.describe(WAS)
        with pytest.raises(PipelineError, match="is being written by another pipeline"), place.writing():
            pass
    with place.reading(), place.removing() as alone:
        assert not alone
    with place.removing() as alone:
        assert alone


def test_there_is_nothing_to_read_where_no_archive_is(place: ArchiveDirectory) -> None:
    with pytest.raises(PipelineError, match="there is no archive in"), place.reading():
        pass


def test_a_directory_is_one(tmp_path: Path) -> None:
    for url in ("s3a://bucket/archive", "hdfs://host/archive"):
        with pytest.raises(PipelineError, match="is a URL: an archive is a directory"):
            ArchiveDirectory(url)
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="file is no directory"):
        ArchiveDirectory(tmp_path / "file")


def test_a_consumer_is_named_for_the_directory() -> None:
    assert consumer_name("/var/lib/my archive") == "ARCHIVE.MY_ARCHIVE.7CEB1233"
    assert len(consumer_name("/tmp/" + "x" * 200)) == 48
    assert consumer_name("/a/kept") != consumer_name("/b/kept")
