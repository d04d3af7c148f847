"""The Celery application of `peers_deaths.py`, with what its documentation has for tasks that must not be lost.

A worker pops a task from its list in Redis, and then notes that it has it. One that is killed between the two has lost
it, whatever is set: nothing here draws a death there, but a worker may be there with its next task when it dies of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from celery import Celery
from celery.signals import task_postrun

from peers_deaths_work import AT_ONCE, FOLLOW_UPS, ORDERS, KillPlace, PeerTask, reached

if TYPE_CHECKING:
    from collections.abc import Iterable

VISIBILITY_SECONDS: Final = 5
"""A task that is not acknowledged for so long is delivered again: a task here takes milliseconds."""

HANDLE: Final = "handle"
FOLLOW: Final = "follow"

work = PeerTask.read()
app = Celery("peers_deaths", broker=work.redis or None)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_concurrency=AT_ONCE,
    worker_enable_remote_control=False,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    broker_connection_retry_on_startup=True,
    visibility_timeout=VISIBILITY_SECONDS,
    broker_transport_options={
        "global_keyprefix": work.prefix,
        "visibility_timeout": VISIBILITY_SECONDS,
        # Else it looks for such tasks every 100 seconds, and not for 300 where a worker died looking.
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": VISIBILITY_SECONDS,
    },
)


@app.task(name=HANDLE)
def handle(number: int) -> None:
    """Write the row of an order, and send its follow-up."""
    reached(KillPlace.BEFORE)
    with psycopg.connect(work.dsn) as connection:
        connection.execute(work.insert, (number,))
        connection.commit()
    reached(KillPlace.COMMITTED)
    app.send_task(FOLLOW, [number], queue=FOLLOW_UPS)
    reached(KillPlace.FOLLOWED)


@task_postrun.connect
def handled(**_: Any) -> None:
    """The task has returned, in the process of the pool; the worker has not acknowledged it."""
    reached(KillPlace.WORKED)


def put(numbers: Iterable[int]) -> None:
    """Send orders, over a line that has the settings as they are now."""
    with app.connection_for_write() as connection:
        for number in numbers:
            app.send_task(HANDLE, [number], queue=ORDERS, connection=connection)
