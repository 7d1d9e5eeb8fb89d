"""From a configuration and overrides to `Options`, with everything that is wrong reported at once.

Here lives the way in. Never lives here: characters and nesting (`language`), the table of keys
(`toplevel`), rules between options (`draft`).

To add an option: a field in `options.Options`, a row in `toplevel.TOP_LEVEL`, bounds in `draft` if it has
any.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.conf.draft import Draft, check_names
from headrace.conf.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.fields import Bound
    from headrace.conf.options import Options


def load_options(
    path: str | None = None,
    *,
    text: str | bytes | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Options:
    """The options that a configuration file or text and overrides add up to.

    `overrides` names fields of `Options`, which win over the file; besides `user`, `password` and `token`
    replace simple credentials of the file and `tls_flags` (`tls.TLSFlags`) its certificates. Relative paths
    in the result are relative to the working directory. `max_connections` is -1 where there is no limit.
    Raises: ConfigError with everything that is wrong; ValueError for both a path and a text; TypeError for
    an override that does not exist.
    """
    if path is not None and text is not None:
        raise ValueError("give a path or a text, not both")
    check_names(overrides or {})
    problems = Problems()
    draft = Draft(problems)
    digest = None
    if path is not None or text is not None:
        bound, digest = _read(path, text or "", environ, problems)
        draft.take(bound)
    draft.override(overrides or {})
    draft.check()
    return replace(draft.options(), config_file=path, config_digest=digest, overrides=dict(overrides or {}))


def _read(
    path: str | None, text: str | bytes, environ: Mapping[str, str], problems: Problems
) -> tuple[Bound, str | None]:
    """What a configuration says, and its digest if nothing is wrong with it so far.

    A start without a configuration does not come here, and does not pay for loading what reads one.

    Raises: ConfigError if its structure is broken, for then what stands where is guesswork.
    """
    from headrace.conf import language
    from headrace.conf.digest import config_digest
    from headrace.conf.fields import Binder
    from headrace.conf.toplevel import TOP_LEVEL

    source = language.text_source(text) if path is None else language.read_file(path)
    root = language.read_tree(source, path, environ, problems)
    if problems.is_structural or problems.full:
        problems.raise_any()
    if not root.entries and not len(problems):
        problems.warn(f"{source.name}: config has no values or is empty", None)
    bound = Binder(problems).bind(root, TOP_LEVEL)
    return bound, None if len(problems) else config_digest(root)
