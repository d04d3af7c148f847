"""For the tests of programs that use the queue manager: time under control, and a store that fails on purpose."""

from broker.testing.clock import VirtualClock as VirtualClock
from broker.testing.faults import FaultStore as FaultStore
