"""The client: a connection to a queue manager in another process, with the interface of an embedded one.

`address` reads URLs, `dial` opens a line and a conversation on it, `line` is the client's end of a socket, `port` the
calls of one conversation, `calls` their answers to come. There is no task here: bytes that arrive end futures.
"""

from broker.client.dial import connect as connect
