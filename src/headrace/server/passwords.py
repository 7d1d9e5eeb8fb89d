"""Configured secrets and what was given for them: plain texts and bcrypt hashes.

Comparison takes the same time wherever the texts differ. Never lives here: whose secret it is.
"""

from __future__ import annotations

import re
from typing import Final

_BCRYPT: Final = r"\$2[abxy]\$\d{2}\$"
_BCRYPT_MAX_BYTES: Final = 72  # the algorithm looks at no more; the package refuses more


def is_bcrypt(secret: str) -> bool:
    """True if a configured secret is a hash, which takes long to check."""
    return re.match(_BCRYPT, secret) is not None


def matches(stored: str, given: str) -> bool:
    """True if the given secret is the stored one. Cost: a bcrypt hash of cost 11 takes 100 ms and more."""
    if not is_bcrypt(stored):
        import hmac

        return hmac.compare_digest(stored.encode(), given.encode("utf-8", "surrogatepass"))
    import bcrypt

    try:
        return bcrypt.checkpw(given.encode("utf-8", "surrogatepass")[:_BCRYPT_MAX_BYTES], stored.encode())
    except ValueError:
        # A hash that only looks like one, or a NUL in the password.
        return False
