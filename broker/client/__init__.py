"""The client: a connection to a queue manager in another process, with the interface of an embedded one.

`address` reads URLs, `identity` says who the client is and what proves it, `reaching` opens a line, with `tls` where
that is wanted, `dial` a conversation on it, `line` is the client's end of a socket, `port` the calls of one
conversation, `calls` their answers to come. Bytes that arrive end futures, without a task. The only tasks are that of
`redial`, while a line is down that is to be made again, that of `renewal`, before a token ends, and that of
`line_pool`, while a connection waits for another line than the one that has no room for it. `reconnecting` is the port
that outlives its lines, with its `lasting_handles`, and with `deferred_calls` for when there is none. `blocking` has a
connection for programs without an event loop.
"""

from broker.client.blocking import connect_sync as connect_sync
from broker.client.dial import connect as connect
