"""For the tests of programs that use the queue manager: time under control, and stores that fail or take time."""

from broker.testing.clock import VirtualClock as VirtualClock
from broker.testing.clock import settle as settle
from broker.testing.faults import FaultStore as FaultStore
from broker.testing.seeded import SeededStore as SeededStore
