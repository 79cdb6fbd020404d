"""What the scripts that attack a server share: the server, those who use it, and the table of what came of each attack."""

import asyncio
import collections
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

PASSWORD = "correct horse battery"
KEY = "attack-key-of-the-first-owner"
OWNER = "olga@example.com"
BUDGET_MB = 64

rows = []
failed = []


def record(point, attack, outcome, held):
    rows.append((point, attack, outcome))
    if not held:
        failed.append(attack)
    print(f"{'held  ' if held else 'FAILED'} {point:4} {attack}: {outcome}", file=sys.stderr, flush=True)


def finish():
    """Prints the table, and fails if an attack got through."""
    print("| Point | Attack | Outcome |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if failed:
        raise SystemExit(f"{len(failed)} got through: " + "; ".join(failed))


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.text = status, headers, body.decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            self.body = json.loads(self.text)

    def __repr__(self):
        return f"{self.status} {self.text[:300]}"

    def cookie(self):
        return "; ".join(value.split(";")[0] for name, value in self.headers if name.lower() == "set-cookie")

    def header(self, wanted):
        return next((value for name, value in self.headers if name.lower() == wanted), None)


class Server:
    def __init__(self, binary, folder, **settings):
        self.binary, self.folder = str(pathlib.Path(binary).resolve()), folder
        self.settings = {
            "HEDGEROW_DATA_DIR": folder,
            "HEDGEROW_LISTEN": f"127.0.0.1:{free_port()}",
            "HEDGEROW_BOOTSTRAP_EMAIL": OWNER,
            "HEDGEROW_BOOTSTRAP_PASSWORD": PASSWORD,
            "HEDGEROW_BOOTSTRAP_API_KEY": KEY,
            "HEDGEROW_TRUSTED_PROXIES": "127.0.0.0/8",
            "HEDGEROW_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HEDGEROW_CAPTURE_MEMORY": str(BUDGET_MB),
            "HEDGEROW_EXPORT_ROOT": str(pathlib.Path(folder) / "exports"),
            "HEDGEROW_SHUTDOWN_DELAY": "0",
            "HEDGEROW_LOG": "warn",
            "PATH": os.environ["PATH"],
        } | settings
        self.port = int(self.settings["HEDGEROW_LISTEN"].rsplit(":", 1)[1])
        self.log = open(pathlib.Path(folder) / "log", "ab")
        self.process = subprocess.Popen([self.binary], env=self.settings, stdout=self.log, stderr=self.log)
        for _ in range(300):
            with contextlib.suppress(OSError):
                if self.ask("GET", "/healthz").status == 200:
                    return
            time.sleep(0.1)
        raise SystemExit("the server does not start; see its log in " + folder)

    def command(self, *arguments):
        return subprocess.run([self.binary, *arguments], env=self.settings, check=True, capture_output=True, text=True).stdout

    def ask(self, method, path, body=None, key=None, headers=None, timeout=60, source="127.0.0.1"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout, source_address=(source, 0))
        headers = dict(headers or {})
        if key:
            headers["authorization"] = f"Bearer {key}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("content-type", "application/json")
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())

    def memory(self, which="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{which}:")[1].split()[0]) // 1024

    def stop(self, within=90):
        started = time.time()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(within)
        return time.time() - started


@contextlib.contextmanager
def running(binary, **settings):
    """A server that is stopped, and whose folder is deleted, at the end."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder, **settings)
        try:
            yield server
        finally:
            server.stop()


class Organization:
    def __init__(self, server, id, owner_key):
        self.server, self.id, self.owner_key = server, id, owner_key
        self.team = self.owns("GET", "teams/").body["results"][0]

    def at(self, path):
        return f"/api/organizations/{self.id}/{path}"

    def owns(self, method, path, body=None):
        return self.server.ask(method, self.at(path), body, self.owner_key)


class Tenant(Organization):
    """An organization with an owner and a member of level 1, each with a key."""

    def __init__(self, server, name):
        self.name, self.owner, self.member = name, f"owner@{name}.example", f"member@{name}.example"
        for person in (self.owner, self.member):
            server.command("users", "create", person, "--password", PASSWORD)
        server.command("organizations", "create", name, "--owner", self.owner)
        key = new_key(server, self.owner)
        super().__init__(server, server.ask("GET", "/api/organizations/", key=key).body["results"][0]["id"], key)
        server.command("organizations", "add-member", self.id, self.member)
        self.member_key = new_key(server, self.member)

    def does(self, method, path, body=None):
        return self.server.ask(method, self.at(path), body, self.member_key)


class OrganizationCreator:
    """A person who creates organizations."""

    def __init__(self, server, name):
        self.server, email = server, f"{name}@creators.example"
        server.command("users", "create", email, "--password", PASSWORD)
        self.key = new_key(server, email)

    def creates(self, count):
        made = [self.server.ask("POST", "/api/organizations/", {"name": f"Of many {n}"}, self.key) for n in range(count)]
        assert all(one.status == 201 for one in made), made[-1]
        return [Organization(self.server, one.body["id"], self.key) for one in made]


def new_key(server, email, *arguments):
    return server.command("keys", "create", email, *arguments).split()[-1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def app(code, fields=(), **more):
    manifest = {"name": "Tried", "config": list(fields), "hosts": ["127.0.0.1"]}
    return {"plugin_type": "source", "source": {"plugin.json": json.dumps(manifest), "index.js": code}} | more


class Receiver:
    """Notes when each request came."""

    def __init__(self):
        self.seen = []
        receiver = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                length = 0
                while (line := self.rfile.readline().strip()):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                receiver.seen.append((time.time(), self.rfile.read(length).decode()))
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def capture(server, token, event, amount=0, source="203.0.113.7"):
    body = {"api_key": token, "event": event, "distinct_id": "ann", "properties": {"amount": amount}}
    return server.ask("POST", "/capture/", body, headers={"x-forwarded-for": source})


def arrival(server, tenant, receiver, event, within=120):
    """How long it takes until an event has come through the tenant's app; `within` at most."""
    sent = time.time()
    capture(server, tenant.team["api_token"], event)
    while not any(event in body for _, body in receiver.seen) and time.time() < sent + within:
        time.sleep(0.05)
    return time.time() - sent


def sign_in(server, email, password, address="203.0.113.7", headers=None):
    body = {"email": email, "password": password}
    return server.ask("POST", "/api/login/", body, headers={"x-forwarded-for": address} | (headers or {}))


def configured(tenant, code, fields=(), config=None, **more):
    made = tenant.owns("POST", "pipeline_destinations/", app(code, fields, **more))
    assert made.status == 201, made
    base = f"pipeline_destinations/{made.body['id']}/"
    config = tenant.owns("POST", base + "configs/", {"enabled": True, "config": config or {}})
    assert config.status == 201, config
    return base, f"{base}configs/{config.body['id']}/"


@contextlib.contextmanager
def repeated(server, connections, requests):
    """Sends these requests, and begins again when they end, on so many connections, and counts the answers."""
    over, answers = threading.Event(), collections.Counter()
    requests = itertools.cycle(requests) if isinstance(requests, list) else requests

    async def connection():
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                while True:
                    writer.write(next(requests))
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    answers[int(head.split()[1])] += 1
                    if b"content-length:" in head:
                        await reader.readexactly(int(head.split(b"content-length:")[1].split()[0]))
            await asyncio.sleep(0.05)

    async def all_of_them():
        tasks = [asyncio.create_task(connection()) for _ in range(connections)]
        await asyncio.to_thread(over.wait)
        for task in tasks:
            task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(all_of_them()), daemon=True)
    thread.start()
    time.sleep(3)
    try:
        yield answers
    finally:
        over.set()
        thread.join(60)


def raw(method, path, length=0, key=None, network="198.51.100.1"):
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"X-Forwarded-For: {network}", "Content-Type: application/json", f"Content-Length: {length}"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
