"""A real HTTP server on loopback for tests. It writes each batch of events it takes into a folder, as JSON.

The test says in files how it is to behave: `answers` holds the statuses of the next answers, one a line, each with an
optional Retry-After behind it; `manner` may be `endless`.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder = Path(sys.argv[1])
lock = threading.Lock()


def told(name):
    file = folder / name
    return file.read_text() if file.exists() else ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        manner = told("manner")
        with lock:
            status, wait = self.next_answer()
            self.note(status, body)
        self.send_response(status)
        if wait:
            self.send_header("retry-after", wait)
        if 300 <= status < 400:
            self.send_header("location", "/elsewhere")
        if manner == "endless":
            self.end_headers()
            while True:
                self.wfile.write(b"x" * 65536)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def next_answer(self):
        lines = told("answers").splitlines()
        if not lines:
            return 200, None
        (folder / "answers").write_text("\n".join(lines[1:]))
        status, _, wait = lines[0].partition(" ")
        return int(status), wait

    def note(self, status, body):
        requests = folder / "requests"
        name = f"{len(list(requests.glob('*.json'))):06}"
        unfinished = requests / f"{name}.unfinished"
        seen = {
            "status": status,
            "path": self.path,
            "content_type": self.headers["content-type"],
            "idempotency_key": self.headers["idempotency-key"],
            "size": len(body),
            "body": json.loads(body),
        }
        unfinished.write_text(json.dumps(seen))
        unfinished.rename(requests / f"{name}.json")

    def log_message(self, format, *arguments):
        pass


def end_with_input():
    sys.stdin.read()
    os._exit(0)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=end_with_input, daemon=True).start()
print("ready", json.dumps({"port": server.server_port}), flush=True)
server.serve_forever()
