"""Who may do what: users, channels, rules of channels and authority records, and their judgement (security 2 to 7, 9).

Facts come in as definitions of objects, verdicts go out; nothing here knows where either come from.

    rights               the rights, the words for them, and what ALL, ALLMQI and ALLADM mean for each type of object
    facts                users, records, channels, rules: what the definitions of objects say
    profiles             names with wildcards, for which authority records are made
    addresses            patterns of network addresses
    distinguished_names  patterns of the names in certificates
"""
