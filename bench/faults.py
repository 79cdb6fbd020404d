"""Brings faults about under load, as docs/reliability.md describes them, and prints what came of them as a table.

    cargo build --release && python3 bench/faults.py target/release/hedgerow [MINUTES | mixed]

Two set-ups, one after the other, all on loopback and in folders that are deleted afterwards:
- several machines: three servers and two workers on one PostgreSQL and one ClickHouse, each behind a relay of its own that can
  swallow what is sent. Mixed requests first; then kills, freezes and black holes at the same time, for MINUTES (16 by default).
- one machine: a server with SQLite, with kills, a clock that jumps, and backups that are restored, under load.
With `mixed`, only the mixed requests are sent.
Fails if something acknowledged is lost, delivered twice, or shown to somebody else, or if a recovery takes longer than 30 seconds.

Needs what `cargo xtask components` installs, and PostgreSQL's programs.
"""

import atexit
import collections
import contextlib
import datetime
import http.client
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPONENTS = ROOT / ".components"
KEY = "faults-key-of-the-first-owner"
SECRET = "a secret key that all processes were given"
CLICKHOUSE = ("hedge", "row")
# A run is given to another worker when nothing was heard of its own for so long.
LEASE = 30
LONGEST_RECOVERY = 30
MIXED, MIXED_CONNECTIONS = 100_000, 24
KILLS, FREEZES, BLACK_HOLES, RESTORES = 200, 50, 20, 10
JUMPS = ("+3s", "-3s", "+90s", "-90s", "+1h", "-1h", "+1d", "-1d", "+30d", "-30d")

rows = []
failed = []
children = []


def started(*arguments, **options):
    """A process that does not outlive this one."""
    children.append(subprocess.Popen(*arguments, **options))
    return children[-1]


@atexit.register
def end_all():
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()


def record(fault, count, outcome, held):
    rows.append((fault, count, outcome))
    if not held:
        failed.append(fault)
    print(f"{'held  ' if held else 'FAILED'} {fault} ({count}): {outcome}", file=sys.stderr, flush=True)


def free_port():
    """One that stays free while its server is down: below those that the system gives to whoever connects."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


def wait_until(what, condition, longest):
    started = time.monotonic()
    while time.monotonic() - started < longest:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            if condition():
                return time.monotonic() - started
        time.sleep(0.1)
    raise SystemExit(f"{what}: not within {longest} s")


class Recoveries:
    """How long it took until all was well again."""

    def __init__(self):
        self.seconds = []
        self.lock = threading.Lock()

    def add(self, seconds):
        with self.lock:
            self.seconds.append(seconds)

    def summary(self):
        ordered = sorted(self.seconds)
        return f"recovery: median {ordered[len(ordered) // 2]:.1f} s, longest {ordered[-1]:.1f} s"

    def is_held(self):
        return max(self.seconds) <= LONGEST_RECOVERY


class Relay:
    """Passes on what is sent to a port, until it swallows it. Nobody is told: connections stay open."""

    def __init__(self, port):
        self.target = port
        self.swallowed = set()
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            pair = (near, far)
            self.open.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self.pass_on, args=(pair, source, sink), daemon=True).start()

    def pass_on(self, pair, source, sink):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if pair not in self.swallowed:
                    sink.sendall(piece)
        if pair not in self.swallowed:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self.open.discard(pair)

    def swallow(self):
        """Nothing comes through on connections that are open now. New ones work."""
        self.swallowed |= set(self.open)


class Process:
    """A server or a worker that can be killed and frozen. One fault at a time."""

    def __init__(self, name, arguments, settings):
        self.name, self.arguments, self.settings = name, arguments, settings
        self.port = int(settings["HEDGEROW_LISTEN"].rsplit(":", 1)[1]) if "HEDGEROW_LISTEN" in settings else None
        self.health = int(settings["HEDGEROW_HEALTH_LISTEN"].rsplit(":", 1)[1])
        self.fault = threading.Lock()
        self.log = open(pathlib.Path(settings["HEDGEROW_DATA_DIR"]) / "log", "ab")
        self.start()

    def start(self):
        self.process = started(self.arguments, env=self.settings, stdout=self.log, stderr=self.log)

    def is_ready(self):
        return ask(self.health, "GET", "/readyz", timeout=5)[0] == 200

    def wait_until_ready(self, longest=60):
        return wait_until(f"{self.name} is ready", self.is_ready, longest)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()
        return self.wait_until_ready()

    def freeze(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)
        return self.wait_until_ready()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def ask(port, method, path, body=None, key=None, timeout=40):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    if body is not None:
        body = json.dumps(body).encode()
        headers["content-type"] = "application/json"
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, text


class Tenant:
    """An organization with one team, exports, and a program that sends events until each is acknowledged."""

    def __init__(self, ports, name, receiver=None):
        self.ports, self.name = ports, name
        self.id = self.api("POST", "/api/organizations/", {"name": name})["id"]
        self.team = self.api("GET", self.at("teams/"))["results"][0]
        self.acknowledged = []
        self.refusals = collections.Counter()
        self.longest = 0
        self.exports = []
        destinations = [{"type": "File", "config": {"folder": f"{name}-{number}"}} for number in range(3)]
        if receiver:
            destinations.append({"type": "HTTP", "config": {"url": f"http://127.0.0.1:{receiver.server_port}/{name}", "token": "t"}})
        for number, destination in enumerate(destinations):
            body = {"name": f"{name} {number}", "interval": "every 5 minutes", "destination": destination}
            self.exports.append(self.api("POST", self.at("batch_exports/"), body))

    def at(self, path):
        return f"/api/organizations/{self.id}/{path}"

    def api(self, method, path, body=None):
        status, answer = ask(self.ports()[0], method, path, body, KEY)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {answer}")
        return answer

    def send(self, stop):
        while not stop.is_set():
            ids = [str(uuid.uuid4()) for _ in range(20)]
            events = [
                {"event": "seen", "distinct_id": f"p{n % 7}", "uuid": id, "properties": {"tenant": self.name}}
                for n, id in enumerate(ids)
            ]
            body = {"api_key": self.team["api_token"], "batch": events}
            started = time.monotonic()
            while True:
                try:
                    status, _ = ask(random.choice(self.ports()), "POST", "/batch/", body, timeout=10)
                except (OSError, http.client.HTTPException) as error:
                    status = type(error).__name__
                if status == 200:
                    break
                self.refusals[status] += 1
                time.sleep(0.2)
            self.longest = max(self.longest, time.monotonic() - started)
            self.acknowledged.extend(ids)
            time.sleep(0.1)

    def runs(self, export):
        return self.api("GET", self.at(f"batch_exports/{export['id']}/runs/?limit=100"))["results"]

    def deliver_again(self, stop):
        """Keeps the workers busy with intervals that were delivered before."""
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, SystemExit, KeyError):
                for export in self.exports[:3]:
                    done = [run for run in self.runs(export) if run["status"] == "Completed"]
                    if done:
                        run = random.choice(done)
                        self.api("POST", self.at(f"batch_exports/{export['id']}/runs/{run['id']}/retry/"))
            time.sleep(1)

    def exported(self, root, number):
        """How often each event is in the files of an export, and whatever does not belong there."""
        found, foreign = collections.Counter(), 0
        for file in (root / self.id / f"{self.name}-{number}").rglob("*.jsonl"):
            if ".hedgerow" in file.parts:
                continue
            for line in file.read_text().splitlines():
                row = json.loads(line)
                found[row["uuid"]] += 1
                foreign += row["properties"]["tenant"] != self.name
        return found, foreign


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what exports send over HTTP, and counts it by path."""

    protocol_version = "HTTP/1.1"
    received = collections.defaultdict(collections.Counter)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        for event in body.get("batch", []):
            self.received[self.path][event["uuid"]] += 1
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def in_threads(*works):
    threads = [threading.Thread(target=work, args=arguments, daemon=True) for work, *arguments in works]
    for thread in threads:
        thread.start()
    return threads


def end_of_this_interval():
    return int(time.time()) // 300 * 300 + 300


def settings_of(folder, **more):
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "HEDGEROW_DATA_DIR": str(folder),
        "HEDGEROW_BOOTSTRAP_API_KEY": KEY,
        "HEDGEROW_SECRET_KEY": SECRET,
        "HEDGEROW_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HEDGEROW_HEALTH_LISTEN": f"127.0.0.1:{free_port()}",
        "HEDGEROW_SHUTDOWN_DELAY": "0",
        "HEDGEROW_HOURLY_LIMITS": "off",
        "HEDGEROW_LOG": "warn",
        "PATH": os.environ["PATH"],
    } | more


class Postgres:
    def __init__(self, folder):
        programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
        self.port, self.folder = free_port(), folder / "postgres"
        self.folder.mkdir()
        # It does not run as root.
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(self.folder, user)
        data = str(self.folder / "data")
        subprocess.run([programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres"], check=True, stdout=subprocess.DEVNULL, user=user)
        options = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}", "-c", "max_connections=300"]
        self.log = open(folder / "postgres.log", "ab")
        self.process = started([programs / "postgres", "-D", data, *options], stdout=self.log, stderr=self.log, user=user)
        wait_until("PostgreSQL starts", lambda: socket.create_connection(("127.0.0.1", self.port)).close() is None, 30)
        time.sleep(1)

    def url(self, port=None):
        return f"postgres://postgres@127.0.0.1:{port or self.port}/postgres"

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


class ClickHouse:
    def __init__(self, folder):
        folder = folder / "clickhouse"
        folder.mkdir()
        options = {"folder": str(folder), "user": CLICKHOUSE[0], "password": CLICKHOUSE[1]}
        command = [COMPONENTS / "clickhouse/bin/python", ROOT / "crates/testkit/external/clickhouse.py", json.dumps(options)]
        self.process = started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(folder / "log", "ab"))
        self.port = json.loads(self.process.stdout.readline().removeprefix(b"ready "))["port"]

    def url(self):
        return f"clickhouse://{CLICKHOUSE[0]}:{CLICKHOUSE[1]}@127.0.0.1:{self.port}/default"

    def query(self, sql):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", f"/?user={CLICKHOUSE[0]}&password={CLICKHOUSE[1]}", sql.encode())
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise SystemExit(f"ClickHouse: {text}")
        return [line.split("\t") for line in text.splitlines()]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Mixed:
    """Requests of many kinds to few organizations, from many connections to all servers: which statuses they get."""

    EXPORT = {"name": "mixed", "interval": "hour", "destination": {"type": "NoOp", "config": {}}}

    def __init__(self, ports):
        self.ports, self.statuses, self.lock = ports, collections.Counter(), threading.Lock()
        self.own = [ask(ports[0], "POST", "/api/organizations/", {"name": f"mixed {n}"}, KEY)[1]["id"] for n in range(4)]
        self.made = {kind: [] for kind in ("batch_exports", "teams", "invites")}

    def run(self, count):
        threads = in_threads(*[(self.keep_asking, self.ports[n % len(self.ports)], count // MIXED_CONNECTIONS) for n in range(MIXED_CONNECTIONS)])
        for thread in threads:
            thread.join()
        outcome = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        record("mixed requests at the same time", sum(self.statuses.values()), outcome, all(status < 500 for status in self.statuses))

    def keep_asking(self, port, count):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(count):
            method, path, body = self.request()
            try:
                connection.request(method, path, json.dumps(body) if body else None, {"authorization": f"Bearer {KEY}", "content-type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
            except (ConnectionError, http.client.HTTPException):
                # The server closes a connection whose last request it refused before its body was there.
                connection.close()
                continue
            with self.lock:
                self.statuses[answer.status] += 1
            if answer.status == 201:
                self.note(path, json.loads(text))
        connection.close()

    def note(self, path, made):
        kind = path.split("/")[4] if path.count("/") == 5 else None
        if kind in self.made:
            self.made[kind].append(f"{path}{made['id']}/")

    def request(self):
        own = f"/api/organizations/{random.choice(self.own)}/"
        kind = random.choice(list(self.made))
        item = random.choice(self.made[kind] or [own])
        changed = random.choice(self.made["teams"] + self.made["batch_exports"] or [own])
        export = random.choice(self.made["batch_exports"] or [own])
        bodies = {"batch_exports": self.EXPORT, "teams": {"name": "mixed"}, "invites": {"target_email": f"{uuid.uuid4()}@example.com"}}
        method, path, body = random.choice([
            ("GET", own, None),
            ("GET", item, None),
            ("GET", f"{own}{kind}/", None),
            ("GET", f"{own}activity/", None),
            ("PATCH", own, {"name": f"mixed {random.random()}"}),
            ("PATCH", changed, {"name": f"mixed {random.random()}"}),
            ("POST", f"{export}pause/", None),
            ("POST", f"{export}unpause/", None),
            ("POST", f"{own}{kind}/", bodies[kind]),
            ("POST", f"{own}{kind}/", bodies[kind]),
            ("DELETE", f"{own}{kind}/0/", None),
            ("DELETE", f"{own}{kind}/0/", None),
        ])
        if method == "DELETE" and len(self.made[kind]) > 20:
            path = self.made[kind].pop(random.randrange(20))
        return method, path, body


def several_machines(binary, folder, minutes):
    postgres, clickhouse = Postgres(folder), ClickHouse(folder)
    root = folder / "exports"
    root.mkdir()
    relays = []

    def process(name, *arguments, **more):
        relays.append(Relay(postgres.port))
        settings = settings_of(folder / name, **more)
        settings["HEDGEROW_DATABASE_URL"] = postgres.url(relays[-1].port)
        settings["HEDGEROW_EVENTS_URL"] = clickhouse.url()
        settings["HEDGEROW_EXPORT_ROOT"] = str(root)
        made = Process(name, [binary, *arguments], settings)
        made.wait_until_ready()
        return made

    servers = [process(f"server-{n}", HEDGEROW_LISTEN=f"127.0.0.1:{free_port()}", HEDGEROW_WORKERS="0") for n in range(3)]
    workers = [process(f"worker-{n}", "work") for n in range(2)]
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    in_threads((receiver.serve_forever,))
    tenants = [Tenant(lambda: [server.port for server in servers], name, receiver) for name in ("acme", "globex")]

    Mixed([server.port for server in servers]).run(MIXED)
    if minutes:
        bring_faults(servers, workers, relays, tenants, clickhouse, root, minutes)
    for one in servers + workers:
        one.stop()
    receiver.shutdown()
    clickhouse.stop()
    postgres.stop()


def bring_faults(servers, workers, relays, tenants, clickhouse, root, minutes):
    ends = time.monotonic() + minutes * 60
    pause = minutes * 60 / 1.1
    stop, sending_over = threading.Event(), threading.Event()
    kills, freezes, holes = Recoveries(), Recoveries(), Recoveries()

    def keep_killing():
        while len(kills.seconds) < KILLS // 2 and time.monotonic() < ends:
            victim = random.choice(servers + workers)
            if victim.fault.acquire(blocking=False):
                with contextlib.closing(Released(victim.fault)):
                    kills.add(victim.kill())
            time.sleep(pause / (KILLS // 2) / 2)

    def keep_freezing(group):
        for _ in range(FREEZES // 2):
            if time.monotonic() > ends:
                return
            victim = random.choice(group)
            with victim.fault:
                freezes.add(victim.freeze(LEASE + 3))

    def keep_swallowing():
        for _ in range(BLACK_HOLES):
            if time.monotonic() > ends:
                return
            number = random.randrange(len(servers))
            with servers[number].fault:
                started = time.monotonic()
                relays[number].swallow()
                wells = 0
                while wells < 10:
                    try:
                        is_well = ask(servers[number].port, "GET", "/api/organizations/", key=KEY, timeout=40)[0] == 200
                    except OSError:
                        is_well = False
                    wells = wells + 1 if is_well else 0
                    time.sleep(0.1)
                holes.add(time.monotonic() - started - 1)
            time.sleep(pause / BLACK_HOLES / 2)

    works = [(tenant.send, sending_over) for tenant in tenants] + [(tenant.deliver_again, stop) for tenant in tenants]
    under_way = in_threads(*works)
    faults = in_threads((keep_killing,), (keep_freezing, servers), (keep_freezing, workers), (keep_swallowing,))
    for thread in faults:
        thread.join()
    stop.set()
    sending_over.set()
    for thread in under_way:
        thread.join()
    last = end_of_this_interval()
    # ClickHouse's intervals are read 30 s after their end.
    wait_until("the last interval ends", lambda: time.time() > last + 30, 400)
    took = wait_until("all runs end", lambda: is_all_delivered(tenants, last), 120)
    check_several(tenants, clickhouse, root, last)
    record("processes killed", len(kills.seconds), kills.summary(), kills.is_held())
    record("processes frozen for longer than the lease", len(freezes.seconds), freezes.summary(), freezes.is_held())
    record("pools of connections swallowed by the network", len(holes.seconds), holes.summary(), holes.is_held())
    record("runs left when the faults were over", 0, f"all had ended {took:.0f} s after the last could be read", took <= LONGEST_RECOVERY)


class Released:
    def __init__(self, lock):
        self.close = lock.release


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def is_all_delivered(tenants, last):
    for tenant in tenants:
        for export in tenant.exports:
            runs = tenant.runs(export)
            if not runs or max(moment(run["data_interval_end"]) for run in runs) < last:
                return False
            if any(run["status"] != "Completed" for run in runs):
                return False
    return True


def check_several(tenants, clickhouse, root, last):
    lost = foreign = wrong = unsent = 0
    acknowledged = sum(len(tenant.acknowledged) for tenant in tenants)
    for tenant in tenants:
        team = tenant.team["id"]
        found = clickhouse.query(f"SELECT uuid, count(), countIf(inserted_at < toDateTime64({last}, 6, 'UTC')) FROM hedgerow_events WHERE team_id = {team} GROUP BY uuid")
        stored = {id for id, _, _ in found}
        settled = collections.Counter({id: int(count) for id, _, count in found if int(count)})
        lost += len(set(tenant.acknowledged) - stored)
        foreign += int(clickhouse.query(f"SELECT count() FROM hedgerow_events WHERE team_id = {team} AND JSONExtractString(properties, 'tenant') != '{tenant.name}'")[0][0])
        for number in range(3):
            exported, others = tenant.exported(root, number)
            foreign += others
            wrong += sum(((exported - settled) + (settled - exported)).values())
        unsent += len(set(settled) - set(Receiver.received[f"/{tenant.name}"]))
    refusals = sum((tenant.refusals for tenant in tenants), collections.Counter())
    longest = max(tenant.longest for tenant in tenants)
    record("events acknowledged, several machines", acknowledged, f"{lost} lost, {foreign} with somebody else; a sender that tries again waited {longest:.1f} s at most ({sum(refusals.values())} refusals)", not lost and not foreign)
    record("rows in files of exports, several machines", acknowledged * 3, f"{wrong} missing or twice", not wrong)
    record("rows sent over HTTP, several machines", acknowledged, f"{unsent} never sent", not unsent)


def faketime():
    return next((COMPONENTS / "faketime/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


def one_machine(binary, folder):
    root, clock = folder / "exports", folder / "clock"
    root.mkdir(parents=True)
    clock.write_text("+0")
    listen = f"127.0.0.1:{free_port()}"
    settings = settings_of(folder / "data", HEDGEROW_LISTEN=listen, HEDGEROW_EXPORT_ROOT=str(root)) | {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    server = Process("server", [binary], settings)
    server.wait_until_ready()
    tenants = [Tenant(lambda: [server.port], name) for name in ("acme", "globex")]
    over = threading.Event()
    sending = in_threads(*[(tenant.send, over) for tenant in tenants])
    jumps = jump(server, tenants, clock)
    kills = Recoveries()
    for _ in range(KILLS - KILLS // 2):
        kills.add(server.kill())
        time.sleep(random.random() / 2)
    restores = restore(binary, server, tenants, folder)
    over.set()
    for thread in sending:
        thread.join()
    last = end_of_this_interval()
    wait_until("the last interval ends", lambda: time.time() > last + 5, 320)
    wait_until("all runs end", lambda: is_all_delivered(tenants, last), 120)
    server.stop()
    check_one(tenants, folder / "data" / "events.sqlite", root)
    record("kills, one machine", len(kills.seconds), kills.summary(), kills.is_held())
    record("jumps of the clock, from 3 s to 30 days, both ways", len(JUMPS), f"the server's own time was off by {max(jumps):.1f} s at most", max(jumps) < 5)
    record("backups made under load and restored", len(restores), f"{sum(restores)} acknowledged events missing or shown to others", not sum(restores))


def jump(server, tenants, clock):
    off_by = []
    for off in JUMPS:
        set_clock(clock, off)
        for _ in range(6):
            made = tenants[0].api("POST", tenants[0].at("teams/"), {"name": f"off by {off}"})
            off_by.append(abs(moment(made["created_at"]) - time.time()))
            tenants[0].api("DELETE", tenants[0].at(f"teams/{made['id']}/"))
            time.sleep(1)
        set_clock(clock, "+0")
        time.sleep(2)
    wait_until("the clock is right again", server.is_ready, 30)
    return off_by


def set_clock(clock, off):
    draft = clock.with_suffix(".draft")
    draft.write_text(off)
    draft.rename(clock)


def stored(events, team):
    """The events of a team, straight from the file."""
    with contextlib.closing(sqlite3.connect(f"file:{events}?mode=ro", uri=True)) as connection:
        # As in crates/events/src/sqlite/place.rs.
        first = (team // 128) << 40
        rows = connection.execute(f"SELECT uuid, properties FROM event_{team % 128} WHERE seq BETWEEN ? AND ?", (first, first + (1 << 40) - 1))
        return [(str(uuid.UUID(bytes=id)), json.loads(properties)) for id, properties in rows]


def restore(binary, server, tenants, folder):
    missing = []
    for number in range(RESTORES):
        backup, place = folder / f"backup-{number}", folder / f"restored-{number}"
        before = [list(tenant.acknowledged) for tenant in tenants]
        settings = {name: value for name, value in server.settings.items() if not name.startswith(("LD_", "FAKETIME", "DONT"))}
        subprocess.run([binary, "backup", backup], env=settings, check=True, stdout=subprocess.DEVNULL)
        settings |= {
            "HEDGEROW_DATA_DIR": str(place),
            "HEDGEROW_LISTEN": f"127.0.0.1:{free_port()}",
            "HEDGEROW_HEALTH_LISTEN": f"127.0.0.1:{free_port()}",
        }
        place.mkdir()
        subprocess.run([binary, "restore", backup], env=settings, check=True, stdout=subprocess.DEVNULL)
        restored = Process(f"restored {number}", [binary], settings)
        restored.wait_until_ready()
        wrong = 0
        for tenant, acknowledged in zip(tenants, before):
            there = stored(place / "events.sqlite", tenant.team["id"])
            wrong += len(set(acknowledged) - {id for id, _ in there})
            wrong += sum(properties["tenant"] != tenant.name for _, properties in there)
        new_tenant = Tenant(lambda: [restored.port], f"new-{number}")
        wrong += len(stored(place / "events.sqlite", new_tenant.team["id"]))
        restored.stop()
        shutil.rmtree(backup)
        shutil.rmtree(place)
        missing.append(wrong)
    return missing


def check_one(tenants, events, root):
    lost = foreign = wrong = 0
    acknowledged = sum(len(tenant.acknowledged) for tenant in tenants)
    for tenant in tenants:
        there = stored(events, tenant.team["id"])
        ids = collections.Counter(id for id, _ in there)
        lost += len(set(tenant.acknowledged) - set(ids))
        wrong += sum(ids.values()) - len(ids)
        foreign += sum(properties["tenant"] != tenant.name for _, properties in there)
        for number in range(3):
            exported, others = tenant.exported(root, number)
            foreign += others
            wrong += sum(((exported - ids) + (ids - exported)).values())
    record("events acknowledged, one machine", acknowledged, f"{lost} lost, {wrong} stored or exported twice or not at all, {foreign} with somebody else", not (lost or wrong or foreign))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    wanted = sys.argv[2] if len(sys.argv) > 2 else "16"
    minutes = 0 if wanted == "mixed" else float(wanted)
    with tempfile.TemporaryDirectory(prefix="hedgerow-faults-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        several_machines(binary, folder, minutes)
        if minutes:
            one_machine(binary, folder / "one")
    print("| fault | how often | outcome |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    if failed:
        raise SystemExit(f"did not hold: {', '.join(failed)}")


main()
