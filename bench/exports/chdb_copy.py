"""chDB's own MergeTree into a file: `load FOLDER PARQUET`, or `copy FOLDER parquet|jsonl FILE`, which prints what it took."""

import json
import os
import resource
import sys
import time

from chdb import session

THREADS = 2
# gzip as strong as the others pack; chDB's own level is 3.
COPY = {
    "parquet": ("Parquet", "output_format_parquet_compression_method = 'zstd'"),
    "jsonl": ("JSONEachRow", "output_format_compression_level = 6"),
}


def load(chdb, parquet):
    chdb.query("CREATE DATABASE bench")
    chdb.query(
        "CREATE TABLE bench.events ENGINE = MergeTree ORDER BY tuple() AS "
        # The name says .zst, as the origin names such files; what is packed are the pages inside, not the file.
        f"SELECT * FROM file('{parquet}', 'Parquet', 'auto', 'none') SETTINGS max_threads = {THREADS}, schema_inference_make_columns_nullable = 0"
    )


def copy(chdb, form, file):
    rows = int(str(chdb.query("SELECT count() FROM bench.events")))
    name, settings = COPY[form]
    begun, before = time.monotonic(), time.process_time()
    chdb.query(
        f"INSERT INTO FUNCTION file('{file}', '{name}') SELECT * FROM bench.events "
        f"SETTINGS max_threads = {THREADS}, {settings}"
    )
    wall, cpu = time.monotonic() - begun, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"rows": rows, "bytes": os.path.getsize(file), "wall": wall, "cpu": cpu, "peak": peak}))


def main():
    action, path, *rest = sys.argv[1:]
    {"load": load, "copy": copy}[action](session.Session(path), *rest)


main()
