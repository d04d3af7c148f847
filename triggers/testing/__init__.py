"""For the tests of apps: `app.test()`; for pytest the fixtures `evermq_manager`, `evermq_connection`, `evermq_app`."""

from triggers.testing.app_test import AppTest as AppTest
from triggers.testing.failures import Event as Event
from triggers.testing.harness import Harness as Harness
from triggers.testing.stuck import NoProgressError as NoProgressError
