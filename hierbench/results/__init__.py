"""Result records and the folders that hold them: `record` says what a record is, `folder` writes and reads."""

from hierbench.results.folder import (
    items_path,
    items_sha256,
    read_items,
    read_record,
    read_results,
    read_run,
    record_path,
    take_over,
    write_record,
    write_run,
)
from hierbench.results.record import DEFAULT_PROMPTS, MIGRATIONS, SCHEMA, Items, Record, Results

__all__ = [
    "DEFAULT_PROMPTS",
    "MIGRATIONS",
    "SCHEMA",
    "Items",
    "Record",
    "Results",
    "items_path",
    "items_sha256",
    "read_items",
    "read_record",
    "read_results",
    "read_run",
    "record_path",
    "take_over",
    "write_record",
    "write_run",
]
