"""Commands about who may do what, against the objects of a queue manager: the changes that make them true.

entities      names of users and groups: what is known of them, and the warnings for those of which nothing is
records       SET and DELETE AUTHREC, the records that come and go with an object, and which of them DISPLAY means
creation      the rights of who creates an object, and the check that comes with the first user
rules         SET CHLAUTH, and which records DISPLAY CHLAUTH means
"""
