"""A table's files as an Apache Iceberg table of a catalog: metadata only, over the same Parquet.

The newest version of the manifest stays what the table is. A sync makes one Iceberg snapshot with exactly its
files, and forgets older ones, whose files may be gone. Metrics hold sequences and times only, so that erasing
a message never has to touch metadata. Never here: data files, and when a sync is due. pyiceberg is loaded
when a table of a catalog is meant.
Source: Apache Iceberg specification, version 2; pyiceberg's documentation.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import UnsupportedError
from headrace.objects.port import OWN
from headrace.tables.errors import IcebergError
from headrace.tables.open import catalog_name, table_place
from headrace.tables.payload_columns import PayloadColumns

if TYPE_CHECKING:
    from headrace.tables.manifest import TableManifest
    from headrace.tables.table import Table

NAMESPACE: Final = "headrace"
"""The namespace of all tables, and the name of the catalog in a database that a URI names."""
ATTEMPTS: Final = 4
"""Times a sync is begun again because a file went meanwhile, or another sync was quicker."""
_COMMIT: Final = "headrace.commit"
_PLACE: Final = "headrace.place"
"""The property of a table that tells it from one whose directory has the same name in a catalog."""
_MARK: Final = 8
"""Hexadecimal digits behind the name of a table whose plain name another one has."""
_PROPERTIES: Final = {
    "write.metadata.metrics.default": "none",
    **{f"write.metadata.metrics.column.{name}": "full" for name in ("sequence", "timestamp", "timestamp_ns")},
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "2",
}


def open_catalog(catalog: str) -> Any:
    """pyiceberg's catalog: an SQL one for a URI such as `sqlite:////data/catalog.db`, else one of that name
    in its own configuration.

    Raises: UnsupportedError without pyiceberg, IcebergError when it cannot be opened.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError as error:
        raise UnsupportedError(
            f"Iceberg metadata needs pyiceberg: pip install 'headrace[iceberg]' ({error})"
        ) from error
    try:
        if "://" in catalog:
            return SqlCatalog(NAMESPACE, uri=catalog)
        return load_catalog(catalog)
    except Exception as error:
        raise IcebergError(f"cannot open the Iceberg catalog {catalog}: {_line(error)}") from error


def opened_by(catalog: str, name: str) -> dict[str, str]:
    """The lines of Python that open a table, by program; what `catalog` is, see `open_catalog`.

    They need `from pyiceberg.catalog import load_catalog`, and the first stands before the others. A password
    of a URI is not shown.
    """
    if "://" in catalog:
        from sqlalchemy.engine import make_url

        where = f'"{NAMESPACE}", uri="{make_url(catalog).render_as_string(hide_password=True)}"'
    else:
        where = f'"{catalog}"'
    short = name.rpartition(".")[2]
    return {
        "pyiceberg": f'table = load_catalog({where}).load_table("{name}")',
        "DuckDB": f'table.scan().to_duckdb("{short}").sql("from {short}")',
        "Spark": "spark.read.parquet(*[one.file.file_path for one in table.scan().plan_files()])",
    }


def sync(table: Table, catalog: Any) -> tuple[str, int, int]:
    """Make the Iceberg table of a table have its files; its name, files added, files left out.

    Raises: TableMissing, StoreError; IcebergError when the catalog fails, or has another table of the name.
    """
    failure: Exception | None = None
    for _ in range(ATTEMPTS):
        manifest = table.manifest()
        try:
            return _sync(table, manifest, catalog)
        except IcebergError:
            raise
        except Exception as error:  # noqa: BLE001 - pyiceberg, SQLAlchemy and file systems have their own each
            failure = error  # a file went meanwhile, or another sync was quicker: there is a newer version
    raise IcebergError(f"{table.store.location}: the Iceberg catalog says: {_line(failure)}") from failure


def _sync(table: Table, manifest: TableManifest, catalog: Any) -> tuple[str, int, int]:
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    made = _table(table, manifest, catalog)
    name = ".".join(made.name())
    current = made.current_snapshot()
    if (
        current is not None
        and current.summary is not None
        and current.summary.get(_COMMIT) == manifest.commit
    ):
        return name, 0, 0
    wanted = {f"{table.store.location}/{file.path}" for file in manifest.files}
    present = {task.file.file_path: task.file for task in made.scan().plan_files()}
    new = [
        parquet_file_to_data_file(io=made.io, table_metadata=made.metadata, file_path=path)
        for path in sorted(wanted - present.keys())
    ]
    gone = [file for path, file in present.items() if path not in wanted]
    before = _metadata(made)
    properties = {_COMMIT: manifest.commit, "headrace.next": str(manifest.next)}
    with made.transaction() as change, change.update_snapshot(properties).overwrite() as snapshot:
        for file in gone:
            snapshot.delete_data_file(file)
        for file in new:
            snapshot.append_data_file(file)
    _forget(made.refresh(), before)
    return name, len(new), len(gone)


def _table(table: Table, manifest: TableManifest, catalog: Any) -> Any:
    """The Iceberg table, made when it is not there. Raises: IcebergError for one of other files."""
    from pyiceberg.exceptions import NoSuchTableError

    place = table_place(manifest.stream, manifest.kind)
    where = f"{table.store.location}/{OWN}/iceberg"
    catalog.create_namespace_if_not_exists(NAMESPACE)
    plain = catalog_name(place)
    for name in (plain, f"{plain}_{hashlib.sha256(place.encode()).hexdigest()[:_MARK]}"):
        try:
            found = catalog.load_table((NAMESPACE, name))
        except NoSuchTableError:
            return _created(catalog, (NAMESPACE, name), place, manifest, where)
        if found.location().rstrip("/") == where:
            return _widened(found, manifest)
        if found.properties.get(_PLACE) == place:
            break
    raise IcebergError(
        f"the catalog's table {NAMESPACE}.{name} lies in {found.location()}, it is not one of "
        f"{table.store.location}"
    )


def _created(
    catalog: Any, identifier: tuple[str, str], place: str, manifest: TableManifest, where: str
) -> Any:
    properties = {**_PROPERTIES, _PLACE: place}
    schema = PayloadColumns(manifest).schema
    made = catalog.create_table(identifier, schema, location=where, properties=properties)
    with made.transaction() as change:  # our files carry no field IDs: columns are found by name
        change.set_properties({"schema.name-mapping.default": made.schema().name_mapping.model_dump_json()})
    return made


def _widened(found: Any, manifest: TableManifest) -> Any:
    """The Iceberg table, with the columns that the table's files got since."""
    schema = PayloadColumns(manifest).schema
    if not set(schema.names) <= set(found.schema().column_names):
        with found.update_schema() as change:
            change.union_by_name(schema)
    return found


def _metadata(made: Any) -> set[str]:
    """The files that the current snapshot consists of, besides data."""
    current = made.current_snapshot()
    if current is None:
        return set()
    return {current.manifest_list, *(one.manifest_path for one in current.manifests(made.io))}


def _forget(made: Any, before: set[str]) -> None:
    """Older snapshots name files that may be gone; what only they consist of goes, too."""
    current = made.current_snapshot()
    old = [one.snapshot_id for one in made.snapshots() if one.snapshot_id != current.snapshot_id]
    if old:
        made.maintenance.expire_snapshots().by_ids(old).commit()
    for path in before - _metadata(made.refresh()):
        made.io.delete(path)


def _line(error: Exception | None) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
