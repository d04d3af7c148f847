"""`evermq support`: a bundle for whoever is to find out what is wrong. It has no data of messages and no secrets.

command         the command, and the parts of a bundle in their order
bundle          the file: parts with names, each made or with the reason why it is not there
manager         what the queue manager tells: status, objects, explanations, its log
machine         versions, the kernel, the file system of the data, the limits of the process
"""

from broker.cli.support.command import support as support
