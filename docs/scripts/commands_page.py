"""Writes `docs/reference/commands.md`, the reference of commands and attributes, from the tables of the commands.

Run `python docs/scripts/commands_page.py` after a change.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from broker.commands.display import mqsc_token
from broker.commands.language.options import OPTIONS
from broker.commands.language.words import COMMANDS, DISPLAY_OPTIONS, NOUNS, VERBS, ZMQSC_KEYWORDS
from broker.commands.table.attributes import TABLE
from broker.commands.table.forms import Flag
from broker.commands.table.row import Attribute, Origin
from broker.commands.table.statuses import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).parents[1] / "reference" / "commands.md"

INTRODUCTION = """\
# Commands

A command is a verb, a noun with a name in parentheses, and keywords with their values in parentheses, in any order:

    DEFINE QLOCAL(ORDERS) DESCR('orders to be shipped') MAXDEPTH(100000) TRIGGER

Words may be in any case. Names and texts become upper case unless they stand in quotes. A line that ends in `+` goes
on with the first character of the next line that is not blank, one that ends in `-` with its first column. Lines that
begin with `*` are comments. `END` ends a script.

`DEFINE` takes what it is not given from the object named by `LIKE`, or else from the default object of the kind
(`SYSTEM.DEFAULT.LOCAL.QUEUE`, `.ALIAS.QUEUE`, `.REMOTE.QUEUE`, `.MODEL.QUEUE`, `SYSTEM.DEFAULT.PROCESS`), which a queue
manager creates when it is new. With `REPLACE` it alters an existing object so; messages stay.
`ALTER` changes only what it is given; a change that open handles depend on needs `FORCE`, and makes those handles
unusable (`MQRC_OBJECT_CHANGED`). A change of what an alias or a remote queue leads to is such a change. `DELETE` of a
queue that holds messages needs `PURGE`. While handles are open or units of work unfinished, a queue can be neither
deleted nor cleared, nor while messages of it are claimed or prepared ([Claims and prepared units](../rules/claims.md)):
the reply names who has them. `CLEAR`, and `DELETE` with `PURGE` of more than 500 messages, remove the messages 500 at a
time, so that other programs are served meanwhile; until that is done the queue cannot be opened
(`MQRC_OBJECT_IN_USE`). The command is answered when all of it is on disk. What ends it before that, such as a crash or
a full disk, leaves the rest of the messages on the queue.

`DISPLAY` of a whole name shows every attribute; of a generic name, which ends in an asterisk, only names and types.
Keywords after the name, or `ALL`, ask for more. `WHERE(keyword operator value)` takes one condition: LT, GT, EQ, NE,
LE, GE for numbers and texts, EQ and NE for words and flags, LK and NL for texts with a trailing asterisk.

`DISPLAY QSTATUS(name) TYPE(HANDLE)` shows each program that has a queue open, `TYPE(CLAIM)` each consumer of each
queue, `TYPE(HANDLER)` each handler of each queue and what has become of the messages that it was handed, `DISPLAY
THREAD(name) TYPE(INDOUBT)` each prepared unit; the figures are below. All are shown unless some are named. `RESOLVE
CONSUMER(name) ACTION(BACKOUT)` gives the claims of a consumer back to their queues, in place of a program that is gone
for good, and ends the lineage of its checkpoint.
Where some are pinned it is refused, because they may be in an output already: `PINNED(YES)` insists, and
`ACTION(COMMIT)` removes those and gives back the others. See to it first that the program is dead: what it has read
it can still write. `RESOLVE INDOUBT(name) ACTION(BACKOUT)` discards a prepared unit, whose batch then runs again;
`RESET SINK(name)` forgets what a sink has published last and for which query, and discards its units, so that another
query can use it.

`DEFINE USER('alice') GROUPS('app')` makes a user; names of users and groups have 1 to 12 characters from A-Z a-z 0-9
. _ -, and keep their case only in quotes. PASSWORD takes the hash of a password, which `evermq user password` makes,
and never a password; it is shown as SET or NONE. LIKE does not copy it, and REPLACE without it keeps it. `SET AUTHREC
PROFILE('APP.**') OBJTYPE(QUEUE) GROUP('app') AUTHADD(GET,PUT)` adds rights to the record of each PRINCIPAL and GROUP
that is named, AUTHRMV removes some: all records of a command, or none. ALL, ALLMQI and ALLADM mean the rights that
the type of object has. A record that has lost its last right stays, `DELETE AUTHREC` deletes it. The profile of the
queue manager can be left out; `@class` with CRT is for who may create objects of a type. What does not exist yet may
be given rights, and the reply says so (`EMQ0023W`). `DISPLAY AUTHREC` chooses by PROFILE, OBJTYPE, PRINCIPAL or
GROUP, and by MATCH(PROFILE), EXACT, or MEMBERSHIP, which adds the groups of a user; `DISPLAY ENTAUTH` shows what all
records together give. `DELETE` of an object deletes the records of its exact name too, unless AUTHREC(NO) is given.

`DEFINE CHANNEL` needs CHLTYPE, `DEFINE AUTHINFO` AUTHTYPE: they decide which attributes the object has. Channels of
CHLTYPE(CLNTCONN) have names of their own. `SET CHLAUTH` makes the records by which channels let in: ACTION(ADD) a new
one, or one more user or address in the list of a BLOCKUSER or BLOCKADDR; REPLACE, REMOVE and REMOVEALL as in IBM MQ.
`DISPLAY CHLAUTH` takes asterisks anywhere in the name, MATCH(EXACT) takes none for a pattern, and MATCH(ALL) shows
the records of wider profiles too.

In the tables below, MQSET marks what that call may change. A quiet attribute is left out by `DISPLAY ALL` while it has
its default, and printed when it is named.

Many attributes are kept and shown without being acted on, so that definitions taken over from IBM MQ keep them. The
column *acts* tells which: "yes", what IBM MQ does is done; "for programs", kept for whoever reads it, IBM MQ does no
more; "no", kept only. A `DEFINE` or `ALTER` that gives such an attribute a value which asks for something is carried
out, and its reply has a further line that says so (`EMQ0002W`; in Python also in `reply.warnings`): once for each
attribute in a script. Defaults, and values that switch something off, are not warned of.

From Python, `await connection.mqsc(text)` runs a script and gives a reply for each command; one that fails is a reply
that is not `ok`, and those behind it are run all the same. `mqsc(text, check=True)` ends at the first that fails, and
raises `CommandFailedError`, an `MQError` that has the `replies` so far. The startup files of the daemon are run so: the
error names file, line and command, and says how many commands before it took effect and stay.

A verb, an object or a keyword that IBM MQ knows and EverMQ does not is answered `EMQ0001E: START LISTENER is not
supported by EverMQ.`, which is no syntax error; a mistyped one with the nearest right one. Message ids that begin with
AMQ are IBM MQ's, those with EMQ have no like there.
"""

LANGUAGE = """\
## How commands are written

The code and the tests cite these rules by number.

| | rule |
|---|---|
| <a id="l1"></a>L1 | keywords follow verb, noun and name in whatever order, the value of each behind it in parentheses |
| <a id="l2"></a>L2 | blanks and commas part words, as many as you like; there is at least one before a keyword |
| <a id="l3"></a>L3 | words may be in any case |
| <a id="l4"></a>L4 | names and texts become upper case, except in quotes |
| <a id="l5"></a>L5 | letters, digits, `.`, `/`, `_` and `%` need no quotes; quotes are single or double |
| <a id="l6"></a>L6 | within quotes the quote itself is written twice; `DISPLAY` prints texts as they are |
| <a id="l7"></a>L7 | `('')` makes an attribute blank; `()` and blank names are errors |
| <a id="l8"></a>L8 | a line is a command; `+` at its end goes on with the next line's first character that is not blank, `-` with its first column, within words and quotes too |
| <a id="l9"></a>L9 | `+` puts no blank between the two |
| <a id="l10"></a>L10 | blank lines and lines that begin with `*` are passed over, also between the lines of one command |
| <a id="l11"></a>L11 | a line may have any length |
| <a id="l12"></a>L12 | `;` ends a command, and another may follow on the line |
| <a id="l13"></a>L13 | `END`, `EXIT`, `QUIT` or the end of the file ends the script |
| <a id="l14"></a>L14 | a keyword, or two that contradict each other, is given once (AMQ8411E) |
| <a id="l15"></a>L15 | a tab is a blank |
| <a id="l16"></a>L16 | where a single command is asked for, it goes on over no line |
"""  # noqa: E501

STATUS_INTRODUCTION = """\
## Figures of {command}

Answered with {code}. Ages are whole seconds.
"""

ZMQSC_INTRODUCTION = """\
## ZMQSC

The command language of TPF. Keyword and value are joined by a hyphen; values without quotes become upper case; verbs
may be shortened to three letters. `MAXDEPTH-0` means no maximum. A process defined so is of APPLTYPE(TPF), and its
APPLICID has up to 4 characters.

    ZMQSC DEF PROCESS-MYPROCESS APPLICID-appl ENVRDATA-MYENVR USERDATA-TESTING
    ZMQSC ALTER QL-TESTQ PROCESS-MYPROCESS TRIGGER TRIGTYPE-EVERY TRIGDATA-THISISTRIGGER
"""


def page() -> str:
    """The whole page, in Markdown."""
    parts = [INTRODUCTION, LANGUAGE, _commands(), *map(_attributes, TABLE), *map(_status, STATUSES), _zmqsc()]
    return "\n".join(parts)


def _commands() -> str:
    rows = [
        (
            f"`{verb} {noun}`",
            ", ".join(f"`{keyword}`" for keyword in OPTIONS.get((verb, noun), DISPLAY_OPTIONS.get(noun, ()))),
        )
        for verb, nouns in COMMANDS.items()
        for noun in nouns
    ]
    short = ", ".join(f"{short} {word}" for short, word in (VERBS | NOUNS).items() if short != word)
    return f"## Verbs and nouns\n\nShort forms: {short}.\n\n{_table(('command', 'options'), rows)}"


def _attributes(kind: str) -> str:
    rows = [
        (f"`{_keyword(row)}`", row.form.syntax, _default(row), _acts(row), _selector(row), ", ".join(_notes(row)))
        for row in TABLE[kind].values()
    ]  # fmt: skip
    return f"## Attributes of {kind}\n\n{_table(('keyword', 'values', 'default', 'acts', 'selector', ''), rows)}"


def _keyword(row: Attribute) -> str:
    return f"{row.keyword}` / `NO{row.keyword}" if isinstance(row.form, Flag) else row.keyword


def _default(row: Attribute) -> str:
    if row.origin is not Origin.GIVEN:
        return ""
    if isinstance(row.form, Flag):
        return mqsc_token(row, row.default)
    return str(row.form.plain(row.default)) or "blank"


def _acts(row: Attribute) -> str:
    if row.origin is not Origin.GIVEN:
        return ""
    follows = f": {row.instead}" if row.instead else ""
    return f"{row.acts.value}{follows}"


def _selector(row: Attribute) -> str:
    if row.selector is None:
        return ""
    return f"{type(row.selector).__name__}_{row.selector.name} ({row.selector.value})"


def _notes(row: Attribute) -> Iterable[str]:
    if row.origin is not Origin.GIVEN:
        yield "read only"
    if row.settable:
        yield "MQSET"
    if row.quiet:
        yield "quiet"


def _status(noun_and_type: tuple[str, str]) -> str:
    noun, type = noun_and_type
    status = STATUSES[noun_and_type]
    head = STATUS_INTRODUCTION.format(command=f"DISPLAY {noun}" + (f" TYPE({type})" if type else ""), code=status.code)
    rows = [(f"`{each.keyword}`", each.reported) for each in status.figures.values()]
    return f"{head}\n{_table(('keyword', ''), rows)}"


def _zmqsc() -> str:
    rows = [
        (f"`ZMQSC {verb} {noun}`", ", ".join(f"`{word}`" for word in keywords))
        for (verb, noun), keywords in ZMQSC_KEYWORDS.items()
    ]
    return f"{ZMQSC_INTRODUCTION}\n{_table(('command', 'keywords'), rows)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
