"""The events of the log: each word with what it means. `docs/reference/log-events.md` is written from this table, and a
test compares it with what the code logs, both ways. A word that has been released stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# The queue manager, its daemon and its store

_DAEMON: Final = {
    "answer_not_sent": "The answer to a call has no form on the wire, an internal error: the call fails with 2195.",
    "certificate_ends": "The certificate of the daemon ends soon: replace it.",
    "certificate_not_reloaded": "The new certificate cannot be used, the old one goes on.",
    "certificate_reloaded": "New connections are given the new certificate.",
    "configuration_not_reloaded": "The configuration was not reloaded, and nothing has changed.",
    "configuration_reloaded": "The configuration was read again: so many keys have changed, so many wait for a start.",
    "console_used": "Somebody has pressed a button of the console: who, on which page, and what came of it.",
    "end_given_up": "Handlers and services did not end in time: the process ends without them.",
    "ended_by_error": "A queue manager or a connection has ended by an internal error.",
    "ends_at_once": "A second signal, or a failed store, ends the process at once.",
    "frame_received": "A frame has come from a client.",
    "frames_written": "Frames were sent to a client.",
    "http_listening": "HTTP is served at these addresses.",
    "key_readable": "Every user of the machine can read the private key: take that from them.",
    "line_dropped": "A line was cut, since what had to come on it did not come in time.",
    "line_refused": "A line was cut, since what came on it is against the protocol or over a limit.",
    "listening": "Clients can connect to these addresses.",
    "loop_blocked": "A handler of the user's blocks the event loop: nobody is served meanwhile.",
    "names_told": "Whoever reaches `[http] probes` learns the names of queues.",
    "rest_call_failed": "A call of REST has failed by an internal error: it was answered with 500 and reason 2195.",
    "no_client_accepted": "The system gives no more sockets; the next try comes in a moment.",
    "open_files_limited": "The system allows fewer open files than `[limits] connections` needs.",
    "open_files_not_raised": "The limit of open files could not be raised.",
    "password_in_configuration": "The configuration has a password: move it to a secret file.",
    "ready": "The daemon is ready: startup commands are done, listeners are open.",
    "service_manager_not_notified": "systemd could not be told how the daemon stands.",
    "setting_changed": "A reload has changed a key of the configuration.",
    "setting_waits": "The file of the configuration has a value that holds from the next start on.",
    "signal_ignored": "SIGHUP came while the daemon starts or ends.",
    "signal_received": "A signal ends the daemon, or its start.",
    "startup_command_failed": "A command of a startup file failed, and the start with it.",
    "startup_command_warning": "A command of a startup file succeeded with a warning.",
    "startup_commands_complete": "All commands of a startup file are done.",
    "watchdog_not_notified": "A check fails: systemd is not told that the daemon lives, and ends it if this goes on.",
}

_QUEUE_MANAGER: Final = {
    "batch_to_write": "The journal writes a batch.",
    "bodies_not_let_go": "An internal error kept data of messages in memory, beyond a lower `[limits] body_bytes`.",
    "claims_are_old": "A consumer has not acknowledged its claims for a long time: its program is to go on.",
    "dead_letters_held": "Failed messages stay on their queue: the dead-letter queue cannot take them.",
    "default_objects_created": "A new queue manager has its default objects.",
    "expired_messages_not_discarded": "An internal error kept the scan from discarding expired messages.",
    "expired_messages_not_removed": "Expired messages stay, since what was to be reported of them could not be read.",
    "history_lost": "What became of a message could not be recorded on the history of its queue; the work stands.",
    "internal_error": "A step of the queue manager failed by a mistake of ours: please report it.",
    "keys_not_forgotten": "An internal error kept old keys of puts in the store.",
    "message_damaged": "The data of a message has changed on the disk: the get fails with 2101, and the message stays.",
    "message_lost": "A message could not be put, put back, or sent by the queue manager, and is gone.",
    "messages_loaded": "The messages of the store are on their queues.",
    "nonpersistent_messages_lost": "The store was too full to bring nonpersistent messages back.",
    "notrigger_not_written": "NOTRIGGER of a queue could not be written yet; it is tried again.",
    "objects_not_created": "The store was too full for objects that a start makes; the next one makes them.",
    "prepared_unit_discarded": "A prepared unit was neither published nor touched for `[limits] prepared_age`.",
    "prepared_unit_not_discarded": "An old prepared unit could not be discarded; it is tried again.",
    "queue_manager_ended": "The queue manager has ended in order.",
    "queue_manager_quiesces": "New connections are refused, and those that are there may end.",
    "queue_manager_started": "The queue manager has started.",
}

_SECURITY: Final = {
    "connected": "A program is in: as which user, and by which proof.",
    "connection_refused": "Somebody was not let in: at which step, and by which rule.",
    "credential_expired": "A token or certificate has ended, and the connection with it.",
    "keys_of_tokens_fetched_again": "The issuer's keys of tokens were fetched again.",
    "keys_of_tokens_not_fetched": "The issuer of tokens is out of reach; known keys go on for a day.",
    "lines_left_out": "So many lines about origins that flood the security log were not written.",
    "not_authorized": "A call or command was refused: at which step, and by which rule.",
    "password_not_verified": "An internal error kept a password from being verified, and the user out.",
    "security_changed": "A command about security has done its work, or programs of this machine are trusted no more.",
}

_STORE: Final = {
    "backup_made": "A backup is whole and on the medium.",
    "ballast_not_removed": "The room kept for removals could not be freed.",
    "data_directory_writable": "Other users may write to the data directory: take that from them.",
    "database_busy": "Another program holds the database; the queue manager waits for it.",
    "database_compared_with_the_medium": "The database was compared with the disk: there was no room to write it anew.",
    "database_locked": "The database is locked for other programs while room is short.",
    "database_not_removed": "An old file of the database could not be removed; the next start removes it.",
    "database_not_written_anew": "The database keeps its free room for now.",
    "database_written_anew": "The database was written to a new file.",
    "earlier_writes_failed": "Earlier writes to a file of the log have failed; what is read comes from the disk.",
    "file_accessible": "Other users may read or write a file of the queue manager.",
    "file_refuses_a_way": "A file system has no such way of writing; the next one is taken.",
    "file_system": "The file system of the data has a property that endangers messages or slows them.",
    "log_read": "The log was read at the start.",
    "new_store": "A new directory for data was made.",
    "no_room_for_a_ballast": "There is no room to keep some for removals.",
    "nonpersistent_messages_stay": "Nonpersistent messages of queues with NPMCLASS(HIGH) were not written at the end.",
    "old_store_not_marked": "An older release would not see that this store is newer.",
    "sqlite": "The library of SQLite has a property to know of.",
    "store_failed": "The disk has failed: the queue manager stops. What was acknowledged is there after a start.",
    "store_full": "The disk is full: puts are refused, gets go on.",
    "store_has_room_again": "The disk has room again: puts are taken.",
    "store_upgraded": "The data is that of a newer release now; an older one cannot use it any more.",
}

# Clients

_CLIENTS: Final = {
    "credentials_not_renewed": "A program could not give its queue manager a fresh token or password.",
    "handle_lost": "A queue could not be opened again after a reconnection: its handle fails.",
    "line_again_there": "A client is connected again.",
    "line_lost": "A client has lost its line, and connects again.",
    "line_not_made_again": "A client gave up to connect again.",
    "line_not_there_yet": "A try to connect again failed; another follows.",
    "service_lost": "A queue could not be served again after a reconnection.",
}

# Handlers, workers, the trigger monitor

_APPS: Final = {
    "app_ends": "A worker ends with its queue manager.",
    "app_not_served": "A worker has no queue manager for now, and tries again for ever.",
    "app_refused": "The queue manager refused a worker, which tries once more.",
    "app_serves_again": "A worker serves its queues again.",
    "defined_for_the_app": "An app has defined an object that it needs.",
    "handled": "A delivery has ended: `outcome` says how. done and later are DEBUG, returned and expired INFO, retry, "
    "refused and unknown WARNING, dead and held ERROR.",
    "handler_goes_on": "A handler did not end when it was cancelled; nothing that it does counts.",
    "handler_holds_loop": "A handler holds the event loop of its worker: nothing else runs meanwhile.",
    "middleware_failed": "`failed` of a middleware raised.",
    "never_awaited": "A call was never awaited, and did nothing.",
    "nobody_serves": "Nobody serves a queue that a program puts to, or a process that a queue names.",
    "queue_not_served": "A worker cannot serve a queue, and tries again.",
    "replies_not_read": "An app can read no more replies: requests that are open fail.",
    "reply_lost": "A reply could not be put; the work is done all the same.",
    "run_skipped": "A run of a schedule was skipped, since the one before had not ended.",
    "schedule_changed": "The schedule of a queue is another than before.",
    "schedule_not_served": "Runs of a schedule were missed, since nobody served it.",
    "value_without_reply": "A handler returned a value, and its message asks for no reply.",
}

_WORKERS: Final = {
    "files_changed": "Files have changed: new processes take over (`--reload`).",
    "functions_not_served": "A worker has no queue manager for its functions for now, and tries again for ever.",
    "functions_refused": "The queue manager refused the functions of a worker, which tries once more.",
    "functions_served_again": "The functions of a worker are served again.",
    "handlers_left_behind": "Handlers did not end: the process ends without them.",
    "worker_cancels_its_handlers": "The time for handlers to end is over.",
    "worker_process_ended": "A process of a worker ended by itself; another starts.",
    "worker_process_killed": "A process of a worker did not end, and was killed.",
    "worker_process_not_replaced": "A new process did not begin, the old one stays.",
    "worker_ready": "A worker serves its queues.",
    "worker_stops": "A worker takes no more messages, and ends.",
}

_TRIGGERS: Final = {
    "changed_handlers_loaded": "Modules of handlers that have changed were loaded.",
    "changed_handlers_not_loaded": "Modules of handlers that have changed do not load; those before go on.",
    "command_has_ended": "The command of a process has ended.",
    "command_starts": "The command of a process starts.",
    "command_timed_out": "A command ran too long, and is ended.",
    "dead_letter_queue_not_opened": "The trigger monitor cannot open the dead-letter queue.",
    "failed_message_moved": "A message has reached BOTHRESH, and was moved to the backout queue.",
    "failed_message_not_moved": "A message has reached BOTHRESH, and cannot be moved.",
    "failed_messages_stay": "Messages of a failed handler stay where they are.",
    "generation_died": "An instance of the trigger monitor died; the next takes over.",
    "generation_starts": "A new instance of the trigger monitor takes over.",
    "handler_failed": "A function of `evermq monitor` failed: its unit of work is backed out.",
    "initiation_monitor_ends": "`evermq monitor` ends with its queue manager.",
    "queue_is_not_served": "The trigger monitor cannot serve a queue.",
    "queue_is_served": "The trigger monitor serves a queue.",
    "servers_not_known": "It is not known who serves queues.",
    "starts_missing": "Messages were waiting with no start on the way: the sweep has made it.",
    "sweep_failed": "The sweep for missing starts failed.",
    "trigger_handler_failed": "A handler of the trigger monitor failed: its unit of work is backed out.",
    "trigger_handler_waits": "A handler waits for a connection.",
    "trigger_message_discarded": "A trigger message could be neither served nor put on the dead-letter queue.",
    "trigger_message_not_served": "A trigger message is not served, and goes to the dead-letter queue.",
    "trigger_monitor_ends": "The trigger monitor ends with its queue manager.",
    "waiting_for_trigger_messages": "`evermq monitor` waits for trigger messages.",
}

# Queue-sharing groups

_MEMBERS: Final = {
    "another_peer_recovers": "Another peer recovers a member.",
    "copy_kept": "A copy of a deleted object of the group stays, since it is in use.",
    "copy_not_made": "A copy of an object of the group could not be made.",
    "database_crashed": "The database of the group has crashed: nonpersistent messages are gone.",
    "database_without_tls": "The line to the database of the group is without TLS.",
    "foreign_command_not_run": "A command of another member was not run.",
    "group_awaits_lease": "Another of the same name is a member: its lease is waited for.",
    "group_awaits_recovery": "A peer recovers what the member has left: that is waited for.",
    "group_connected": "The queue manager is a member of its group (IBM's CSQE005I).",
    "group_disconnected": "The queue manager has left its group (CSQE006I); at ERROR, it has lost it.",
    "group_loss_ends": "The queue manager ends when it has lost its group; ALTER QMGR CFCONLOS(TOLERATE) changes that.",
    "group_name_taken": "Another queue manager has taken the name in the group.",
    "group_not_joined": "The group cannot be joined yet.",
    "group_not_joined_again": "A try to join the group again failed; another follows.",
    "group_not_left": "The group was not left in order: peers do what is left.",
    "group_refused": "The group cannot be joined again.",
    "lease_not_renewed": "A sign of life could not be given; it is tried again.",
    "no_old_snapshot_any_more": "Nobody keeps a transaction open any more that has grown old.",
    "old_snapshot": "Somebody keeps a transaction open: dead rows stay in the database, and gets become slow.",
    "members_not_known": "The members of the group could not be read.",
    "peer_recovered": "What a failed peer had left is recovered.",
    "peers_not_looked_at": "It could not be seen whether peers live.",
    "recovered_what_was_left": "What an earlier life of this member had left is recovered.",
    "recovery_event": "A peer has failed, and is to be recovered (CSQE008I).",
    "recovery_phase": "A phase of a recovery begins or ends (CSQE011I to CSQE014I).",
    "repository_not_read": "Shared definitions could not be read; they are with the next line.",
    "sessions_ended": "Sessions of a failed peer at the database were ended.",
    "sessions_not_ended": "Sessions of a failed peer could not be ended, for want of a right at the database.",
}

_SHARED_QUEUES: Final = {
    "browse_locks_remain": "Locks of browses are released later.",
    "confirmations_of_arrival_lost": "Reports of arrival (COA) could not be put.",
    "connection_tag_not_released_yet": "A connection tag is released later.",
    "exception_report_discarded": "An exception report of intra-group queuing could not be put.",
    "handle_not_open_any_more": "A handle of a shared queue could not be opened again after the group was lost.",
    "handles_not_removed": "Handles are removed from the database later.",
    "handles_not_removed_yet": "Handles are removed from the database later.",
    "igq_agent_failed": "The intra-group queuing agent failed by an internal error, and starts again (CSQM067E).",
    "igq_agent_starting": "The intra-group queuing agent starts (CSQM050I).",
    "igq_agent_stopping": "The intra-group queuing agent stops (CSQM051I).",
    "intra_group_queuing_given_up": "Intra-group queuing was tried too often, and is given up.",
    "intra_group_queuing_interrupted": "Intra-group queuing lost the group, and goes on later.",
    "intra_group_queuing_not_possible": "Intra-group queuing failed; it is tried again.",
    "message_not_delivered": "Intra-group queuing could not deliver a message.",
    "messages_stray": "A recovery has freed messages that were held in no unit of work, which cannot be: report it.",
    "notifications_are_not_heard": "The line for notifications of the database is made again.",
    "outcome_learned": "The outcome of a unit of work that was unknown is known.",
    "outcome_lost": "The database knows nothing of a unit of work whose outcome is unknown: RESOLVE INDOUBT ends it.",
    "outcome_of_gets_unknown": "The database was lost while messages were got; their outcome is found out.",
    "outcome_still_unknown": "The outcome of a unit of work could not be found out yet.",
    "outcome_unknown": "The database was lost at a commit; its outcome is found out.",
    "puts_are_not_heard_of_yet": "The member is not told of puts onto a queue yet; who waits looks each second.",
    "rows_of_units_stay": "Rows of units of work are removed later.",
    "shared_queues_not_known": "What is on shared queues could not be read.",
    "snapshots_not_looked_at": "The member could not look for old snapshots of the database; it tries again.",
    "starts_not_taken_over": "Starts of a failed peer could not be taken over; the sweep does it.",
    "transaction_made_again": "A transaction was made again after a conflict.",
    "unit_of_work_resolved": "An administrator has resolved a unit of work.",
    "unit_of_work_torn": "A unit of work was resolved otherwise than the database has it: half of it took effect.",
    "untaken_messages_not_back_yet": "Messages that nobody has taken go back to their places later.",
}

# Spark

_SPARK: Final = {
    "batch_was_published_before": "A batch was published before, and is not published again.",
    "batches_lost": "The queue manager knows nothing of batches that were published.",
    "damaged_message_left_out": "A damaged message was left out (`failOnDataLoss=false`).",
    "java_chosen": "The Java that Spark runs on.",
    "lag_unknown": "How far a consumer is behind could not be read.",
    "messages_missing": "Claimed messages are missing, and the stream goes on (`failOnDataLoss=false`).",
    "queue_manager_for_job_started": "A queue manager was started for a job.",
    "queue_manager_out_of_reach": "The queue manager of a job is out of reach; it is tried again.",
    "unit_not_discarded": "A unit of a failed task could not be discarded; it is after `[limits] prepared_age`.",
}

# Units of work that a database of a program's own decides

_TRANSACTIONS: Final = {
    "commit_hangs": "The program's database has not answered a COMMIT for a minute.",
    "connection_not_given_back": "A connection to the program's database was lost, not given back to its pool.",
    "database_awaited": "An app waits for its database, to begin.",
    "database_away": "The database of a handler gives no transaction: its messages come later, and nobody is charged.",
    "database_is_back": "The database of a handler gives transactions again.",
    "database_not_closed": "The program's database could not be closed in order.",
    "decisions_are_kept": "Decisions were not answered: they are sent again over the next connection.",
    "markers_deleted": "Markers that nobody needs any more were deleted from the program's database.",
    "markers_not_deleted": "Markers that nobody needs could not be deleted: the cleaner tries again.",
    "on_commit_failed": "A function of Django's on_commit has failed, behind a COMMIT that is done.",
    "resolver_connects_again": "A resolver has lost its connection to the queue manager.",
    "rollback_failed": "A ROLLBACK was not answered: the connection is closed, which rolls back.",
    "transactions_open": "Transactions with the program's database are open for more than ten seconds.",
    "unit_ended_with_its_connection": "The unit of work of a transaction was backed out with its connection.",
    "unit_in_doubt": "The database has not said whether it has committed: a resolver decides the unit of work.",
    "unit_in_doubt_resolved": "An administrator decided a unit of work in place of its database.",
    "unit_not_asked": "The database could not be asked for the outcome of a unit of work.",
    "unit_not_resolved": "A unit of work cannot be decided: its database refuses to tell.",
    "unit_resolved": "A unit of work that its owner had left was decided as its database says.",
    "units_are_in_doubt": "Units of work wait for a program that sees their database.",
}

EVENTS: Final[Mapping[str, str]] = {
    **_DAEMON,
    **_QUEUE_MANAGER,
    **_SECURITY,
    **_STORE,
    **_CLIENTS,
    **_APPS,
    **_WORKERS,
    **_TRIGGERS,
    **_TRANSACTIONS,
    **_MEMBERS,
    **_SHARED_QUEUES,
    **_SPARK,
}
