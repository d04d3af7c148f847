"""A seeded simulation of handlers, on the real queue manager (handlers cases H2.13, H4.10, H7.4, H13.1).

| file | |
|---|---|
| `schedule` | one seed: one queue manager that dies and starts again, what befalls it and its workers, and the end |
| `worker` | a connection that takes deliveries, and what its handlers do with each |
| `producer` | puts with delays, keys and values to order by |
| `records` | what all of them were told, and whether what comes next may be |
| `mutations` | ways to take a rule out of the queue manager, each of which schedules must find |
| `setting`, `runs` | what every schedule begins with; many schedules |

`python -m tests.simulation.handlers` is the command.
"""
