"""The queue manager as a process of its own: the listener, the sessions of its clients, the daemon around them."""

from broker.server.errors import StartError as StartError
from broker.server.server import Server as Server
