"""The way from a configuration and overrides to `Options`, with everything that is wrong reported at once.

Here lives the way in. Never lives here: characters and nesting (`language`), the table of keys
(`toplevel`), rules between options (`options_builder`).

To add a key: an option with its entry in `options.Options`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from headrace.conf.options_builder import BOUND_PORTS, OptionsBuilder, check_names
from headrace.conf.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.fields import Binder, Bound
    from headrace.conf.options import Options
    from headrace.conf.streaming_rules import Settings, StreamingFlags
    from headrace.conf.tree import MapNode
    from headrace.errors import ConfigProblem


def load_options(
    path: str | None = None,
    *,
    text: str | bytes | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
    unsupported: list[ConfigProblem] | None = None,
) -> Options:
    """The options that a configuration file or text and overrides add up to.

    `overrides` names fields of `Options`, which win over the file; besides `user`, `password` and `token`
    replace simple credentials of the file. `tls_flags`, `cluster_flags` and `jetstream_flags` replace, by
    option, what their blocks say, `streaming_flags` (`streaming_rules.StreamingFlags`) what its section says;
    `bound_ports` are those of `with_ports`. Relative paths in the result are relative to the working
    directory. `max_connections` is -1 where there is no limit. Fields that only the Go server has are put
    into `unsupported` and passed over, where a list is given: for who looks at its configuration.
    Raises: ConfigError with everything that is wrong; ValueError for both a path and a text; TypeError for
    an override that does not exist.
    """
    if path is not None and text is not None:
        raise ValueError("give a path or a text, not both")
    given = dict(overrides or {})
    check_names(given)
    ports = cast("Mapping[str, int]", given.pop(BOUND_PORTS, {}))
    problems = Problems(unsupported)
    builder = OptionsBuilder(problems, environ)
    digest = None
    flags = cast("StreamingFlags | None", given.get("streaming_flags"))
    if path is not None or text is not None:
        bound, digest = _read(path, text or "", environ, problems, flags)
        builder.take(bound)
    builder.override(given)
    builder.check()
    options = with_ports(builder.options(), ports)
    return replace(options, config_file=path, config_digest=digest, overrides=dict(overrides or {}))


def with_ports(options: Options, ports: Mapping[str, int]) -> Options:
    """Return options with these ports in the blocks that leave theirs to the system (-1), by block."""
    blocks = {name: getattr(options, name) for name in ports}
    chosen = {
        name: replace(block, port=ports[name])
        for name, block in blocks.items()
        if block is not None and block.port == -1
    }
    return replace(options, **chosen) if chosen else options


def _read(
    path: str | None,
    text: str | bytes,
    environ: Mapping[str, str],
    problems: Problems,
    flags: StreamingFlags | None,
) -> tuple[Bound, str | None]:
    """Read the values of a configuration, and its digest if nothing is wrong with it so far.

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
    binder = Binder(problems)
    rest, settings = (root, None) if flags is None else _read_streaming(root, flags, binder, environ)
    found_before = len(problems)
    bound = binder.bind(rest, TOP_LEVEL)
    if settings is not None:
        bound.values["streaming"] = settings
        if found_before:
            bound.failed.add("streaming")
    return bound, None if len(problems) else config_digest(root)


def _read_streaming(
    root: MapNode, flags: StreamingFlags, binder: Binder, environ: Mapping[str, str]
) -> tuple[MapNode, Settings | None]:
    """Split a file into the server's part, and the settings of streaming that are not in the file's own
    section.
    """
    from headrace.conf import language, streaming
    from headrace.conf.toplevel import TOP_LEVEL

    section = next((key for key in root.entries if key.lower() == "streaming"), None)
    if flags.config_file:
        if section is not None:
            message = f"the streaming section is not used: {flags.config_file} takes its place"
            binder.problems.warn(message, root.entries[section].position)
            rest = {key: entry for key, entry in root.entries.items() if key != section}
            root = replace(root, entries=rest)
        source = language.read_file(flags.config_file)
        other = language.read_tree(source, flags.config_file, environ, binder.problems)
        return root, streaming.read_root(other, binder)
    if flags.flat and section is None:
        root, own = streaming.split_root(root, TOP_LEVEL)
        return root, streaming.read_root(own, binder)
    return root, None
