"""Runs the SQL on standard input in a DuckDB of its own and prints the rows of the last statement as JSON.

DuckDB does not know brotli as files are packed with it, so those that are named are unpacked beside themselves before.
"""

import json
import sys
from pathlib import Path

import brotli
import duckdb

for name in sys.argv[1:]:
    packed = Path(name)
    packed.with_suffix("").write_bytes(brotli.decompress(packed.read_bytes()))
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
result = connection.execute(sys.stdin.read())
print(json.dumps(result.fetchall(), default=str))
