"""The pages of the console, a module each.

overview   /: is anything wrong?
queues     /queues: all queues, by name, and the search
queue      /queues/NAME: one queue over the last minutes, who has it open, why its messages wait
messages   /queues/NAME/messages: what lies on it
message    /queues/NAME/messages/ID: one message, and what to do about it

`PAGES` has them in the order of the navigation; the recipe for another one is in `broker.http.console`.
"""

from broker.http.console.pages.message import DATA, MESSAGE
from broker.http.console.pages.messages import MESSAGES
from broker.http.console.pages.overview import OVERVIEW
from broker.http.console.pages.queue import QUEUE
from broker.http.console.pages.queues import QUEUES

PAGES = (OVERVIEW, QUEUES, QUEUE, MESSAGES, MESSAGE, DATA)
"""All pages."""
