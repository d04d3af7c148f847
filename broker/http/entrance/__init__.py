"""The entrance of the HTTP server, for REST, the console and figures: it lets callers in, remembers them, and lends
them connections.

    async with caller.connection() as connection:  # of a caller that `Entrance.admit` has returned
        ...                                         # what it opens it closes; it is nobody else's meanwhile

headers      the headers of a request by their names
credentials  what a request brings to prove who asks
cross_origin the pages of other origins that may ask (CORS)
hosts        the Host, the origin and the proxies that a request may come by
roles        the roles of a user: a role opens a door, and grants nothing behind it
entrance     `Entrance`: lets callers in by their credentials, their certificate or the cookie of a session
caller       `Caller`: one who was let in
guest        a user who has proved who it is, as long as it is the same user
pool         the connections of a guest: bounded, and kept for the next request
sessions     the sessions of browsers, by their cookies
"""

from broker.http.entrance.caller import Caller as Caller
from broker.http.entrance.credentials import CallerCredentials as CallerCredentials
from broker.http.entrance.credentials import NotAdmittedError as NotAdmittedError
from broker.http.entrance.entrance import Entrance as Entrance
from broker.http.entrance.roles import WebRole as WebRole
