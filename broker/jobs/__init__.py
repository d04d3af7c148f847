"""Jobs: what has become of a message that somebody has put and asks about later.

    status = await job_status(connection, "ORDERS", put.md.msg_id)
    status.state, status.until, status.record

state    `JobState` and `JobStatus`: the answer
looking  where a message is looked for: on its queue, its dead-letter queue and its history

Written over the interface alone: what is done here any program can do, embedded or over the wire.
"""

from broker.jobs.looking import job_status as job_status
from broker.jobs.state import JobState as JobState
from broker.jobs.state import JobStatus as JobStatus
