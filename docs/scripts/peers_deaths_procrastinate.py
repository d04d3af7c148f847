"""The procrastinate app of `peers_deaths.py`, with the periodic task that its documentation has for stalled jobs.

`together`: the row and the follow-up's job are in one transaction, which procrastinate has for its own PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from procrastinate import App, PsycopgConnector

from peers_deaths_work import AT_ONCE, FOLLOW_UPS, ORDERS, KillPlace, PeerTask, reached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HEARTBEAT_SECONDS: Final = 1.0
STALLED_SECONDS: Final = 5.0
"""A job whose worker has not been heard of for so long is stalled: at once, beside the 30 seconds by default."""

EVERY_2_SECONDS: Final = "* * * * * */2"

work = PeerTask.read()
app = App(
    connector=PsycopgConnector(conninfo=work.dsn, min_size=1, max_size=AT_ONCE + 2),
    worker_defaults={
        "concurrency": AT_ONCE,
        "update_heartbeat_interval": HEARTBEAT_SECONDS,
        "stalled_worker_timeout": STALLED_SECONDS,
    },
)


@app.periodic(cron=EVERY_2_SECONDS)
@app.task(queueing_lock="stalled", pass_context=True)
async def retry_stalled(context: Any, timestamp: int) -> None:
    """Let jobs whose worker has died be done again."""
    manager = context.app.job_manager
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
        await manager.retry_job(job)


@app.task(name="follow", queue=FOLLOW_UPS)
async def follow(number: int) -> None:
    """A follow-up, which no worker does."""


async def worked(call_next: Callable[[], Awaitable[Any]], context: Any, worker: Any) -> Any:
    """The task has returned; its job is not finished."""
    result = await call_next()
    reached(KillPlace.WORKED)
    return result


@app.task(name="handle", queue=ORDERS, task_middleware=[worked])
async def handle(number: int) -> None:
    """Write the row of an order, and defer its follow-up."""
    reached(KillPlace.BEFORE)
    async with await psycopg.AsyncConnection.connect(work.dsn) as connection:
        written = (await connection.execute(work.insert, (number,))).rowcount
        if not work.together:
            await connection.commit()
            reached(KillPlace.COMMITTED)
            await follow.defer_async(number=number)
            reached(KillPlace.FOLLOWED)
            return
        if written:
            await follow.configure(connection=connection).defer_async(number=number)
        reached(KillPlace.FOLLOWED)
        await connection.commit()
        reached(KillPlace.COMMITTED)
