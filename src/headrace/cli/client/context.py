"""`headrace context`: saved connections, shared with the tool `nats`."""

from __future__ import annotations

import stat
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.values import exact_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.client.contexts import ContextFolder
    from headrace.client.saved_context import SavedContext

_FIELDS: Final = {
    "server": "url",
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "creds",
    "nkey": "nkey",
    "jwt": "user_jwt",
    "seed": "user_seed",
    "tls_ca": "ca",
    "tls_cert": "cert",
    "tls_key": "key",
    "js_domain": "jetstream_domain",
    "js_api_prefix": "jetstream_api_prefix",
    "inbox_prefix": "inbox_prefix",
    "description": "description",
}
"""The fields of a context by the flags that set them."""
_ENDS: Final = {
    "certificate_ends": "its certificate",
    "authorities_end": "a certificate of its authorities",
    "server_certificate_ends": "the server's certificate",
}
_OTHERS: Final = 0o077


def list_all(call: Call) -> ExitCode | None:
    """List the contexts."""
    folder = _folder()
    items = [_document(folder, name) for name in folder.names()]

    if getattr(call.options, "names", False):
        call.out.is_quiet = True

    def show() -> None:
        from headrace.cli.text_table import TextColumn

        columns = (
            TextColumn("Name"),
            TextColumn("Selected"),
            TextColumn("Server"),
            TextColumn("Description"),
        )
        rows = [
            (
                item["name"],
                "*" if item["selected"] else "",
                item["fields"].get("url", ""),
                item["fields"].get("description", ""),
            )
            for item in items
        ]
        call.out.table(columns, rows)

    call.out.listing(items, show)
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def add(call: Call) -> None:
    """Save a context. Raises: CommandError if one of that name is there."""
    if call.is_nats:  # there it saves over one
        save(call)
        return
    folder = _folder()
    if folder.path(call.options.name).exists():
        text = f"context {call.options.name} is there already: edit changes it"
        raise CommandError(text, ExitCode.EXISTS)
    _write(call, folder, {})


def save(call: Call) -> None:
    """Save a context, over one that is there."""
    folder = _folder()
    name = call.options.name
    _write(call, folder, folder.fields(name) if folder.path(name).exists() else {})


def edit(call: Call) -> None:
    """Change fields of a context."""
    folder = _folder()
    _write(call, folder, folder.fields(call.options.name))


def copy(call: Call) -> None:
    """Copy a context. Raises: CommandError if the target is there."""
    folder = _folder()
    target = call.options.target
    if folder.path(target).exists():
        raise CommandError(f"context {target} is there already", ExitCode.EXISTS)
    folder.write(target, folder.fields(call.options.name))
    _show(call, folder, target)


def remove(call: Call) -> None:
    """Remove a context, after asking."""
    folder = _folder()
    name = call.options.name
    if call.options.if_exists and not folder.path(name).exists():
        return
    folder.fields(name)
    call.confirm(f"context {name} is removed from {folder.path(name)}")
    folder.remove(name)


def select(call: Call) -> None:
    """Select a context."""
    folder = _folder()
    folder.select(call.options.name)
    _show(call, folder, call.options.name)


def unselect(call: Call) -> None:
    """Select no context."""
    _folder().select(None)


def previous(call: Call) -> None:
    """Select the context that was selected before. Raises: CommandError if there was none."""
    folder = _folder()
    name = folder.previous()
    if name is None:
        raise CommandError("no context was selected before", ExitCode.NOT_THERE)
    folder.select(name)
    _show(call, folder, name)


def info(call: Call) -> None:
    """Show a context. Raises: CommandError if none is named or selected."""
    folder = _folder()
    name = call.options.name or folder.selected()
    if name is None:
        raise CommandError("no context is selected", ExitCode.NOT_THERE)
    _show(call, folder, name)


def validate(call: Call) -> ExitCode | None:
    """Check contexts; return 3 if one is wrong."""
    from headrace.client.errors import ClientError

    folder = _folder()
    items: list[dict[str, Any]] = []
    for name in [call.options.name] if call.options.name else folder.names():
        item: dict[str, Any] = {"name": name, "valid": True}
        try:
            item |= _certificates(folder.read(name))
            _warn_of_readers(call, folder, name)
            if call.options.connect:
                item |= _connected(call, name)
            ended = [key for key in _ENDS if key in item and item[key] < exact_time(time.time_ns())]
            if ended:
                item |= {"valid": False, "error": f"{_ENDS[ended[0]]} has ended at {item[ended[0]]}"}
        except ClientError as error:
            if call.options.name and not folder.path(name).exists():
                raise
            item |= {"valid": False, "error": str(error)}
        items.append(item)

    def show() -> None:
        for item in items:
            where = f", {item['server']}" if "server" in item else ""
            call.out.line(f"{item['name']}: {'right' if item['valid'] else item['error']}{where}")
            for line in _details(item):
                call.out.line(f"  {line}")

    call.out.listing(items, show)
    return None if all(item["valid"] for item in items) else ExitCode.WRONG


def _details(item: dict[str, Any]) -> Iterator[str]:
    """Yield what is known of a context that was checked: its user, permissions, ends of certificates."""
    user = item.get("user") or {}
    if user:
        yield f"user {user.get('user') or '(none)'}, account {user.get('account')}"
    for verb, subjects in (user.get("permissions") or {}).items():
        if isinstance(subjects, dict):
            for way, named in subjects.items():
                yield f"{verb}, {way}: {', '.join(named or ())}"
    for key, text in _ENDS.items():
        if key in item:
            yield f"{text} ends at {item[key]}"


def _certificates(context: SavedContext) -> dict[str, str]:
    """Return when the certificates end that a context names. Raises: TLSFileError."""
    from headrace.client.tls import certificates_end_ns

    files = {"certificate_ends": context.tls_cert_file, "authorities_end": context.tls_ca_file}
    return {key: exact_time(certificates_end_ns(path)) for key, path in files.items() if path is not None}


def _connected(call: Call, name: str) -> dict[str, Any]:
    from headrace.cli.connection_flags import CONNECTION_FLAGS, connection_settings
    from headrace.client.blocking import connect
    from headrace.client.errors import NoRespondersError
    from headrace.client.system import ask_one

    for flag in CONNECTION_FLAGS:
        if not hasattr(call.shared, flag.target):
            setattr(call.shared, flag.target, False if flag.kind is None else None)
    call.shared.context = name
    settings = connection_settings(call.shared, call.out.warn)
    with connect(settings.url, settings.options) as connection:
        found: dict[str, Any] = {"server": str(connection.address)}
        try:
            found["user"] = ask_one(connection, "$SYS.REQ.USER.INFO", timeout=settings.timeout)
        except NoRespondersError:
            pass  # a server without a system account
        ends = connection.certificate_ends_ns
        if ends is not None:
            found["server_certificate_ends"] = exact_time(ends)
    return found


def _folder() -> ContextFolder:
    from headrace.client.contexts import ContextFolder

    return ContextFolder()


def _write(call: Call, folder: ContextFolder, fields: dict[str, Any]) -> None:
    options = call.options
    changed = dict(fields)
    for flag, name in _FIELDS.items():
        value = getattr(options, flag)
        if value == "":
            changed.pop(name, None)
        elif value is not None:
            changed[name] = value
    if options.tls_first:
        changed["tls_first"] = True
    folder.write(options.name, changed)
    if options.select:
        folder.select(options.name)
    _show(call, folder, options.name)


def _document(folder: ContextFolder, name: str) -> dict[str, Any]:
    from headrace.client.contexts import SECRETS

    fields = {
        key: "[set]" if key in SECRETS and value else value
        for key, value in folder.fields(name).items()
        if value not in ("", None, False)
    }
    if "@" in str(fields.get("url", "")):
        scheme, _, rest = str(fields["url"]).rpartition("://")
        fields["url"] = f"{scheme or 'nats'}://[set]@{rest.rpartition('@')[2]}"
    return {
        "name": name,
        "selected": folder.selected() == name,
        "path": str(folder.path(name)),
        "fields": fields,
    }


def _show(call: Call, folder: ContextFolder, name: str) -> None:
    _warn_of_readers(call, folder, name)
    document = _document(folder, name)
    facts = [("name", name), ("selected", document["selected"]), ("path", document["path"])]
    call.out.document(document, lambda: call.out.facts([*facts, *document["fields"].items()]), quiet=name)


def _warn_of_readers(call: Call, folder: ContextFolder, name: str) -> None:
    fields = folder.fields(name)
    mode = stat.S_IMODE(folder.path(name).stat().st_mode)
    if mode & _OTHERS and set(fields) & {"password", "token", "user_seed"}:
        call.out.warn(f"{folder.path(name)} has a secret and can be read by others: chmod 600")
