"""Compares two builds of the server, side by side: is the second slower than the first?

    python3 bench/compare.py OLD/hedgerow NEW/hedgerow [ROUNDS] [DATABASE_URL]

Both run at the same time, each with a folder of its own, and are measured in turn: old, new, new, old, and so on. What the
machine does besides slows both down. With a DATABASE_URL of PostgreSQL each gets a database of its own there, otherwise SQLite.
Prints the median rate of each kind of request, the processor time of the server for one, and their ratios; fails if a rate is lower by more
than 5 %. The processor time varies less with what else the machine does. Needs `wrk`.
"""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

KEY = "compare-key-of-the-first-owner"
SECONDS = 3
LEAST_RATIO = 0.95
EVENTS = 10_000
CAPTURED = {"event": "seen", "distinct_id": "someone", "properties": {"path": "/pricing", "width": 1280, "plan": "free"}}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Receiver:
    """Notes that the last event has come."""

    def __init__(self):
        self.came = came = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                came.set()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


class Server:
    def __init__(self, binary, folder, database_url):
        port = free_port()
        self.host, self.folder = f"127.0.0.1:{port}", pathlib.Path(folder)
        self.rates, self.costs = {}, {}
        settings = {
            "HEDGEROW_DATA_DIR": folder,
            "HEDGEROW_LISTEN": self.host,
            "HEDGEROW_BOOTSTRAP_EMAIL": "olga@example.com",
            "HEDGEROW_BOOTSTRAP_PASSWORD": "correct horse battery",
            "HEDGEROW_BOOTSTRAP_API_KEY": KEY,
            "HEDGEROW_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HEDGEROW_LOG": "error",
            "PATH": os.environ["PATH"],
        }
        if database_url:
            settings["HEDGEROW_DATABASE_URL"] = database_url
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen([binary], env=settings, stdout=self.log, stderr=self.log)
        try:
            self.wait_until_ready()
        except BaseException:
            self.process.kill()
            raise
        self.organization = self.ask("GET", "/api/organizations/")["results"][0]["id"]
        self.base = f"/api/organizations/{self.organization}/"
        organization = self.ask("GET", self.base)
        self.token = organization["teams"][0]["api_token"]

    def wait_until_ready(self):
        for _ in range(300):
            with contextlib.suppress(OSError, AssertionError):
                return self.ask("GET", "/readyz")
            time.sleep(0.1)
        raise SystemExit(f"the server did not start: {self.log.name}")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, timeout=30)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        reply = connection.getresponse()
        text = reply.read()
        assert reply.status < 300, f"{method} {path}: {reply.status} {text[:300]}"
        with contextlib.suppress(ValueError):
            return json.loads(text)

    def processor_time(self):
        """In microseconds, of all threads so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000 / os.sysconf("SC_CLK_TCK")

    def measure(self, kind):
        before = self.processor_time()
        rate = self.rate(kind, SECONDS)
        self.rates.setdefault(kind, []).append(rate)
        self.costs.setdefault(kind, []).append((self.processor_time() - before) / (rate * SECONDS))

    def rate(self, kind, seconds):
        """Requests a second with 32 connections."""
        script = self.folder / f"{kind}.lua"
        script.write_text(self.script(kind))
        command = ["wrk", "-t1", "-c32", f"-d{seconds}", "-s", script, f"http://{self.host}"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert "Non-2xx" not in text and "Socket errors" not in text, f"{kind}: {text}"
        return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])

    def script(self, kind):
        headers = f'wrk.headers["Authorization"] = "Bearer {KEY}"\nwrk.headers["Content-Type"] = "application/json"\n'
        reads = {"retrieve": "", "members": "members/", "activity": "activity/"}
        if kind in reads:
            return headers + f'wrk.path = "{self.base}{reads[kind]}"\n'
        if kind == "create":
            body = '\'{"name": "Made \' .. n .. \'"}\''
            make = f'n = n + 1\n  return wrk.format("POST", "/api/organizations/", nil, {body})'
            return headers + f"local n = 0\nrequest = function()\n  {make}\nend\n"
        if kind == "single event":
            path, body = "/capture/", {"api_key": self.token} | CAPTURED
        else:
            path, body = "/batch/", {"api_key": self.token, "batch": [CAPTURED] * 100}
        return f'wrk.method = "POST"\nwrk.path = "{path}"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = [[{json.dumps(body)}]]\n'

    def enable_app(self, receiver):
        code = "export async function onEvent(event, { config }) { if (event.properties.last) await fetch(config.url) }"
        manifest = {"name": "Compared", "config": [{"key": "url", "type": "string"}], "hosts": ["127.0.0.1"]}
        app = {"plugin_type": "source", "source": {"plugin.json": json.dumps(manifest), "index.js": code}}
        made = self.ask("POST", self.base + "pipeline_destinations/", app)
        config = {"enabled": True, "config": {"url": receiver.url}}
        self.ask("POST", f"{self.base}pipeline_destinations/{made['id']}/configs/", config)

    def events_through_app(self, receiver):
        """Events a second, from the first request that captures them until the app has seen the last."""
        receiver.came.clear()
        begin = time.monotonic()
        for part in range(10):
            batch = [CAPTURED] * (EVENTS // 10)
            if part == 9:
                batch[-1] = CAPTURED | {"properties": {"last": True}}
            self.ask("POST", "/batch/", {"api_key": self.token, "batch": batch})
        assert receiver.came.wait(120), "the app did not get the last event"
        return EVENTS / (time.monotonic() - begin)

    def stop(self):
        self.process.terminate()
        self.process.wait(90)


def database(url, name):
    """A new database beside the one of this address."""
    if not url:
        return None
    for statement in (f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"'):
        subprocess.run(["psql", url, "-qc", statement], check=True, capture_output=True)
    return f"{url.rsplit('/', 1)[0]}/{name}"


def measure(servers, rounds):
    kinds = ["retrieve", "members", "activity", "create", "single event", "batch of 100"]
    for kind in kinds:
        for server in servers:
            server.rate(kind, 1)
        for number in range(rounds):
            for server in servers[:: -1 if number % 2 else 1]:
                server.measure(kind)
    receiver = Receiver()
    for server in servers:
        server.enable_app(receiver)
        server.events_through_app(receiver)
    for number in range(rounds):
        for server in servers[:: -1 if number % 2 else 1]:
            server.rates.setdefault("events through an app", []).append(server.events_through_app(receiver))


def main():
    old, new = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    url = sys.argv[4] if len(sys.argv) > 4 else None
    with tempfile.TemporaryDirectory(prefix="compare-") as first, tempfile.TemporaryDirectory(prefix="compare-") as second:
        servers = []
        try:
            for name, binary, folder in (("old", old, first), ("new", new, second)):
                servers.append(Server(binary, folder, database(url, f"compare_{name}_{os.getpid()}")))
            measure(servers, rounds)
        finally:
            for server in servers:
                server.stop()
    print("| what | old | new | ratio | processor time, old | new | ratio |\n| --- |" + " ---: |" * 6)
    slower = []
    for kind in servers[0].rates:
        a, b = (statistics.median(server.rates[kind]) for server in servers)
        line = f"| {kind} | {a:,.0f}/s | {b:,.0f}/s | {b / a:.2f} |"
        if kind in servers[0].costs:
            old, new = (statistics.median(server.costs[kind]) for server in servers)
            line += f" {old:.1f} µs | {new:.1f} µs | {new / old:.2f} |"
        print(line)
        if b / a < LEAST_RATIO:
            slower.append(kind)
    if slower:
        sys.exit(f"slower by more than 5 %: {', '.join(slower)}")


main()
