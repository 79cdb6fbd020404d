"""Attacks by which one sender, member or person would take more than their share, as docs/attack-results.md describes them.

    cargo build --release && python3 bench/attacks_on_shares.py target/release/hedgerow [ATTACK…]

Each attack has a server of its own, on loopback and in a folder that is deleted afterwards. What counts is what others see
in the meantime: their requests, median and worst, and the memory of the server. Fails if that exceeds the limits below.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import gzip
import http.client
import io
import itertools
import json
import pathlib
import random
import socketserver
import sqlite3
import statistics
import sys
import tarfile
import threading
import time

from attack_common import (
    PASSWORD, OrganizationCreator, Receiver, Tenant, app, arrival, capture, configured, finish, raw, record, repeated, running, sign_in,
)

# In seconds: what somebody else waits for, in the middle and at worst.
MEDIAN, WORST = 1, 5
# How long most attacks last, in seconds.
LASTS = 12
# As many organizations as a person who is no operator can have created, but for a few.
ORGANIZATIONS = 96
# Of these, several people together.
CREATORS = 4
# What requests that send events may take in memory, all together. The default of the server.
CAPTURE_MB = 768


class Others:
    """Somebody who has nothing to do with the attack. Asks at a steady pace, whether or not the last answer has come: those who
    ask while everything is stuck count as much as those who ask before."""

    PAUSE = 0.25

    def __init__(self, victim, kinds=("captures", "reads", "writes")):
        self.victim, self.kinds = victim, kinds
        self.times, self.failures = {kind: [] for kind in kinds}, collections.Counter()
        self.over = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.ask_on)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def ask_on(self):
        with concurrent.futures.ThreadPoolExecutor(400) as pool:
            for number in itertools.count():
                for kind in self.kinds:
                    pool.submit(self.ask, kind, number)
                if self.over.wait(self.PAUSE):
                    return

    def ask(self, kind, number):
        victim, started = self.victim, time.time()
        try:
            status = {
                "captures": lambda: capture(victim.server, victim.team["api_token"], f"other {number}"),
                "reads": lambda: victim.owns("GET", "activity/?limit=3"),
                "writes": lambda: victim.owns("PATCH", "", {"name": f"Renamed {number}"}),
                "sign-ins": lambda: sign_in(victim.server, victim.owner, PASSWORD, f"203.0.{number % 250}.20"),
            }[kind]().status
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
        self.times[kind].append(time.time() - started)
        if status != 200:
            self.failures[f"{kind} {status}"] += 1

    def outcome(self):
        each = [f"{kind} {in_words(times)}" for kind, times in self.times.items()]
        return ", ".join(each + [f"{count} × {what}" for what, count in self.failures.items()])

    def held(self, median=MEDIAN, worst=WORST):
        times = self.times.values()
        return not self.failures and all(statistics.median(one) < median and max(one) < worst for one in times)


def in_words(times):
    return f"{text_of(statistics.median(times))} ({text_of(max(times))})"


def text_of(seconds):
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def packed(token, properties, event="e"):
    body = {"api_key": token, "event": event, "distinct_id": "d", "properties": properties}
    return gzip.compress(json.dumps(body, separators=(",", ":")).encode())


def new_networks():
    """No two of them are neighbors."""
    for number in itertools.count():
        yield f"{11 + number // 65536}.{number // 256 % 256}.{number % 256}.1"


def fill(server, statement):
    """Multiplies what was made through the API, where making all of it would take many times as long as the attack."""
    with contextlib.closing(sqlite3.connect(pathlib.Path(server.folder) / "hedgerow.sqlite", timeout=30)) as database, database:
        database.execute(statement)


def numbers(count):
    return f"(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n)"


def copy_configurations(server, times):
    columns = """organization_id, app_id, team_id, version, enabled, sort_order, config, secrets, size, web_token, delivered_until,
        delivered_count, attempt, tries, failures, created_at, updated_at"""
    fill(server, f"INSERT INTO pipeline_config ({columns}) SELECT {columns} FROM pipeline_config, {numbers(times)}")


def classes_of_elements(server, victim):
    """40 MB as text, which is little until it is split and sorted."""
    token = Tenant(server, "acme").team["api_token"]
    # Sorting what is in order already would cost less.
    some = "".join(random.choice("abcdefgh") + " " for _ in range(10_000))
    body = packed(token, {"$elements": [{"attr__class": some * 2_000}]})
    before = server.memory("VmHWM")
    with Others(victim) as others, repeated(server, 2, [raw("POST", "/batch/", len(body)) + body]) as answers:
        time.sleep(LASTS)
    peak = server.memory("VmHWM")
    outcome = f"{others.outcome()}; {dict(answers)}, {len(body) // 1000} kB each; peak {peak} MB, {before} MB before"
    held = others.held() and peak < before + CAPTURE_MB
    record("A", "two connections send `$elements` with 20 million classes", outcome, held)


def names_to_remove(server, victim):
    bodies = []
    # Of one organization only a few are taken at a time.
    for organization in OrganizationCreator(server, "creator").creates(12):
        token = organization.team["api_token"]
        # Each name is looked for among these.
        known = {f"k{number}": 1 for number in range(9_500)}
        assert server.ask("POST", "/batch/", packed(token, {"$set": known})).status == 200
        # A person cannot have these as well, so all is tried again without them. Such events may have 8 MB.
        more = {f"m{number}": 1 for number in range(600)}
        bodies.append(packed(token, {"$set": more, "$unset": ["k4999x"] * 900_000}, "$ai_generation"))
    body_of = zip(itertools.cycle(bodies), new_networks())
    requests = (raw("POST", "/batch/", len(body), network=network) + body for body, network in body_of)
    before = server.memory("VmHWM")
    with Others(victim) as others, repeated(server, 12, requests) as answers:
        time.sleep(LASTS)
    peak = server.memory("VmHWM")
    outcome = f"{others.outcome()}; {dict(answers)}, {len(bodies[0]) // 1000} kB each; peak {peak} MB, {before} MB before"
    held = others.held() and peak < before + CAPTURE_MB
    record("A", "12 connections send 900,000 names in `$unset`", outcome, held)


def logged_methods(server, victim):
    log = pathlib.Path(server.folder) / "log"
    before = log.stat().st_size
    for _ in range(20):
        server.ask("M" * 60_000, "/capture/", headers={"x-forwarded-for": "198.51.100.1"})
    time.sleep(0.5)
    written = (log.stat().st_size - before) // 20
    record("C", "methods of 60,000 characters to capture", f"{written} bytes of log for each", 0 < written < 2_000)


def new_subnets(server, victim):
    """Who is new has cost nothing yet, and there is always somebody new."""
    token = Tenant(server, "acme").team["api_token"]
    wide = {"k" * 40 + str(number): 1 for number in range(9_500)}
    assert server.ask("POST", "/batch/", packed(token, {"$set": wide})).status == 200
    # Each event has all of the person's properties parsed, and changes nothing. The more is sent, the more often that is done.
    event = {"event": "e", "distinct_id": "d", "properties": {"$set": {next(iter(wide)): 1}}}
    long = {"event": "e", "distinct_id": "d", "properties": {"text": "x" * 300_000}}
    body = gzip.compress(json.dumps({"api_key": token, "batch": [event] * 400 + [long]}).encode())
    requests = (raw("POST", "/batch/", len(body), network=network) + body for network in new_networks())
    with Others(victim) as others, repeated(server, 12, requests) as answers:
        time.sleep(LASTS)
    outcome = f"{others.outcome()}; {dict(answers)}, {len(body) / 1000:.1f} kB each"
    # Whoever has waited for a second is late, and has every second turn: that second is part of it.
    record("A", "heavy events over 12 connections from ever new subnets", outcome, others.held(median=2))


def slow_dry_runs(server, victim, at_once=64):
    """Their organizations were quick when they were created, and then all of them are slow at the same moment."""
    creator = OrganizationCreator(server, "creator")
    slow = creator.creates(at_once)
    fields = [{"key": f"field{number}", "type": "string"} for number in range(200)]
    values = {field["key"]: "x" for field in fields}
    apps = []
    for organization in slow:
        made = organization.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", fields)).body
        apps.append(f"pipeline_destinations/{made['id']}/")
        assert organization.owns("POST", apps[-1] + "configs/", {"config": values}).status == 201
    copy_configurations(server, 300)
    schema = {"config_schema": [field | {"secret": True} for field in fields]}
    creator.creates(ORGANIZATIONS - at_once)
    started = time.time()
    with Others(victim, ("writes", "sign-ins")) as others, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        change = lambda organization, path: organization.owns("PATCH", path + "?dry_run=true", schema).status
        statuses = collections.Counter(pool.map(change, slow, apps))
    outcome = f"{others.outcome()}; {dict(statuses)} in {time.time() - started:.1f} s"
    # All of them take several seconds, one after the other.
    record("A", f"{at_once} slow dry runs by one person with {ORGANIZATIONS} organizations", outcome, others.held(worst=2))


def watch(file, limit, over):
    """Until then: how many megabytes a file had at most, and for how many seconds at a time it had more than `limit`."""
    most, longest, short_at = 0, 0, time.time()
    while not over.wait(0.1):
        size = file.stat().st_size >> 20
        if size <= limit:
            short_at = time.time()
        most, longest = max(most, size), max(longest, time.time() - short_at)
    return most, longest


@contextlib.contextmanager
def in_threads(*loops):
    """Does each of these again and again."""
    over = threading.Event()

    def go_on(loop):
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                loop()

    threads = [threading.Thread(target=go_on, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield over
    finally:
        over.set()
        for thread in threads:
            thread.join()


def paced(seconds, do):
    def loop():
        started = time.time()
        do()
        time.sleep(max(0, started + seconds - time.time()))

    return loop


def write_ahead_log(server, victim, name, limit, loops, attack):
    """A log beyond `limit` is emptied, but not more often than every ten seconds."""
    file = pathlib.Path(server.folder) / name
    with Others(victim) as others, concurrent.futures.ThreadPoolExecutor() as pool, in_threads(*loops) as over:
        watched = pool.submit(watch, file, limit, over)
        time.sleep(30)
    most, longest = watched.result()
    outcome = f"the log had {most} MB at most, and more than {limit} MB for {longest:.0f} s; {others.outcome()}"
    record("B", attack, outcome, longest < 13 and others.held())


def log_of_database(server, victim):
    acme = Tenant(server, "acme")
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", [{"key": "text", "type": "string"}])).body
    config = acme.owns("POST", f"pipeline_destinations/{made['id']}/configs/", {"config": {"text": "x"}}).body
    path = f"pipeline_destinations/{made['id']}/configs/{config['id']}/"
    # As many lines as a search reads.
    fill(server, f"""INSERT INTO pipeline_log (id, organization_id, config_id, source, level, message, created_at)
        SELECT randomblob(16), organization_id, id, 'CONSOLE', 'INFO', hex(zeroblob(800)), created_at
        FROM pipeline_config, {numbers(9_000)}""")
    write = paced(0.05, lambda: acme.does("PATCH", path, {"config": {"text": random.choice("abcdefgh") * 250_000}}))
    read = lambda: acme.does("GET", f"{path}logs/?search=nothing{random.random()}")
    write_ahead_log(server, victim, "hedgerow.sqlite-wal", 64, [write] * 4 + [read] * 3, "one member reads and writes all the time")


def log_of_events(server, victim):
    loops, text = [], "".join(random.choice("abcdefgh") for _ in range(900)) * 1_000
    for number in range(3):
        acme = Tenant(server, f"acme{number}")
        export = {"name": "Slow", "interval": "hour", "destination": {"type": "NoOp", "config": {}}}
        query = "SELECT event FROM events WHERE properties.text LIKE '%abcdefgh_abcdefgh%'"
        made = acme.owns("POST", "batch_exports/", export | {"hogql_query": query}).body
        event = {"api_key": acme.team["api_token"], "event": "e", "distinct_id": "d", "properties": {"text": text}}
        loops.append(paced(0.2, lambda event=event: server.ask("POST", "/capture/", event)))
        loops.append(lambda acme=acme, made=made: acme.owns("GET", f"batch_exports/{made['id']}/preview/"))
    write_ahead_log(server, victim, "events.sqlite-wal", 128, loops, "three members send events and read previews all the time")


def quick_apps(server, victim):
    receiver = Receiver()
    hook = "export function composeWebhook(event, { config }) { return { url: config.url, body: JSON.stringify(event.event) } }"
    configured(victim, hook, [{"key": "url", "type": "string"}], {"url": receiver.url})
    usual = arrival(server, victim, receiver, "before all", 20)
    quick = "export async function onEvent() { await new Promise((done) => setTimeout(done, 10)) }"
    tokens = []
    for organization in OrganizationCreator(server, "creator").creates(ORGANIZATIONS):
        configured(organization, quick)
        tokens.append(organization.team["api_token"])
    for token in tokens:
        # Three seconds for one app, so that each turn is as long as it may be.
        body = gzip.compress(json.dumps({"api_key": token, "batch": [{"event": "e", "distinct_id": "d"}] * 300}).encode())
        assert server.ask("POST", "/batch/", body).status == 200
    time.sleep(3)
    times = []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for number in range(4):
            times.append(pool.submit(arrival, server, victim, receiver, f"quiet {number}", 30))
            time.sleep(2)
    times = [one.result() for one in times]
    outcome = f"events of others arrive after {in_words(times)}, {text_of(usual)} before"
    # Where there is nothing to do, apps are looked at every five seconds.
    record("A", f"one person's {ORGANIZATIONS} organizations with quick apps and 300 events each", outcome, max(times) < 10)


def apps_of_every_speed(server, victim):
    """Somebody whose app is quick, and somebody whose app takes three seconds, beside people whose apps take all that they can get."""
    receivers = [Receiver(), Receiver()]
    hook = """export async function onEvent(event, { config }) {
        await new Promise((done) => setTimeout(done, config.takes))
        await fetch(config.url, { method: 'POST', body: JSON.stringify(event.event) })
    }"""
    victims = [victim, Tenant(server, "slow")]
    fields = [{"key": "url", "type": "string"}, {"key": "takes", "type": "string"}]
    for one, receiver, takes in zip(victims, receivers, ["0", "3000"]):
        configured(one, hook, fields, {"url": receiver.url, "takes": takes})
    events = [json.dumps({"event": "e", "distinct_id": "d"})] * 300
    for number in range(CREATORS):
        organizations = OrganizationCreator(server, f"creator-{number}").creates(ORGANIZATIONS // CREATORS)
        for organization, takes in zip(organizations, itertools.cycle([10, 950, 8000, 25000])):
            configured(organization, f"export async function onEvent() {{ await new Promise((done) => setTimeout(done, {takes})) }}")
            batch = f'{{"api_key": "{organization.team["api_token"]}", "batch": [{",".join(events)}]}}'
            assert server.ask("POST", "/batch/", gzip.compress(batch.encode())).status == 200
    time.sleep(10)
    times = [[], []]
    for number in range(6):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waits = [pool.submit(arrival, server, *pair, f"event {number}", 60) for pair in zip(victims, receivers)]
        for all_of_one, wait in zip(times, waits):
            all_of_one.append(wait.result())
    outcome = f"events arrive after {in_words(times[0])}, and after {in_words(times[1])} where the app takes 3 s"
    attack = f"{CREATORS} people with {ORGANIZATIONS // CREATORS} organizations each, whose apps take 10 ms to 25 s for an event"
    # Where there was nothing to do, apps are looked at every five seconds.
    record("A", attack, outcome, max(times[0]) < 10 and max(times[1]) < 14)


class Mirror:
    """Answers for the hosts of apps: immediately for one repository, and very late for all others."""

    def __init__(self):
        self.slow = itertools.count()
        mirror = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                path = self.rfile.readline().split()[1].decode()
                while self.rfile.readline().strip():
                    pass
                body = mirror.body(path)
                status = "200 OK" if body else "404 Not Found"
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                with contextlib.suppress(OSError):
                    self.wfile.write(head.encode() + body)

        class Threads(socketserver.ThreadingTCPServer):
            daemon_threads, request_queue_size = True, 128

        self.server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def body(self, path):
        if "/honest/" not in path:
            # The first ones show who is slow, and the others keep their places for as long as they are let.
            time.sleep(4 if next(self.slow) < 8 else 25)
            return b""
        if "/tags" in path:
            return b'[{"name": "v1"}]'
        return archive({"plugin.json": '{"name": "Honest"}', "index.js": "export function onEvent() {}"})


def archive(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"app-v1/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def slow_downloads(server, victim):
    def install(organization, repository):
        started = time.time()
        new = {"plugin_type": "repository", "url": f"https://github.com/{repository}"}
        answer = organization.owns("POST", "pipeline_destinations/", new)
        return answer.status, time.time() - started

    loops = []
    for number in range(4):
        theirs = itertools.cycle(OrganizationCreator(server, f"creator{number}").creates(12))
        loops += [lambda theirs=theirs: install(next(theirs), "slow/app")] * 4
    with in_threads(*loops) as over:
        time.sleep(6)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            installs = []
            for _ in range(6):
                installs.append(pool.submit(install, victim, "honest/app"))
                time.sleep(2)
        installs = [one.result() for one in installs]
        # Stopping would wait for what is under way.
        over.set()
        server.process.kill()
    statuses, times = collections.Counter(status for status, _ in installs), [took for _, took in installs]
    outcome = f"others' installations {dict(statuses)} after {in_words(times)}"
    held = set(statuses) == {201} and statistics.median(times) < MEDIAN and max(times) < WORST
    record("B", "four people, 12 organizations each, install apps from a slow host", outcome, held)


async def ask_and_leave(port, requests, rate, seconds):
    """Begins so many requests in a second, and reads no more of each answer than its start."""
    statuses, tasks = collections.Counter(), []

    async def ask():
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(next(requests))
            statuses[(await reader.read(12))[9:].decode()] += 1
            writer.close()

    for _ in range(rate * seconds):
        tasks.append(asyncio.create_task(ask()))
        await asyncio.sleep(1 / rate)
    for task in tasks:
        task.cancel()
    return statuses


def frontend_scripts(server, victim):
    acme = Tenant(server, "acme")
    # JSX becomes six times as long. If that is too long, what is allowed.
    for elements in (200_000, 31_000):
        source = {"frontend.tsx": f"export const all = [{'<a/>,' * elements}]"}
        made = acme.owns("POST", "pipeline_frontend_apps/", {"plugin_type": "source", "source": source})
        if made.status == 201:
            break
    config = acme.owns("POST", f"pipeline_frontend_apps/{made.body['id']}/configs/", {"enabled": True}).body
    path = f"/frontend_app/{config['id']}/{config['web_token']}/1/"
    size = len(server.ask("GET", path).text)
    before = server.memory("VmHWM")
    requests = (raw("GET", path, network=network) for network in new_networks())
    with Others(victim) as others:
        statuses = asyncio.run(ask_and_leave(server.port, requests, 300, LASTS))
    peak = server.memory("VmHWM")
    outcome = f"{others.outcome()}; {dict(statuses)}; peak {peak} MB, {before} MB before"
    attack = f"300 requests a second for a frontend script of {size / 1_000_000:.1f} MB"
    # Answers to those without a credential have 32 MB, and scripts that are kept 8 MB.
    record("A", attack, outcome, size > 0 and others.held(worst=2) and peak < before + 100)


def store_code(organization, apps):
    """Ten versions of an app are kept, and each has all of its files: 43 MB for ten requests."""
    for _ in range(apps):
        made = organization.owns("POST", "pipeline_destinations/", app("export function onEvent() {}")).body
        path = f"pipeline_destinations/{made['id']}/"
        for number in range(9):
            files = {f"text{min(number, 7)}.txt": f"{number}" + "x" * 980_000}
            assert organization.owns("PATCH", path + "update_source/", {"source": files}).status == 200
    return path


def deleted_code(server, victim, apps=5):
    acme = Tenant(server, "acme")
    path = store_code(acme, apps)
    assert acme.owns("POST", path + "configs/", {}).status == 201
    copy_configurations(server, 999)
    fill(server, f"""INSERT INTO pipeline_reached_host (config_id, host, is_allowed, first_at, last_at)
        SELECT id, 'host-' || i || '.example', 1, created_at, created_at FROM pipeline_config, {numbers(200)}""")
    with Others(victim) as others:
        time.sleep(1)
        started = time.time()
        status = acme.owns("DELETE", "").status
        took = time.time() - started
        time.sleep(LASTS)
    outcome = f"{others.outcome()}; {status} after {text_of(took)}"
    # Nobody else writes for as long as it takes.
    attack = f"deleting an organization with {43 * apps} MB of code, and 1,000 configurations with 200 hosts each"
    record("B", attack, outcome, status == 204 and took < 0.25 and others.held(worst=1))


ATTACKS = [
    classes_of_elements, names_to_remove, logged_methods, new_subnets, slow_dry_runs, log_of_database, log_of_events, quick_apps,
    apps_of_every_speed, slow_downloads, frontend_scripts, deleted_code,
]


def main():
    binary, *names = sys.argv[1:]
    settings = {"HEDGEROW_CAPTURE_MEMORY": str(CAPTURE_MB), "HEDGEROW_LOG": "info", "HEDGEROW_APP_MIRROR": Mirror().url}
    for attack in ATTACKS:
        if not names or attack.__name__ in names:
            with running(binary, **settings) as server:
                attack(server, Tenant(server, "victim"))
    finish()


if __name__ == "__main__":
    main()
