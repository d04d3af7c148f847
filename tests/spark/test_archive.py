"""Queues to Parquet: each message once, whatever ends a run, and whatever is done to its files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQOO, MQPMO, MessageDescriptor
from broker.spark.pipelines import archive as archiving
from broker.spark.pipelines import compaction
from broker.spark.pipelines.archive import Archived, Archiving, Source, archive, read_archive
from broker.spark.pipelines.compaction import Compacted, compact
from broker.spark.pipelines.directory import ArchiveDirectory
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.running import Batch, BatchLag, Stop
from tests.spark.daemons import Daemon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from broker import Connection

pytestmark = pytest.mark.spark

numbers = count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon for all tests here: each has queues of its own."""
    with Daemon(tmp_path_factory.mktemp("daemon") / "data") as daemon:
        yield daemon


class Scene:
    """Two queues, one of them named like a number, and the archive of them."""

    def __init__(self, spark: SparkSession, daemon: Daemon, folder: Path) -> None:
        number = next(numbers)
        self.spark = spark
        self.daemon = daemon
        self.queue, self.number = f"ORDERS.{number}", str(number)
        self.place = ArchiveDirectory(folder / "kept")
        daemon.mqsc(f"DEFINE QLOCAL({self.queue})", f"DEFINE QLOCAL({self.number})")

    def put(self, *bodies: bytes) -> None:
        self.daemon.put(self.queue, *bodies)

    def run(self, *, to: ArchiveDirectory | None = None, most: int = 2, **options: Any) -> Archived:
        """A run of the archive, in batches of at most so many messages."""
        reported = {name: options.pop(name) for name in ("stop", "tell") if name in options}
        source = Source(url=self.daemon.url, options={"maxMessagesPerTrigger": str(most)})
        how = Archiving(**options)
        return archive(self.spark, [self.queue, self.number], (to or self.place).path, source, how, **reported)

    def bodies(self, place: ArchiveDirectory | None = None) -> list[bytes]:
        """Return what the archive holds."""
        place = place or self.place
        with place.reading():
            return sorted(bytes(row.body) for row in read_archive(self.spark, place).select("body").collect())


@pytest.fixture
def scene(spark: SparkSession, running: Daemon, tmp_path: Path) -> Scene:
    return Scene(spark, running, tmp_path)


def test_each_message_is_in_the_folder_of_its_queue_and_day(scene: Scene) -> None:
    async def put(connection: Connection) -> None:
        for name, body, date in (
            (scene.queue, b"a", "20260131"),
            (scene.number, b"bb", "20260201"),
            (scene.queue, b"", ""),
        ):
            async with connection.open(name, MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as queue:
                md = MessageDescriptor(put_date=date, put_time="12000050" if date else "")
                await queue.put(body, md, MQPMO.SET_ALL_CONTEXT)

    scene.daemon.call(put)
    assert scene.run(most=100) == Archived(messages=3, batches=1, stopped=False)
    with scene.place.reading():
        rows = read_archive(scene.spark, scene.place).orderBy("position").collect()
    assert [(row.queue, str(row.date), bytes(row.body), row.data_length, row.put_time) for row in rows] == [
        (scene.queue, "2026-01-31", b"a", 1, "12000050"),
        (scene.number, "2026-02-01", b"bb", 2, "12000050"),
        (scene.queue, "None", b"", 0, ""),
    ]
    assert {path.split("/part-")[0] for path in scene.place.data_files()} == {
        f"queue={scene.queue}/date=2026-01-31",
        f"queue={scene.number}/date=2026-02-01",
        f"queue={scene.queue}/date=__HIVE_DEFAULT_PARTITION__",
    }
    assert scene.daemon.depth(scene.queue) == 2


@pytest.mark.parametrize("move", [False, True], ids=["copied", "moved"])
def test_a_run_goes_on_where_the_last_one_was(scene: Scene, move: bool) -> None:
    scene.put(b"a", b"b", b"c")
    reported: list[Batch] = []
    assert scene.run(move=move, tell=reported.append) == Archived(messages=3, batches=2, stopped=False)
    assert [batch.number for batch in reported] == [0, 1]
    assert sum(batch.messages for batch in reported) == 3
    assert reported[-1].lag == BatchLag(0, 0)
    assert scene.daemon.bodies(scene.queue) == ([] if move else [b"a", b"b", b"c"])
    assert scene.daemon.depth(scene.queue) == (0 if move else 3)
    scene.put(b"d")
    assert scene.run(move=move) == Archived(messages=1, batches=1, stopped=False)
    assert scene.run(move=move) == Archived(messages=0, batches=0, stopped=False)
    assert scene.bodies() == [b"a", b"b", b"c", b"d"]


def test_what_follows_tells_its_lag_and_goes_on_until_it_is_stopped(scene: Scene) -> None:
    stop, reported = Stop(), []
    scene.put(b"a")

    def more(batch: Batch) -> None:
        reported.append(batch)
        if batch.number == 0:
            scene.put(b"bb")
        else:
            stop.order()

    assert scene.run(follow=True, stop=stop, tell=more) == Archived(messages=2, batches=2, stopped=True)
    assert [str(batch).split(":")[0] for batch in reported] == ["batch 0", "batch 1"]
    assert str(reported[1]).endswith(", 0 waiting (0 bytes)")
    assert scene.bodies() == [b"a", b"bb"]


def test_a_lost_checkpoint_is_refused(scene: Scene) -> None:
    scene.put(b"a")
    scene.run(move=True)
    shutil.rmtree(scene.place.checkpoint)
    with pytest.raises(PipelineError, match=r"has batches up to 0 and the checkpoint .* knows of none: it is new"):
        scene.run(move=True)


def test_a_second_archive_with_the_same_consumer_is_refused(scene: Scene, tmp_path: Path) -> None:
    """K25: the first one goes on."""
    scene.put(b"a")
    scene.run(move=True, consumer=f"C.{scene.number}")
    scene.put(b"b")
    with pytest.raises(PipelineError, match="2429"):
        scene.run(to=ArchiveDirectory(tmp_path / "second"), move=True, consumer=f"C.{scene.number}")
    scene.run(move=True, consumer=f"C.{scene.number}")
    assert scene.bodies() == [b"a", b"b"]


def test_a_batch_cut_off_behind_its_list_is_there_once(scene: Scene) -> None:
    scene.put(b"a", b"b", b"c")
    scene.run(move=True)
    for name in ("1", ".1.crc"):  # as a driver leaves it that is killed before it writes that the batch is done
        (scene.place.checkpoint / "commits" / name).unlink()
    scene.put(b"d")
    scene.run(move=True)
    assert scene.bodies() == [b"a", b"b", b"c", b"d"]


def test_columns_may_be_added(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = archiving._with_columns

    def newer(messages: DataFrame) -> DataFrame:
        return real(messages).selectExpr("*", "length(msg_id) AS token")

    scene.put(b"a")
    scene.run()
    scene.put(b"b")
    with monkeypatch.context() as patch:
        patch.setattr(archiving, "_with_columns", newer)
        scene.run()
    with scene.place.reading():
        rows = read_archive(scene.spark, scene.place).orderBy("position").select("body", "token").collect()
    assert [(bytes(row.body), row.token) for row in rows] == [(b"a", None), (b"b", 24)]


@pytest.fixture(scope="module")
def made(spark: SparkSession, running: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """An archive of three files, to be copied."""
    scene = Scene(spark, running, tmp_path_factory.mktemp("made"))
    scene.put(b"a", b"b", b"c", b"d")
    running.put(scene.number, b"e")
    scene.run()
    assert len(scene.place.data_files()) > 2
    return scene


@pytest.fixture
def copy(made: Scene, tmp_path: Path) -> ArchiveDirectory:
    """A copy of that archive, at another place."""
    return ArchiveDirectory(shutil.copytree(made.place.path, tmp_path / "copy"))


ALL = [b"a", b"b", b"c", b"d", b"e"]


def test_compaction_gathers_the_files_of_each_folder(made: Scene, copy: ArchiveDirectory) -> None:
    assert made.bodies(copy) == ALL  # which its list has at the place of the first
    before = len(copy.data_files())
    assert compact(made.spark, copy.path) == Compacted(before=before, after=2, removed=before - 1)
    assert len(copy.data_files()) == 2
    assert made.bodies(copy) == ALL
    made.put(b"f")
    made.run(to=copy)
    assert made.bodies(copy) == [*ALL, b"f"]
    assert made.spark.read.parquet(str(copy.path)).count() == 6  # as any program of Spark's reads it


class CutOffError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", ["_write", "_moved", "sync_folder", "_remove_uncounted"])
def test_a_compaction_cut_off_at_any_step_leaves_each_message_once(
    made: Scene, copy: ArchiveDirectory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = getattr(compaction, step)

    def cut_off(*arguments: Any) -> None:
        if step != "_remove_uncounted":
            real(*arguments)
        raise CutOffError

    with monkeypatch.context() as patch:
        patch.setattr(compaction, step, cut_off)
        with pytest.raises(CutOffError):
            compact(made.spark, copy.path)
    assert made.spark.read.parquet(str(copy.path)).count() == len(ALL)
    compact(made.spark, copy.path)
    assert made.bodies(copy) == ALL
    assert copy.data_files() == {each.path for each in copy.sink_log.files()}
    assert len(copy.data_files()) == 2


def test_compaction_spares_what_somebody_reads(made: Scene, copy: ArchiveDirectory) -> None:
    with copy.reading():
        rows = read_archive(made.spark, copy)
        assert compact(made.spark, copy.path).removed == 0
        assert rows.count() == len(ALL)
    assert compact(made.spark, copy.path).removed > 1


@pytest.mark.slow
@pytest.mark.parametrize("whom", [os.kill, os.killpg], ids=["the command", "its process group"])
def test_sigterm_ends_a_run_in_order_and_the_next_goes_on(
    scene: Scene, whom: Callable[[int, signal.Signals], None]
) -> None:
    bodies = [b"%04d" % number for number in range(2000)]
    scene.put(*bodies)
    words = ["--queue", scene.queue, "--to", str(scene.place.path), "--move", "--url", scene.daemon.url]
    command = [sys.executable, "-m", "broker", "pipeline", "archive", *words, "--option", "maxMessagesPerTrigger=300"]
    with subprocess.Popen(
        [*command, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("batch 0: 300 messages")
        whom(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.endswith("; stopped before the end, run it again to go on\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert scene.bodies() == bodies
    assert scene.daemon.depth(scene.queue) == 0
