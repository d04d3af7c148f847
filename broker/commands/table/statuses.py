"""The statuses that DISPLAY shows of things that no command defines: claims by consumers, handlers, handles, and
prepared units.

A status is named by the noun of DISPLAY and a TYPE. Its figures stand in the order in which they are printed; the
first is the name that a command asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.commands.table.forms import Integer, Name, Text

if TYPE_CHECKING:
    from broker.commands.table.forms import ValueForm

UNIT_NAME_LENGTH: Final = 128
"""Of the longest name of a prepared unit: SINK/BATCH/PARTITION/ATTEMPT."""

_ANY: Final = Integer(0, (1 << 63) - 1)


class StatusFigure(NamedTuple):
    """One figure of a status: its keyword, the form of its values, and what it says."""

    keyword: str
    form: ValueForm
    reported: str


class StatusKind(NamedTuple):
    """One status: the heading of each thing that is shown, and its figures."""

    code: str
    heading: str
    figures: dict[str, StatusFigure]


def _status(code: str, heading: str, *figures: StatusFigure) -> StatusKind:
    return StatusKind(code, heading, {figure.keyword: figure for figure in figures})


STATUSES: Final[dict[tuple[str, str], StatusKind]] = {
    ("QSTATUS", "CLAIM"): _status(
        "AMQ8450I",
        "Display queue status details.",
        StatusFigure("QUEUE", Name(), "a queue that a consumer claims from, or has claims of"),
        StatusFigure("TYPE", Text(8), "CLAIM"),
        StatusFigure("CONSUMER", Name(), "the consumer"),
        StatusFigure("GENERATION", _ANY, "of the reader that registered last"),
        StatusFigure("CLAIMS", _ANY, "messages of the queue that it has claimed and not acknowledged"),
        StatusFigure("PINNED", _ANY, "of them, those that a batch has been given: they may be in its output already"),
        StatusFigure("CLMBYTES", _ANY, "their data, in bytes"),
        StatusFigure("CLMAGE", _ANY, "seconds since the consumer claimed the oldest of its claims, on whatever queue"),
        StatusFigure("LAG", _ANY, "messages that are available on the queue"),
        StatusFigure("LAGBYTES", _ANY, "their data, in bytes, with that of what is uncommitted at the moment"),
        StatusFigure("LAGAGE", _ANY, "seconds since the oldest of them arrived"),
    ),
    ("QSTATUS", "HANDLER"): _status(
        "AMQ8450I",
        "Display queue status details.",
        StatusFigure("QUEUE", Name(), "a queue whose messages are handed to a handler"),
        StatusFigure("TYPE", Text(8), "HANDLER"),
        StatusFigure("HANDLER", Text(256), "the handler"),
        StatusFigure("PROCESS", Name(), "the process that the queue names"),
        StatusFigure(
            "STARTED", _ANY, "messages that were handed to it, each attempt counted, since the queue manager started"
        ),
        StatusFigure("RUNNING", _ANY, "of them, those that it has in its hands"),
        StatusFigure("SUCCEEDED", _ANY, "those that it has handled"),
        StatusFigure("FAILED", _ANY, "those on which it raised an exception or took too long"),
        StatusFigure("TIMEDOUT", _ANY, "of the failed, those that took too long"),
        StatusFigure("REJECTED", _ANY, "those that it gave up at once"),
        StatusFigure("UNREADABLE", _ANY, "those whose body it could not read"),
        StatusFigure("LATER", _ANY, "those that it put off"),
        StatusFigure("CRASHED", _ANY, "those whose worker was gone before they were settled"),
        StatusFigure("RETURNED", _ANY, "those that came back as if they had not been handed over"),
        StatusFigure("RETRIED", _ANY, "of the started, those that were not at their first attempt"),
        StatusFigure("DEADLETTERED", _ANY, "messages that were put to a dead-letter queue"),
        StatusFigure("HELD", _ANY, "times that this was not possible, and they were kept for it"),
        StatusFigure("EMPTY", _ANY, "starts for which there was no message any more"),
        StatusFigure("DELAYED", _ANY, "messages of the queue that are delayed, to be tried again among others"),
        StatusFigure("WAITING", _ANY, "the old name of DELAYED, until 0.2"),
        StatusFigure("LASTERROR", Text(1024), "the last exception, with its text"),
    ),
    ("QSTATUS", "HANDLE"): _status(
        "AMQ8450I",
        "Display queue status details.",
        StatusFigure("QUEUE", Name(), "a queue that a program has open"),
        StatusFigure("TYPE", Text(8), "HANDLE"),
        StatusFigure("APPLTAG", Text(28), "the program"),
        StatusFigure("CHANNEL", Text(20), "the channel that it came by; blank in the process of the queue manager"),
        StatusFigure("USERID", Text(12), "the user that it is"),
        StatusFigure("INPUT", Text(8), "SHARED or EXCL where it may get messages, else NO"),
        StatusFigure("BROWSE", Text(3), "YES where it may browse them, else NO"),
        StatusFigure("INQUIRE", Text(3), "YES where it may inquire attributes, else NO"),
        StatusFigure("OUTPUT", Text(3), "YES where it may put messages, else NO"),
        StatusFigure("SET", Text(3), "YES where it may set attributes, else NO"),
        StatusFigure("AGE", _ANY, "seconds since it was opened"),
    ),
    ("CFSTATUS", "SUMMARY"): _status(
        "EMQ0011I",
        "Display CFSTATUS details.",
        StatusFigure("CFSTATUS", Name(), "the structure"),
        StatusFigure("TYPE", Text(8), "SUMMARY"),
        StatusFigure("CFTYPE", Text(8), "APPL"),
        StatusFigure("STATUS", Text(12), "ACTIVE; FAILED until it is recovered"),
        StatusFigure("QUEUES", _ANY, "the shared queues that are in it"),
        StatusFigure("ENTSUSED", _ANY, "their messages"),
        StatusFigure("BKUPDATE", Text(10), "when BACKUP CFSTRUCT was run last, on it; blank if it never was"),
        StatusFigure("BKUPTIME", Text(8), "... and at which time"),
    ),
    ("GROUP", ""): _status(
        "EMQ0018I",
        "Display group details.",
        StatusFigure("QMNAME", Name(), "a member of the queue-sharing group"),
        StatusFigure("QSGNAME", Text(4), "the group"),
        StatusFigure(
            "STATUS",
            Text(12),
            "ACTIVE; INACTIVE, where it does not run and has left nothing; FAILED, until a peer is RECOVERING it",
        ),
        StatusFigure("EPOCH", _ANY, "rises with each start of it, and with each recovery"),
        StatusFigure(
            "LEASE", _ANY, "for how many seconds its peers let it be; of one that is RECOVERING, its recoverer"
        ),
        StatusFigure("UOWS", _ANY, "its units of work on shared queues that are not decided"),
        StatusFigure("HANDLES", _ANY, "its handles on shared queues"),
        StatusFigure("RECOVER", Name(), "the member that recovers it, or has done so last"),
        StatusFigure("STARTDA", Text(10), "when it was started last, on ..."),
        StatusFigure("STARTTI", Text(8), "... and at which time, GMT"),
        StatusFigure("ADDRESS", Text(256), "where it runs"),
    ),
    ("THREAD", "INDOUBT"): _status(
        "EMQ0003I",
        "Display thread details.",
        StatusFigure(
            "THREAD",
            Text(UNIT_NAME_LENGTH),
            "the name of a prepared unit: sink, batch, partition and attempt; or the id of a unit of work",
        ),
        StatusFigure("TYPE", Text(8), "INDOUBT"),
        StatusFigure("SINK", Name(), "the sink that may publish it; blank for a unit of work"),
        StatusFigure("BATCH", _ANY, "the batch that it belongs to; 0 for a unit of work"),
        StatusFigure(
            "UOWSTATE",
            Text(12),
            "PREPARED; for a moment PREPARING, COMMITTING, COMMITTED until all is visible, BACKING_OUT; of a unit of "
            "work IN_DOUBT, or with QMNAME what the queue-sharing group has decided, ACTIVE where that is nothing",
        ),
        StatusFigure(
            "MSGS", _ANY, "its messages; of a unit of work those on private queues, with QMNAME on shared ones"
        ),
        StatusFigure("BYTES", _ANY, "their data, in bytes"),
        StatusFigure("AGE", _ANY, "seconds since the unit was begun"),
        StatusFigure("QUEUES", Text(1 << 16), "each of its queues, with how many messages are for it"),
        StatusFigure(
            "DATABASE",
            Text(128),
            "the database of a program that decides it: the program's name of it, and 8 digits of a hash of its id; "
            "blank where none does",
        ),
        StatusFigure(
            "RESOLVER",
            Text(128),
            "the program that decides it now: that has prepared it, or asks its database; else who asked last, and "
            "until when",
        ),
    ),
}
"""By noun and TYPE, empty where there is none."""

NOT_SUPPORTED: Final = {
    "CFSTATUS": ("CONNECT", "BACKUP", "SMDS"),
    "QSTATUS": ("QUEUE",),
    "THREAD": ("ACTIVE", "REGIONS", "*"),
}
"""The TYPEs of these nouns in IBM MQ that are not supported."""

TYPE_BY_DEFAULT: Final = {"CFSTATUS": "SUMMARY", "GROUP": "", "QSTATUS": "QUEUE", "THREAD": "ACTIVE"}
"""The TYPE of a noun that is given none."""
