"""The settings: every key of every section, declared in one place with its default, unit, kind and help.

The sample `broker.toml` and the page `docs/reference/configuration.md` are written from this declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from broker.config.http import HttpConfig
from broker.config.kinds import (
    Choice,
    DatabaseAddress,
    FileMode,
    FilePath,
    GroupName,
    LoopbackHost,
    ModuleName,
    ObjectName,
    Seconds,
    SecretFile,
    Several,
    SharingGroupName,
    Switch,
    UserName,
    Whole,
)
from broker.config.limits import LimitsConfig
from broker.config.security import SecurityConfig, TlsConfig, TokensConfig
from broker.config.setting import KIB, MIB, Setting, about, live

DURABLE: Final = "durable"
DEFAULTS: Final = (DURABLE, "mq")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueManagerConfig:
    """The queue manager: its name, and where its messages and definitions are kept.

    An embedded queue manager may have `data=None`, which keeps everything in memory; a file always names a folder.
    """

    name: str = field(default="QM1", metadata=about(ObjectName(), "Name of the queue manager."))
    data: Path | None = field(
        default=Path("evermq-data"),
        metadata=about(FilePath(), "Folder of the journal. It is created when missing; one queue manager uses it."),
    )
    defaults: str = field(
        default=DURABLE,
        metadata=about(
            Choice(DEFAULTS),
            "Defaults of a new queue manager. durable: a queue keeps its messages over a restart (DEFPSIST(YES)), and "
            "a member that has lost its queue-sharing group goes on (CFCONLOS(TOLERATE)); mq: as IBM MQ has it "
            "(DEFPSIST(NO), CFCONLOS(TERMINATE)). An existing queue manager keeps its own.",
        ),
    )
    startup: tuple[Path, ...] = field(
        default=(),
        metadata=about(
            Several(FilePath(), "a list of paths"),
            "MQSC files run at each start, in this order, before anybody connects; of a name with * all files that "
            "match, in the order of their names. Write definitions with REPLACE.",
        ),
    )
    quiesce_timeout: float = field(
        default=10.0,
        metadata=about(Seconds(0.0), "How long an orderly stop waits for connections and handlers to end.", "seconds"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """The addresses on which the daemon listens for programs."""

    host: str = field(
        default="127.0.0.1",
        metadata=about(LoopbackHost(), "Address to listen on, without TLS: loopback only. Others are served by [tls]."),
    )
    port: int = field(
        default=1414, metadata=about(Whole(0, 65535), "TCP port; 0 takes a free one, which the ready line names.")
    )
    unix: Path | None = field(
        default=None, metadata=about(FilePath(optional=True), "Unix socket to listen on as well; empty for none.")
    )
    unix_mode: str = field(
        default="0600",
        metadata=about(FileMode(), "Mode of the Unix socket: who may write to it may connect, as any user."),
    )
    unix_group: str = field(
        default="", metadata=about(GroupName(), "Group of the Unix socket; empty for that of the daemon's user.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """The settings for writing persistent messages."""

    batch_rows_max: int = field(
        default=4096,
        metadata=about(Whole(1, 1_000_000), "Most rows written in one batch. A unit of work is never split."),
    )
    files: int = field(
        default=2,
        metadata=about(
            Whole(2, 64), "Files of the log of a new queue manager, written in turn. An existing one keeps its own."
        ),
    )
    file_bytes: int = field(
        default=16 * MIB,
        metadata=about(
            Whole(64 * KIB, 1 << 32),
            "Length of each file of the log. An existing queue manager keeps its own.",
            "bytes",
        ),
    )
    inline: str = field(
        default="adaptive",
        metadata=about(
            Choice(("adaptive", "never")),
            "adaptive: short batches are written on the event loop while the disk is fast; never: always on a thread, "
            "so that a disk that hangs does not stop the loop.",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSharingGroupConfig:
    """The queue-sharing group that the queue manager joins: queue managers that serve the same queues, on PostgreSQL.

    Needs the extra `postgres`: pip install 'evermq[postgres]'.
    """

    name: str = field(
        default="",
        metadata=about(
            SharingGroupName(),
            "Name of the group, up to four capitals and digits; empty: the queue manager is in none.",
        ),
    )
    dsn: str = field(
        default="",
        repr=False,  # it may have a password
        metadata=about(
            DatabaseAddress(),
            "The database of the group, as postgresql://user@host:5432/database?sslmode=verify-full. All members name "
            "the same; the group has a schema of its own there, which the first member makes. The password is in "
            "dsn_password_file, in PGPASSWORD, or in ~/.pgpass.",
        ),
    )
    dsn_password_file: Path | None = field(
        default=None,
        metadata=about(
            SecretFile(),
            "File with the password of the user of the database, read for each session; empty: dsn says where it is.",
        ),
    )
    lease: float = field(
        default=10.0,
        metadata=about(
            Seconds(1.0, 600.0),
            "After so long without a sign of life from this queue manager, the others recover what it has left. It "
            "gives up its membership after 7 tenths of it without the database.",
            "seconds",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMonitorConfig:
    """The fast-path trigger monitor, which starts handlers when messages arrive."""

    enabled: bool = field(default=True, metadata=about(Switch(), "true: the daemon runs the trigger monitor."))
    handlers: tuple[str, ...] = field(
        default=(),
        metadata=about(
            Several(ModuleName(), "a list of dotted names of modules"),
            "Modules with handlers (functions tagged @process). The current folder is searched first.",
        ),
    )
    user: str = field(
        default="",
        metadata=about(
            UserName(),
            "The user as whose the calls of handlers are judged, but for those that name one with @process(user=). "
            "Empty: they may do everything.",
        ),
    )
    batch_size: int = field(
        default=10,
        metadata=live(Whole(1, 10_000), "Most handlers started for one queue before the next has its turn."),
    )
    throttle_delay: float = field(
        default=0.001, metadata=live(Seconds(0.0), "Pause after each batch of starts.", "seconds")
    )
    generation_interval: float = field(
        default=5.0,
        metadata=live(
            Seconds(0.1),
            "How often a new instance of the monitor takes over from the last, with handler modules that have changed.",
            "seconds",
        ),
    )
    sweep_interval: float = field(
        default=60.0,
        metadata=live(
            Seconds(0.1),
            "How often the monitor looks for messages on EVERY queues though no handler is on the way to them.",
            "seconds",
        ),
    )
    max_tasks: int = field(default=1000, metadata=live(Whole(1, 1_000_000), "Most handlers running at a time."))
    max_handlers: int = field(
        default=100, metadata=live(Whole(1, 1_000_000), "Most handlers running at a time for one queue.")
    )
    commands: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "true: `evermq monitor` starts the commands of processes with APPLTYPE(UNIX). Whoever may define "
            "processes, or put on its initiation queue, then runs commands as its user.",
        ),
    )
    command_timeout: float = field(
        default=3600.0, metadata=about(Seconds(0.0), "How long such a command may run; 0: for ever.", "seconds")
    )
    background_commands: int = field(
        default=10, metadata=about(Whole(1, 10_000), "Most such commands in the background (with &) at a time.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingConfig:
    """The log of the daemon, on standard error."""

    level: str = field(
        default="INFO",
        metadata=live(
            Choice(("DEBUG", "INFO", "WARNING", "ERROR")),
            "Least important level logged. DEBUG has each frame and each batch of the journal.",
        ),
    )
    format: str = field(
        default="text", metadata=live(Choice(("text", "json")), "A line in logfmt, or one JSON object a line.")
    )
    recent: int = field(
        default=10_000,
        metadata=live(
            Whole(0, 1_000_000),
            "Last lines kept in memory for `evermq support`, 8 MiB at most; 10,000 take some 3 MiB.",
            "lines",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration, a section a field."""

    queue_manager: QueueManagerConfig = field(default_factory=QueueManagerConfig)
    listener: ListenerConfig = field(default_factory=ListenerConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    tokens: TokensConfig = field(default_factory=TokensConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    queue_sharing_group: QueueSharingGroupConfig = field(default_factory=QueueSharingGroupConfig)
    trigger_monitor: TriggerMonitorConfig = field(default_factory=TriggerMonitorConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)


SECTIONS: Final[dict[str, type[Any]]] = {
    "queue_manager": QueueManagerConfig,
    "listener": ListenerConfig,
    "tls": TlsConfig,
    "security": SecurityConfig,
    "tokens": TokensConfig,
    "http": HttpConfig,
    "journal": JournalConfig,
    "limits": LimitsConfig,
    "queue_sharing_group": QueueSharingGroupConfig,
    "trigger_monitor": TriggerMonitorConfig,
    "logging": LoggingConfig,
}


def settings(section: str) -> dict[str, Setting]:
    """The settings of a section, by key, in the order of their declaration."""
    return {each.name: Setting(each.name, each.default, **each.metadata) for each in fields(SECTIONS[section])}
