"""The common part of the commands of `evermq pipeline`: Spark, the queue manager, orders to stop, and errors."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from broker.cli.conversation import with_url
from broker.cli.program import CannotRunError
from broker.cli.terminal.progress import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from broker.spark.pipelines.archive import Source
    from broker.spark.pipelines.running import Stop

Command = TypeVar("Command", bound="Callable[..., Any]")


class SparkOptions(TypedDict):
    """The options that `with_spark` gives a command."""

    master: str | None
    settings: dict[str, str]


class SourceOptions(SparkOptions):
    """The options that `with_spark` and `with_source` give a command."""

    url: str
    path: str | None
    options: dict[str, str]


_NEEDED: Final = ("pyspark", "pyarrow", "pandas", "google.protobuf")
_ORDERS: Final = (signal.SIGTERM, signal.SIGHUP)
_QUIET: Final = Path(__file__).with_name("log4j2.properties")


def with_spark(command: Command) -> Command:
    """Give a command the options `--master` and `--set` of Spark."""
    master = click.option("--master", metavar="URL", help="Spark's master, as spark://host:7077.  [default: local[*]]")
    settings = click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=pairs, help="A setting of Spark's."
    )
    return master(settings(command))


def with_source(command: Command) -> Command:
    """Give a command the options `--url`, `--path` and `--option`: where messages come from."""
    options = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        callback=pairs,
        help="A further option of the source mq, as maxMessagesPerTrigger=10000.",
    )
    path = click.option(
        "--path",
        metavar="DATA",
        type=click.Path(exists=True, file_okay=False),
        help="The queue manager is stopped; its data directory, for which a daemon is started meanwhile.",
    )
    return path(with_url(options(command)))


def source_of(given: SourceOptions) -> Source:
    """The source that these options mean. A data directory goes before a URL, which always has a value."""
    from broker.spark.pipelines.archive import Source

    path = given["path"]
    return Source(url=None if path else given["url"], path=path, options=given["options"])


def pairs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE, several times, as the callback of an option."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        found[name] = value
    return found


def names(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    """Names of queues, several in one text and several times, as the callback of an option."""
    found = list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))
    if texts and not found:
        raise click.BadParameter(f"{texts[0]!r} names no queue")
    return found


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: "1 message", "2,000 messages"."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def check_extra() -> None:
    """Raise CannotRunError where the extra is not installed."""
    for module in _NEEDED:
        if not _is_there(module):
            raise CannotRunError(f"there is no {module}: the pipelines run on Spark; pip install 'evermq[spark]'")


def check_archive(directory: str) -> None:
    """Check that there is an archive, before Spark is started. Raises CannotRunError."""
    with in_a_line():
        from broker.spark.pipelines.directory import ArchiveDirectory

        with ArchiveDirectory(directory).reading():
            pass


@contextmanager
def started(master: str | None, settings: dict[str, str]) -> Iterator[SparkSession]:
    """A session of Spark, which is ended with the block. What goes wrong in it is a CannotRunError of one line."""
    with in_a_line():
        from py4j.protocol import Py4JError

        from broker.spark import session

        show("starting Spark")
        with _children_spared():
            spark = session("evermq pipeline", master=master, settings={**settings, **_quiet(settings)})
        try:
            spark.sparkContext.setLogLevel("ERROR")
            yield spark
        finally:
            show("")
            with suppress(Py4JError, OSError):  # where Java has ended
                spark.stop()


_sparing = False


@contextmanager
def _children_spared() -> Iterator[None]:
    """A process that is started in this block does not handle orders to end: what sends them to the whole process
    group, as a service manager does, would have Spark's Java end before the pipeline that uses it.
    """
    global _sparing
    _register()
    _sparing = True
    try:
        yield
    finally:
        _sparing = False


@cache
def _register() -> None:
    os.register_at_fork(after_in_child=_spare)


def _spare() -> None:
    if _sparing:
        for number in _ORDERS:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def in_a_line() -> Iterator[None]:
    """Turn an error in the block, of a pipeline or of Spark, into a CannotRunError of one line."""
    check_extra()
    from pyspark.errors import PySparkException

    from broker.spark import JavaNotFoundError
    from broker.spark.pipelines.errors import PipelineError
    from broker.spark.pipelines.running import reason

    try:
        yield
    except (PipelineError, JavaNotFoundError) as error:
        raise CannotRunError(str(error)) from error
    except PySparkException as error:
        raise CannotRunError(reason(error)) from error


@contextmanager
def orderly_stop() -> Iterator[Stop]:
    """An order to stop that SIGTERM, SIGHUP and Ctrl-C give; the second of them ends the process at once."""
    from broker.spark.pipelines.running import Stop

    stop = Stop()

    def order(number: int, frame: object) -> None:
        if stop.ordered:
            raise KeyboardInterrupt
        show("stopping, when the batch is done; once more to end at once")
        stop.order()

    with _handled(order, *_ORDERS, signal.SIGINT):
        yield stop


@contextmanager
def cut_off() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block by an error, so that all is put away on the way out, as Ctrl-C does."""

    def order(number: int, frame: object) -> None:
        raise CannotRunError(f"ended by {signal.Signals(number).name}")

    with _handled(order, *_ORDERS):
        yield


@contextmanager
def _handled(order: Callable[[int, object], None], *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, order) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _quiet(settings: dict[str, str]) -> dict[str, str]:
    """Spark's log is for those who ask for it: here it tells errors alone."""
    name = "spark.driver.extraJavaOptions"
    return {name: f"{settings.get(name, '')} -Dlog4j2.configurationFile=file:{_QUIET}".strip()}


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
