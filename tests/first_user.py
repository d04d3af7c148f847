"""The command that defines the first user, who has to be an administrator with a password (security 1.3)."""

from __future__ import annotations

from typing import Final

HASH: Final = "$scrypt$ln=15,r=8,p=1$YWJjZGVmZ2hpamtsbW5vcA$MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI"
"""Of some password, in the form in which it is given and kept."""

FIRST_USER: Final = f"DEFINE USER('root') GROUPS('mqm') PASSWORD('{HASH}')"
