"""Selectors (semantics 14.4): conditions on properties and descriptor of a message, in the SQL-92 subset of MQ and JMS.

`compiling` turns the text into a function of a name-to-value lookup, `values` says how values compare, `message` looks
up what a selector names in a message on a queue. All is pure; nothing of the text is ever run as Python.
"""

from broker.core.selector.message import Selector as Selector
from broker.core.selector.message import selector as selector
