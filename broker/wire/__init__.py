"""The protocol between programs and a queue manager: msgpack frames, without a socket, a clock or a task in it.

`frames` says what can be said, `protocol` turns bytes into frames and back at either end, `verbs` has a row for each
call (`verb_row`), with what its arguments may be (`fields`) and what it returns (`results`), `liveness` decides when a
line has gone silent. Whoever has the socket (`broker.client`, `broker.server`) feeds them.
"""

from broker.wire.frames import Frame as Frame
from broker.wire.frames import Hello as Hello
from broker.wire.frames import Refused as Refused
from broker.wire.frames import Verb as Verb
from broker.wire.frames import Welcome as Welcome
from broker.wire.frames import WireError as WireError
from broker.wire.liveness import Liveness as Liveness
from broker.wire.protocol import Endpoint as Endpoint
from broker.wire.protocol import Role as Role
from broker.wire.protocol import State as State
