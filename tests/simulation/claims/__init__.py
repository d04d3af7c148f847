"""A seeded simulation of claims and prepared units, on the real queue manager (claims case K74).

| file | |
|---|---|
| `schedule` | one seed: one queue manager that dies and starts again, what befalls it, and the end |
| `actors` | an actor: a program that a schedule takes a step further whenever it likes |
| `programs` | producers of single messages and groups, and a rival who gets |
| `source` | drivers of Spark that archive what a consumer claims, and who kills or forgets them |
| `sink` | a driver whose sink is a queue, its tasks, and their speculative twins |
| `administrator` | who resolves a consumer and begins anew |
| `records` | what all of them did and were told, checkpoints and outputs among it |
| `judge` | whether anything is lost, doubled, left behind or out of order |
| `mutations` | ways to take a rule out of the queue manager, each of which schedules must find |
| `setting`, `runs` | what every schedule begins with; many schedules |

`python -m tests.simulation.claims` is the command.
"""
