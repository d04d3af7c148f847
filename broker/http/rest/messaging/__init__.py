"""Messaging by REST, as IBM MQ's (`/ibmmq/rest/v1` to `v3`): put, take, browse and list messages of a queue; and,
beside it, take them with a lease.

resources        `MessagingPart`: which function answers a call
messages         put, take, look, and list
delivery         a get that loses nothing: the message is the client's for the time of a lease
leases           the messages in the hands of clients, each on a connection of its own
gets             gets and browses for these
messaging_call   a request that was let in, and its answer
parameters       the query parameters
put_fields       the headers of a put, and the message that they make of a body
text_messages    a message as an answer has it: its text in UTF-8, and its headers
user_properties  user properties in headers
identifiers      message and correlation identifiers as text
bodies           the body of a put, read within bounds
versions         the versions
refusals         what is refused for reasons of REST
"""

from broker.http.rest.messaging.resources import MessagingPart as MessagingPart
