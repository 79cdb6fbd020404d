"""A double of a Databricks workspace, over TLS on loopback: tokens, statements, files, in the shapes that the vendor
documents. Statements are carried out by DuckDB, in which the few words of the dialect that it lacks are replaced."""

import base64
import json
import os
import re
import shutil
import ssl
import sys
import threading
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb

options = json.loads(sys.argv[1])
folder = Path(options["folder"])
database = duckdb.connect()
database.execute(f"SET TimeZone = 'UTC'; ATTACH ':memory:' AS {options['catalog']}; CREATE SCHEMA {options['catalog']}.{options['schema']}")
lock = threading.Lock()
statements, tokens, seen = {}, set(), []


def run(sql):
    """The meaning of a statement, and its rows as texts."""
    volume = re.fullmatch(r"(CREATE|DROP) VOLUME IF (?:NOT )?EXISTS `(\w+)`\.`(\w+)`\.`(\w+)`", sql)
    if volume:
        path = folder.joinpath("Volumes", *volume.groups()[1:])
        path.mkdir(parents=True, exist_ok=True) if volume[1] == "CREATE" else shutil.rmtree(path, ignore_errors=True)
        return []
    copy = re.fullmatch(r"COPY INTO (\S+) FROM '(/Volumes/[^']+)' FILEFORMAT = PARQUET", sql)
    if copy:
        sql = f"INSERT INTO {copy[1]} BY NAME SELECT * FROM read_parquet('{folder}{copy[2]}*.parquet')"
    sql = sql.replace("MERGE WITH SCHEMA EVOLUTION INTO", "MERGE INTO")
    sql = re.sub(r"CAST\((\w+) AS VARIANT\)", r"to_json(\1)", sql)
    sql = re.sub(r"try_parse_json\((\w+)\)", r"TRY_CAST(\1 AS JSON)", sql)
    sql = sql.replace(" VARIANT", " JSON").replace("current_timestamp()", "now()").replace(" TIMESTAMP", " TIMESTAMPTZ")
    sql = sql.replace("`", '"')
    with lock:
        rows = database.execute(sql).fetchall()
    if sql.startswith("DESCRIBE"):
        rows = [[row[0], {"JSON": "variant"}.get(row[1], row[1].lower()), None] for row in rows]
        rows += [["", "", ""], ["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
    return [[None if cell is None else str(cell) for cell in row] for row in rows]


def outcome(sql):
    try:
        rows = run(sql)
    except duckdb.CatalogException as error:
        message = f"[TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found. {error}"
        return {"status": {"state": "FAILED", "error": {"error_code": "BAD_REQUEST", "message": message}}}
    except duckdb.Error as error:
        print(sql, error, flush=True)
        return {"status": {"state": "FAILED", "error": {"error_code": "BAD_REQUEST", "message": f"[UNRESOLVED_COLUMN] {error}"}}}
    return {
        "status": {"state": "SUCCEEDED"},
        "manifest": {"format": "JSON_ARRAY", "total_row_count": len(rows)},
        "result": {"chunk_index": 0, "row_offset": 0, "row_count": len(rows), "data_array": rows},
    }


class Workspace(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if path == "/oidc/v1/token":
            return self.grant(body)
        if self.headers.get("authorization", "").removeprefix("Bearer ") not in tokens | {options["token"]}:
            return self.reply(401, {"error_code": "UNAUTHENTICATED", "message": "Credential was not sent or was of an unsupported type"})
        seen.append(path)
        fault = folder / "fault"
        if fault.exists():
            status, answer = json.loads(fault.read_text())
            return self.reply(status, answer)
        if path == "/api/2.0/sql/statements" and self.command == "POST":
            return self.begin(json.loads(body))
        if path.startswith("/api/2.0/sql/statements/"):
            identifier = path.removeprefix("/api/2.0/sql/statements/").removesuffix("/cancel")
            if path.endswith("/cancel"):
                return self.reply(200, {})
            return self.reply(200, {"statement_id": identifier, **statements[identifier]})
        if path.startswith("/api/2.0/fs/files/Volumes/") and self.command == "PUT":
            target = folder / path.removeprefix("/api/2.0/fs/files/")
            if not target.parent.is_dir():
                return self.reply(404, {"error_code": "NOT_FOUND", "message": "The volume does not exist."})
            target.write_bytes(body)
            return self.reply(204, None)
        self.reply(404, {"error_code": "ENDPOINT_NOT_FOUND", "message": path})

    do_GET = do_POST = do_PUT = handle_any

    def grant(self, body):
        expected = base64.b64encode(f"{options['client_id']}:{options['client_secret']}".encode()).decode()
        form = dict(urllib.parse.parse_qsl(body.decode()))
        is_good = self.headers.get("authorization") == f"Basic {expected}"
        if not is_good or form != {"grant_type": "client_credentials", "scope": "all-apis"}:
            return self.reply(401, {"error": "invalid_client", "error_description": "Client authentication failed"})
        token = os.urandom(16).hex()
        tokens.add(token)
        self.reply(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": "all-apis"})

    def begin(self, ask):
        if ask["warehouse_id"] != options["warehouse"]:
            return self.reply(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"SQL warehouse {ask['warehouse_id']} does not exist."})
        assert ask["wait_timeout"] == "30s" and ask["on_wait_timeout"] == "CONTINUE", ask
        identifier = str(uuid.uuid4())
        if ask["statement"].startswith("MERGE"):
            # What takes long is answered before it is done.
            statements[identifier] = {"status": {"state": "PENDING"}}
            work = lambda: statements.__setitem__(identifier, outcome(ask["statement"]))
            threading.Timer(0.15, work).start()
            return self.reply(200, {"statement_id": identifier, "status": {"state": "PENDING"}})
        else:
            statements[identifier] = outcome(ask["statement"])
        self.reply(200, {"statement_id": identifier, **statements[identifier]})

    def reply(self, status, value):
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Reader(BaseHTTPRequestHandler):
    """Reads past the workspace, straight from the tables."""

    def do_POST(self):
        sql = self.rfile.read(int(self.headers["content-length"])).decode()
        with lock:
            rows = seen if sql == "seen" else database.execute(sql).fetchall()
        rows = rows if sql == "seen" else [[None if cell is None else str(cell) for cell in row] for row in rows]
        content = json.dumps(rows).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


workspace, reader = (ThreadingHTTPServer(("127.0.0.1", 0), kind) for kind in (Workspace, Reader))
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(options["certificate"], options["key"])
workspace.socket = context.wrap_socket(workspace.socket, server_side=True)
print("ready", json.dumps({"port": serve(workspace), "reader": serve(reader)}), flush=True)
# Nothing is ever sent to us: it ends when the test does, and so do we.
sys.stdin.read()
os._exit(0)
