"""Who somebody is: passwords and tokens verified, failed logins delayed, calls of a user limited (security 4, 8).

    login            what a program brings to come in, and what it is given: the function of all doors
    authentication   who may come in, who is there, and what ends when that changes
    credentials      the verification of passwords and tokens
    proofs           what conversations live by, until it ends
    peer_names       who is at the other end of a Unix socket
    passwords        scrypt: a password hashed, and compared with its hash
    verifier         passwords verified in threads, each once for all who wait; `turns` says who is next
    delays           for how long the answer to a failed login waits
    tokens           JSON web tokens, as `token_settings` say; `signatures` are joserfc's, `token_keys` the issuer's
                     keys, which `key_fetch` gets
    rates            calls and bytes a second of a user

Nothing here decides what a user may do: that is `broker.core.security`.
"""
