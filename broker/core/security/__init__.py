"""Who may do what: users, channels, rules of channels and authority records, and their judgement (security 2 to 7, 9).

Facts come in as definitions of objects, verdicts go out; nothing here knows where either come from.

    rights               the rights, the words for them, and what ALL, ALLMQI and ALLADM mean for each type of object
    facts                users, records, channels, rules: what the definitions of objects say
    entities             the names of users and groups
    password_hash        the form in which the hash of a password is kept
    profiles, records    names with wildcards; the records of an entity, found by the name of an object
    authority, caller    all facts, and what each user may do with each object; the user of a connection that is judged
    addresses            patterns of network addresses
    distinguished_names  patterns of the names in certificates
    ciphers              what a channel asks of the transport
    channel_rules        which rule of channels counts, and whom a rule blocks
    partner, admission   the other side of a line, and the user that it becomes
    access, grants       why somebody may do something or not, and the command that would allow it
"""
