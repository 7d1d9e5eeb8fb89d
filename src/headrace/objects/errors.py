"""The exceptions of object stores; each text names the object and what went wrong.

Only exception classes live here.
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class StoreError(HeadraceError):
    """The directory or object store failed: no room, not reachable. A write may have had its effect."""


class KeyExists(StoreError):
    """The store has an object of this key already."""


class KeyMissing(StoreError):
    """The store has no object of this key."""


class AccessRefused(StoreError):
    """The store does not accept the credentials, or does not allow this with them: trying again is no use."""


class RequestRefused(StoreError):
    """The store does not take this request from anybody: an unknown bucket, another region, a function that
    it has not. Trying again is no use.
    """


class StoreBusy(StoreError):
    """The store wants to be asked again, later: too many requests, or another write of this key is under
    way. Nothing was done.
    """


class LockHeld(StoreError):
    """The lock of the directory is held by another process."""
