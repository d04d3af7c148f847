"""Administration by REST: commands as text and as JSON, and the resources that clients look at.

administration  `AdministrationPart`: which call is which, and who may change something
run_command     runCommand: a command of MQSC as it is typed
json_command    runCommandJSON: a command of MQSC as an object of JSON, by the one table of attributes
replies         the replies to commands as JSON
resources       the queue manager, the installation, and queues as version 1 has them
"""
