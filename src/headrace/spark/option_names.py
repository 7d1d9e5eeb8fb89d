"""Names of options that are not known, each answered with the option that does it here.

Users of Kafka's source type `subscribe`, users of other NATS programs `servers`: an entry lists such names
(`Option.elsewhere`), and what has no option here says why. No such name is obeyed: an error in the first
minute is better than a setting that means nearly the same.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from headrace.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.spark.option_entry import Option

_CREDENTIALS: Final = (
    "who connects is said by user and passwordFile, tokenFile, credsFile or nkeyFile, the certificates by "
    "tlsCaFile, tlsCertFile and tlsKeyFile (PEM)"
)
_PLACE: Final = (
    "the place of a query is in its checkpoint, and no consumer is left on the server; readers of core "
    "subjects share them with option queue"
)

_WITHOUT: Final = {
    "kafka.group.id": _PLACE,
    "groupidprefix": _PLACE,
    "durable": _PLACE,
    "consumer": _PLACE,
    "assign": "a stream has no partitions; option stream reads all of it, filterSubjects some subjects",
    "startingoffsetsbytimestampstrategy": "where no message is as late, reading begins at the end",
    "kafka.security.": _CREDENTIALS,
    "kafka.sasl.": _CREDENTIALS,
    "kafka.ssl.": _CREDENTIALS,
    "kafka.": "there is no client of Kafka to tune",
}
"""The reasons why there is no option, by name or by the beginning of names (with a dot at its end)."""


def check_names(given: Iterable[str], known: Sequence[Option], *, reading: Sequence[Option] = ()) -> None:
    """Check that all names, in lower case, are those of known options; `reading` are those that are for
    reading only, where the known ones are for writing.

    Raises: OptionError that answers each name that is not.
    """
    names = {option.name.lower() for option in known}
    wrong = [_answer(name, known, reading) for name in given if name not in names]
    if wrong:
        raise OptionError("; ".join(wrong))


def _answer(name: str, known: Sequence[Option], reading: Sequence[Option]) -> str:
    for option in reading:
        if name == option.name.lower():
            return f"option {option.name} is for reading"
    typed, found = _elsewhere(name, known)
    unknown = f'option {typed} is not known to format("nats")' + (" for writing" if reading else "")
    if found:
        return f"{unknown}: here it is " + " or ".join(
            f"{one.name} ({one.meaning.replace('`', '')})" for one in found
        )
    for beginning, why in _WITHOUT.items():
        if name == beginning or (beginning.endswith(".") and name.startswith(beginning)):
            return f"{unknown}: {why}"
    names = {option.name.lower(): option.name for option in known}
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {names[close[0]]}?" if close else f"options are {', '.join(names.values())}"
    return f"{unknown}: {hint}"


def _elsewhere(name: str, known: Sequence[Option]) -> tuple[str, list[Option]]:
    """The name as others write it, and the options that list it."""
    found = {
        entry.name: (typed, entry) for entry in known for typed in entry.elsewhere if typed.lower() == name
    }
    typed = next((typed for typed, _ in found.values()), name)
    return typed, [entry for _, entry in found.values()]
