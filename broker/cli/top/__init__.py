"""`evermq top`: the queue manager at work, on a screen of 80 by 24 characters or more.

command   the command; one frame of it as text
tables    the rows of queues, handlers and units of work
screen    the program on the terminal, by Textual (extra `top`)
"""

from broker.cli.top.command import top as top
