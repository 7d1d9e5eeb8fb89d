"""The exceptions of streams on an object store; each text names the object and what is wrong with it.

Only exception classes live here.
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class BucketError(HeadraceError):
    """The bucket cannot be used, or no longer by this server."""


class DamagedObject(BucketError):
    """An object's bytes are not what its writer wrote: nothing behind it can be trusted."""


class NewerFormat(BucketError):
    """An object was written by a later version of Headrace."""


class NotOurs(BucketError):
    """The prefix belongs to somebody else: another program, or another cluster."""


class Overtaken(BucketError):
    """The shard belongs to another server by now."""


class Behind(BucketError):
    """Objects that were not read yet are deleted already: the newest snapshot is the place to begin."""


class CacheFailed(BucketError):
    """The local files could not be written: they are no longer what the bucket has."""
