"""The pages of the console, a module each.

overview   /: is anything wrong?
queues     /queues: all queues, by name, and the search
queue      /queues/NAME: one queue over the last minutes, who has it open, why its messages wait
messages   /queues/NAME/messages: what lies on it
message    /queues/NAME/messages/ID: one message, and what to do about it
dead_letters  /dead-letters: all of them by what they died of, and those of one death
dead_letter   /dead-letters/NAME/ID: one of them, put back, edited, or removed
handlers      /handlers: what they do, and schedules
units         /units: units of work, prepared units, consumers
group         /group: the queue-sharing group
objects       /objects: definitions by kind
object        /objects/KIND/NAME: one of them, and a change of it
access        /objects/access: who may do what, and why
commands      /commands: a session of MQSC
log           /log: the last lines of the log

`PAGES` has them in the order of the navigation; the recipe for another one is in `broker.http.console`.
"""

from broker.http.console.pages.access import ACCESS
from broker.http.console.pages.commands import COMMANDS, COMPLETION
from broker.http.console.pages.dead_letter import DEAD_LETTER
from broker.http.console.pages.dead_letters import DEAD_LETTERS, LETTERS
from broker.http.console.pages.group import GROUP
from broker.http.console.pages.handlers import HANDLERS
from broker.http.console.pages.log import LOG
from broker.http.console.pages.message import DATA, MESSAGE
from broker.http.console.pages.messages import MESSAGES
from broker.http.console.pages.object import OBJECT
from broker.http.console.pages.objects import OBJECTS
from broker.http.console.pages.overview import OVERVIEW
from broker.http.console.pages.queue import QUEUE
from broker.http.console.pages.queues import QUEUES
from broker.http.console.pages.units import UNITS

PAGES = (
    OVERVIEW,
    QUEUES,
    QUEUE,
    MESSAGES,
    MESSAGE,
    DATA,
    DEAD_LETTERS,
    LETTERS,
    DEAD_LETTER,
    HANDLERS,
    UNITS,
    GROUP,
    OBJECTS,
    ACCESS,
    OBJECT,
    COMMANDS,
    COMPLETION,
    LOG,
)
"""All pages."""
