"""`evermq demo`: the whole of EverMQ on a file of the user's, with every line accounted for.

A daemon of its own on a free port and a temporary folder; a worker beside it that is killed, and another that goes on;
then a triggered queue, a handler for each message, replies, and a dead-letter queue for what the handler cannot read.
"""

from broker.cli.demo.command import demo as demo
