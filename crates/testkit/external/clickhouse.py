"""The engine of ClickHouse (chDB) behind the HTTP interface of a ClickHouse server, on loopback, for tests.

What is played here is the interface alone: parameters, settings, credentials, formats, errors. Every statement is run
by the engine itself. Not played: KILL QUERY, quotas, compressed bodies, clusters.
"""

import base64
import json
import os
import re
import sys
import threading
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from chdb import _chdb

options = json.loads(sys.argv[1])
folder = Path(options["folder"])
configuration = folder / "config.xml"
# Backups go to the folders of tests, so that another server can restore them.
allowed = f"<backups><allowed_path>{folder.parent}/</allowed_path></backups>"
configuration.write_text(f"<clickhouse>{allowed}</clickhouse>")
data = f"{folder / 'data'}?config-file={configuration}"
# The engine ends with its last connection, so one is kept.
anchor = _chdb.connect(data)

OURS = {"query", "database", "default_format", "user", "password", "query_id", "session_id", "wait_end_of_query"}
# As the server's exceptionCodeToHTTPStatus has them; everything else is 500.
STATUS = {194: 401, 192: 403, 193: 403, 516: 403, 60: 404, 81: 404, 47: 404, 46: 404, 159: 408}
STATUS.update({code: 400 for code in (6, 26, 27, 36, 38, 41, 53, 62, 69, 70, 72, 117, 130, 131, 158, 386, 457)})
# Others need their end to be of one piece.
STREAMED = {"ArrowStream", "CSV", "TSV", "TabSeparated", "JSONEachRow", "RowBinary"}
END_OF_ARROW = b"\xff\xff\xff\xff\x00\x00\x00\x00"
INSERT = re.compile(r"^\s*(INSERT\s.*?)(?:\s+FORMAT\s+(\w+))?\s*$", re.IGNORECASE | re.DOTALL)
FORMAT = re.compile(r"\sFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

    @staticmethod
    def by_the_engine(error):
        found = re.match(r"Code: (\d+)\.", str(error))
        return Refused(int(found[1]) if found else 1002, str(error))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if urlsplit(self.path).path == "/ping":
            return self.answer(200, b"Ok.\n")
        return self.do_POST()

    def do_POST(self):
        self.is_begun = False
        connection = None
        try:
            fields, body = self.fields()
            self.authenticate(fields)
            sql, payload = statement(fields, body)
            if is_cut(sql, "before"):
                return self.hang_up()
            connection = session(fields)
            self.carry_out(connection, sql, payload, fields)
            if is_cut(sql, "after"):
                return self.hang_up()
            self.finish_answer()
        except Refused as error:
            self.refuse(error)
        except RuntimeError as error:
            self.refuse(Refused.by_the_engine(error))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            if connection is not None:
                connection.close()

    def fields(self):
        fields = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.body()
        kind = self.headers.get("Content-Type", "")
        if not kind.startswith("multipart/form-data"):
            return fields, body
        form = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        for part in form.iter_parts():
            fields[part.get_param("name", header="content-disposition")] = part.get_payload(decode=True).decode()
        return fields, b""

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def authenticate(self, fields):
        basic = self.headers.get("Authorization", "")
        if basic.startswith("Basic "):
            user, _, password = base64.b64decode(basic[6:]).decode().partition(":")
        else:
            user = self.headers.get("X-ClickHouse-User", fields.get("user", "default"))
            password = self.headers.get("X-ClickHouse-Key", fields.get("password", ""))
        if [user, password] != [options["user"], options["password"]]:
            text = f"{user}: Authentication failed: password is incorrect, or there is no user with such name."
            raise Refused(516, f"Code: 516. DB::Exception: {text} (AUTHENTICATION_FAILED)")

    def carry_out(self, connection, sql, payload, fields):
        parameters = {name[6:]: value for name, value in fields.items() if name.startswith("param_")}
        self.output = []
        if payload is not None:
            self.insert(connection, sql, payload)
            return
        named = FORMAT.search(sql)
        wanted = named[1] if named else fields.get("default_format", "TabSeparated")
        is_read = re.match(r"\s*(SELECT|WITH)\b", sql, re.IGNORECASE)
        if not is_read or wanted not in STREAMED or fields.get("wait_end_of_query") == "1":
            self.output = [connection.query(sql, wanted, params=parameters).bytes()]
            return
        stream = connection.send_query(sql, wanted, params=parameters)
        if stream.has_error():
            raise Refused.by_the_engine(stream.error_message())
        pieces = fetched(connection, stream)
        for piece in stitched(pieces) if wanted == "ArrowStream" else pieces:
            self.piece(piece)
        if not self.is_begun:
            # Without rows nothing was fetched, not even what the columns are.
            self.output = [connection.query(sql, wanted, params=parameters).bytes()]

    def insert(self, connection, sql, payload):
        matched = INSERT.match(sql)
        insert = connection.send_insert(matched[1], matched[2] or "TabSeparated")
        for start in range(0, len(payload), 1 << 20):
            connection.insert_append(insert, payload[start : start + (1 << 20)])
        result = connection.insert_done(insert)
        if result.has_error():
            raise Refused.by_the_engine(result.error_message())

    def piece(self, piece):
        if not self.is_begun:
            self.is_begun = True
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        if piece:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def finish_answer(self):
        if self.is_begun:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.answer(200, b"".join(self.output))

    def refuse(self, error):
        text = f"{error}\n".encode()
        if self.is_begun:
            # As servers do it: the status is out already, so the text ends up behind the data.
            self.piece(text)
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.answer(STATUS.get(error.code, 500), text, {"X-ClickHouse-Exception-Code": str(error.code)})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True


def statement(fields, body):
    """The SQL, and the data of an insert if they came apart from it."""
    query = fields.get("query", "")
    if not query:
        return body.decode(), None
    return (query, body) if re.match(r"\s*INSERT\b", query, re.IGNORECASE) and body else (query + body.decode(), None)


def session(fields):
    connection = _chdb.connect(data)
    if database := fields.get("database"):
        connection.query("USE `" + database.replace("\\", "\\\\").replace("`", "\\`") + "`")
    settings = {name: value for name, value in fields.items() if name not in OURS and not name.startswith("param_")}
    # Last, because after it nothing can be set.
    for name in sorted(settings, key=lambda name: name == "readonly"):
        value = settings[name].replace("\\", "\\\\").replace("'", "\\'")
        connection.query(f"SET `{name}` = '{value}'")
    return connection


def fetched(connection, stream):
    while True:
        result = connection.streaming_fetch_result(stream)
        if result is None or not result.size():
            return
        yield result.bytes()


def stitched(pieces):
    """The engine gives each piece as an Arrow stream of its own: the schema of the first counts, the end of the last."""
    is_first = True
    for piece in pieces:
        if not is_first:
            piece = piece[8 + int.from_bytes(piece[4:8], "little") :]
        is_first = False
        yield piece.removesuffix(END_OF_ARROW)
    if not is_first:
        yield END_OF_ARROW


cutting = threading.Lock()


def is_cut(sql, when):
    """Whether the connection breaks here: the test writes how many statements that change something still pass."""
    if re.match(r"\s*(SELECT|EXISTS|SHOW|DESCRIBE)\b", sql, re.IGNORECASE):
        return False
    file = folder / f"cut_{when}"
    with cutting:
        if not file.exists():
            return False
        left = int(file.read_text())
        if left:
            file.write_text(str(left - 1))
        else:
            # One cut is one crash; what comes after it is whole again.
            file.unlink()
        return not left


def end_with_standard_input():
    sys.stdin.read()
    os._exit(0)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=end_with_standard_input, daemon=True).start()
print("ready", json.dumps({"port": server.server_address[1]}), flush=True)
server.serve_forever()
