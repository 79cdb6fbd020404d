"""DuckDB's own table into a file: `load DATABASE PARQUET`, or `copy DATABASE parquet|jsonl FILE`, which prints what it took.

`make DATABASE ROWS PARQUET` makes up rows like those of `bench fill`, to look at the peers alone.
"""

import json
import os
import resource
import sys
import time

import duckdb

THREADS = 2
COPY = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "jsonl": "FORMAT json, COMPRESSION gzip",
}


def load(database, parquet):
    columns = "* REPLACE (properties::JSON AS properties, person_properties::JSON AS person_properties)"
    database.execute(f"CREATE TABLE events AS SELECT {columns} FROM read_parquet('{parquet}')")
    database.execute("CHECKPOINT")


MADE_UP = """
    SELECT uuid()::VARCHAR AS uuid, moment AS timestamp, moment AS inserted_at, moment AS created_at,
        ['$pageview', '$autocapture', 'signed up', 'paid'][1 + (h % 4)::INT] AS event,
        format('{{"$browser":"{}","$os":"{}","$current_url":"https://example.com/products/{}?ref={:x}","$screen_width":{},'
            || '"$lib":"web","$lib_version":"1.{}.0","$session_id":"{:016x}{:016x}","amount":{}.{:02},"$ip":"{}.{}.{}.{}",'
            || '"is_first":{},"tags":["a","b{}"]}}',
            ['Chrome', 'Firefox', 'Safari'][1 + (h % 3)::INT], ['Linux', 'Mac OS X', 'Windows', 'iOS'][1 + (g % 4)::INT],
            h % 5000, h >> 40, 1024 + h % 900, h % 200, g, hash(g), h % 500, h % 100,
            h % 223, (h >> 8) % 256, (h >> 16) % 256, (h >> 24) % 256, h % 2 = 0, h % 9) AS properties,
        'user_' || (h % 5000) AS distinct_id, '' AS elements_chain, '{}' AS person_properties,
        md5('user_' || (h % 5000))::UUID::VARCHAR AS person_id
    FROM (SELECT hash(i) AS h, hash(i + 1000000007) AS g, make_timestamptz(1794700800000000 + i) AS moment FROM range(ROWS) AS r(i))
"""


def make(database, rows, parquet):
    database.execute(f"COPY ({MADE_UP.replace('ROWS', rows)}) TO '{parquet}' (FORMAT parquet)")


def copy(database, form, file):
    rows = database.execute("SELECT count(*) FROM events").fetchone()[0]
    begun, before = time.monotonic(), time.process_time()
    database.execute(f"COPY events TO '{file}' ({COPY[form]})")
    wall, cpu = time.monotonic() - begun, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"rows": rows, "bytes": os.path.getsize(file), "wall": wall, "cpu": cpu, "peak": peak}))


def main():
    action, path, *rest = sys.argv[1:]
    database = duckdb.connect(path, config={"threads": THREADS})
    {"make": make, "load": load, "copy": copy}[action](database, *rest)


main()
