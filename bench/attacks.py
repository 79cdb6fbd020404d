"""Attacks a running server from outside, as docs/attack-results.md describes them, and prints what came of each as a table.

    cargo build --release && python3 bench/attacks.py target/release/hedgerow

Starts the server itself, on loopback and in a folder that is deleted afterwards. Fails if an attack gets through.
"""

import concurrent.futures
import contextlib
import gzip
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from attack_common import (
    BUDGET_MB, OWNER, PASSWORD, Receiver, Server, Tenant, app, arrival, capture, configured, finish, new_key, raw, record, repeated, running,
    sign_in,
)

SECRET = {"key": "token", "type": "string", "secret": True}


def secrets_of_apps(acme):
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", [SECRET])).body
    base = f"pipeline_destinations/{made['id']}/"
    acme.owns("POST", base + "configs/", {"enabled": False, "config": {"token": "hush-hush"}})
    shown = []
    for schema in ([], [{"key": "token", "type": "string"}], {}):
        acme.does("PATCH", base, {"config_schema": schema})
        shown += [acme.does("GET", base + rest).text for rest in ("configs/", "", "source/")]
        shown.append(acme.does("GET", "pipeline_destinations/activity/").text)
    leaks = sum("hush-hush" in text for text in shown)
    record("A1", "read a secret back by changing the schema", f"{leaks} of {len(shown)} answers show it", leaks == 0)


def publishing(server, acme, victim):
    refused = acme.does("POST", "pipeline_destinations/", app("export function onEvent() {}", is_global=True))
    owner = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", is_global=True))
    answers = f"{refused.status} for a member, {owner.status} for an owner"
    record("A2", "publish an app for all without the operator's right", answers, {refused.status, owner.status} == {403})

    server.command("operators", "add", acme.owner)
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", is_global=True))
    base = f"pipeline_destinations/{made.body['id']}/"
    config = victim.owns("POST", base + "configs/", {"enabled": True, "version": 1, "config": {}}).body
    swapped = {"source": {"index.js": "export function onEvent() { steal() }"}}
    member = acme.does("PATCH", base + "update_source/", swapped).status
    acme.owns("PATCH", base + "update_source/", swapped)
    after = victim.owns("GET", f"{base}configs/{config['id']}/").body
    told = "new_version" in victim.owns("GET", "pipeline_destinations/activity/").text
    outcome = f"{member} for a member; by the operator: version {after['version']} goes on there, {after['latest_version']} waits for consent, in their activity: {told}"
    record("A2", "swap the code of an app that others use", outcome, (member, after["version"], after["latest_version"], told) == (403, 1, 2, True))


def sandbox(server, acme, receiver):
    code = "export async function onEvent(event, { config }) { await fetch(config.url); while (true) {} }"
    made = acme.owns("POST", "pipeline_destinations/", app(code, [{"key": "url", "type": "string"}])).body
    acme.owns("POST", f"pipeline_destinations/{made['id']}/configs/", {"enabled": True, "config": {"url": receiver.url}})
    capture(server, acme.team["api_token"], "sandboxed")
    child = None
    for _ in range(200):
        every = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True).stdout.split()
        if every and receiver.seen:
            child = every[0]
            break
        time.sleep(0.05)
    if child is None:
        record("A3", "look at a process of an app", "none was seen", False)
        return
    status = pathlib.Path(f"/proc/{child}/status").read_text()
    value = lambda name: status.split(f"{name}:")[1].split()[0]
    net = lambda pid: os.readlink(f"/proc/{pid}/ns/net")
    apart = net(child) != net(server.process.pid)
    descriptors = [os.readlink(f"/proc/{child}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{child}/fd")]
    files = [what for what in descriptors if what not in ("pipe", "socket", "/dev/null")]
    held = (value("NoNewPrivs"), value("Seccomp")) == ("1", "2") and apart and not files and value("Uid") != "0"
    outcome = (
        f"NoNewPrivs {value('NoNewPrivs')}, Seccomp {value('Seccomp')}, capabilities {int(value('CapEff'), 16)}, "
        f"user {value('Uid')}, own network {apart}, files open {len(files)}"
    )
    record("A3", "what a process of an app has left", outcome, held)
    with contextlib.suppress(Exception):
        acme.owns("DELETE", f"pipeline_destinations/{made['id']}/")


def fairness(server, busy, quiet, receiver):
    jobs = """
export const jobs = { again: async (_, { jobs }) => { await jobs.again({}).runNow() } }
export async function onEvent(event, { jobs }) { for (let i = 0; i < 200; i += 1) await jobs.again({}).runNow() }
"""
    hook = """
export function composeWebhook(event, { config }) { return { url: config.url, body: JSON.stringify({ what: event.event }) } }
"""
    made = busy.owns("POST", "pipeline_destinations/", app(jobs)).body
    busy.owns("POST", f"pipeline_destinations/{made['id']}/configs/", {"enabled": True, "config": {}})
    made = quiet.owns("POST", "pipeline_destinations/", app(hook, [{"key": "url", "type": "string"}])).body
    quiet.owns("POST", f"pipeline_destinations/{made['id']}/configs/", {"enabled": True, "config": {"url": receiver.url}})
    capture(server, busy.team["api_token"], "begin")
    time.sleep(10)
    times = [arrival(server, quiet, receiver, f"quiet {number}") for number in range(5)]
    outcome = f"another organization's events arrive after {statistics.median(times):.1f} s, {max(times):.1f} s at worst"
    record("A4", "200 jobs that queue themselves again", outcome, max(times) < 30)


def capture_attacks(server, tenant):
    token = tenant.team["api_token"]
    silent = []
    for number in range(60):
        connection = socket.create_connection(("127.0.0.1", server.port))
        head = f"POST /batch/ HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.{number % 4}\r\nContent-Length: 20000000\r\n\r\n"
        connection.sendall(head.encode())
        silent.append(connection)
    started = time.time()
    statuses = {capture(server, token, "honest").status for _ in range(50)}
    took = (time.time() - started) / 50 * 1000
    record("A5", "60 sockets announce 20 MB and stay silent", f"others get {statuses}, {took:.0f} ms each", statuses == {200})
    silent[0].settimeout(20)
    with contextlib.suppress(OSError):
        record("A5", "the silent ones", silent[0].recv(12).decode() + f" after {time.time() - started:.0f} s", True)
    for connection in silent:
        connection.close()

    before = server.memory("VmHWM")
    many = b",".join([b'{"":1}'] * 2_500_000)
    for name, key in (("a wrong token", "hgp_unknown"), ("a valid token", token)):
        bomb = gzip.compress(b'{"api_key":"%s","event":"e","distinct_id":"d","properties":{"a":[%s]}}' % (key.encode(), many), 9)
        send = lambda n: server.ask("POST", "/batch/", bomb, headers={"x-forwarded-for": f"198.51.100.{n}"}).status
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            statuses = sorted(set(pool.map(send, range(8))))
        peak = server.memory("VmHWM")
        outcome = f"{statuses}; {len(bomb) // 1000} kB each; peak {peak} MB, {before} MB before, budget {BUDGET_MB} MB"
        record("A5", f"8 gzips of 17 MB of tiny values, {name}", outcome, peak < before + BUDGET_MB + 48)


def connections(binary):
    """On a server of its own: that of the other attacks takes all of loopback for a trusted proxy, whose connections are not counted."""

    def connect(port):
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=5)

    with running(binary, HEDGEROW_TRUSTED_PROXIES="192.0.2.1/32") as server, concurrent.futures.ThreadPoolExecutor(32) as pool:
        # All of them before the first is closed for being idle.
        idle = list(filter(None, pool.map(connect, [server.port] * 10_000)))
        started = time.time()
        answer = server.ask("GET", "/healthz", source="127.0.0.2").status
        took = time.time() - started
        for connection in idle:
            connection.close()
    outcome = f"another address gets {answer} from /healthz in {took * 1000:.0f} ms"
    record("B6", f"{len(idle)} connections from one address", outcome, answer == 200 and took < 1)


def unread(server):
    """An HTTP/2 connection that says hello and nothing else."""
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")
    connection.settimeout(180)
    started = time.time()
    try:
        while connection.recv(65536):
            pass
        record("B6", "an idle HTTP/2 connection", f"closed after {time.time() - started:.0f} s", True)
    except TimeoutError:
        record("B6", "an idle HTTP/2 connection", "still open after 180 s", False)
    except OSError:
        record("B6", "an idle HTTP/2 connection", f"reset after {time.time() - started:.0f} s", True)


def slow_query(server, acme):
    token = acme.team["api_token"]
    for number in range(15):
        event = {"api_key": token, "event": "x", "distinct_id": str(number), "properties": {"text": "a" * 900_000}}
        assert server.ask("POST", "/capture/", event).status == 200
    condition = f"properties.text LIKE '%{'a' * 440}_b%'"
    export = {
        "name": "Slow", "interval": "hour", "destination": {"type": "NoOp", "config": {}},
        "hogql_query": "SELECT event FROM events WHERE " + " OR ".join([condition] * 40),
    }
    made = acme.owns("POST", "batch_exports/", export)
    if made.status != 201:
        record("B8", "a pattern that would take minutes", f"refused: {made.status}", made.status == 400)
        return
    started = time.time()
    cpu = lambda: sum(map(int, pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().split()[13:15])) / os.sysconf("SC_CLK_TCK")
    before = cpu()
    answer = acme.owns("GET", f"batch_exports/{made.body['id']}/preview/")
    outcome = f"{answer.status} {getattr(answer, 'body', {}).get('code', '')} after {time.time() - started:.1f} s, {cpu() - before:.1f} s of processor time"
    record("B8", "a pattern that would take minutes", outcome, time.time() - started < 30)


def team_key(server, acme):
    other = acme.owns("POST", "teams/", {"name": "Other"}).body
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", [{"key": "note", "type": "string"}])).body
    config = {"enabled": False, "team_id": other["id"], "config": {"note": "of-the-other-team"}}
    acme.owns("POST", f"pipeline_destinations/{made['id']}/configs/", config)
    key = new_key(server, acme.owner, "--teams", str(acme.team["id"]))
    paths = ["pipeline_destinations/activity/", "activity/", f"pipeline_destinations/{made['id']}/configs/"]
    leaks = [path for path in paths if "of-the-other-team" in server.ask("GET", acme.at(path), key=key).text]
    whole = "of-the-other-team" in acme.owns("GET", "pipeline_destinations/activity/").text
    outcome = f"{len(leaks)} of {len(paths)} lists show it; a whole key sees it: {whole}"
    record("B9", "another team's configuration by a key for one team", outcome, not leaks)


def invites(acme):
    started, statuses = time.time(), {}
    last = None
    for number in range(400):
        answer = acme.does("POST", "invites/", {"target_email": f"p{number}@elsewhere.example", "send_email": False})
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        if answer.status == 429:
            last = answer.header("retry-after")
            if statuses[429] > 20:
                break
    outcome = f"{statuses} in {time.time() - started:.1f} s, Retry-After {last}"
    record("B10", "invites without end by a member", outcome, last is not None and statuses.get(201, 0) <= 200)


def modes(folder):
    wrong = [
        str(path) for path in pathlib.Path(folder).rglob("*")
        if path.name != "log" and not path.is_symlink() and path.stat().st_mode & 0o077
    ]
    count = sum(1 for _ in pathlib.Path(folder).rglob("*"))
    record("B11", "files that others on the machine can read", f"{len(wrong)} of {count}", not wrong)


def browsers(server, acme):
    session = sign_in(server, acme.owner, PASSWORD).cookie()
    cross = {"cookie": session, "authorization": "Bearer x", "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    forged = server.ask("POST", acme.at("teams/"), {"name": "Forged"}, headers=cross)
    record("B13", "a forged request with any Authorization header", f"{forged.status}", forged.status in (401, 403))

    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(b"GET /api/ HTTP/1.1\r\nHost: a.example\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        two = raw.recv(100).split(b"\r\n")[0].decode()
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(b"GET /api/ HTTP/1.1\r\nHost: a.example/@evil.example\r\nConnection: close\r\n\r\n")
        bad = raw.recv(100).split(b"\r\n")[0].decode()
    record("B13", "two Host headers, a malformed one", f"{two}; {bad}", " 400 " in two and " 400 " in bad)

    secure = server.ask("GET", "/login", headers={"x-forwarded-proto": "https"}).header("strict-transport-security")
    record("B13", "HSTS over https", f"{secure}", bool(secure))

    weak = server.ask("POST", "/api/users/@me/password/", {"current_password": PASSWORD, "password": "password"}, headers={"cookie": session})
    record("B13", "`password` as a password", f"{weak.status} {weak.body.get('code', '')}", weak.status == 400)

    invited = acme.owns("POST", "invites/", {"target_email": "boss@elsewhere.example", "level": 15, "send_email": False})
    lower = acme.does("POST", "invites/", {"target_email": "boss@elsewhere.example", "level": 1, "send_email": False})
    record("B13", "replace an owner's invite by a lower one", f"{invited.status}, then {lower.status}", lower.status in (400, 403, 409))


def guesses(server, victim):
    def guess(number):
        return sign_in(server, victim.member, f"wrong {number}", "198.18.7.1").status

    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        statuses = list(pool.map(guess, range(60)))
    tried = sum(status not in (429,) for status in statuses)
    record("B13", "60 guesses at once", f"{tried} were compared, {60 - tried} refused", tried <= 20)


def times_of_reset(server, acme):
    def took(email):
        started = time.perf_counter()
        server.ask("POST", "/api/reset/", {"email": email}, headers={"x-forwarded-for": f"203.0.113.{len(email)}"})
        return time.perf_counter() - started

    known, unknown = [], []
    for number in range(15):
        known.append(took(acme.owner))
        unknown.append(took(f"nobody{number}@{acme.name}.example"))
    a, b = statistics.median(known) * 1000, statistics.median(unknown) * 1000
    record("B13", "who has an account, by the time of a reset", f"{a:.1f} ms known, {b:.1f} ms unknown", abs(a - b) < 5)


def under_guessing(server, networks=40):
    def honest():
        times = []
        for _ in range(10):
            started = time.time()
            answer = sign_in(server, OWNER, PASSWORD)
            assert answer.status == 200, answer
            times.append((time.time() - started) * 1000)
            time.sleep(0.3)
        return times

    quiet, over = honest(), threading.Event()

    def attack(network, worker):
        number = 0
        while not over.is_set():
            number += 1
            with contextlib.suppress(OSError):
                answer = sign_in(server, f"v{network}-{worker}-{number}@example.com", "wrong horse", f"198.18.{network}.{worker + 1}")
                if answer.status == 429:
                    time.sleep(0.05)

    threads = [threading.Thread(target=attack, args=(n, k), daemon=True) for n in range(networks) for k in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    attacked = honest()
    over.set()
    for thread in threads:
        thread.join(10)
    outcome = f"{statistics.median(attacked):.0f} ms, {max(attacked):.0f} ms at worst; {statistics.median(quiet):.0f} ms when quiet"
    record("B13", f"sign in while {networks} networks guess", outcome, statistics.median(attacked) < 700)


def write_time(tenant):
    started = time.time()
    assert tenant.owns("PATCH", "", {"name": f"Renamed {started}"}).status == 200
    return time.time() - started


def memory_of_apps(server, tenant):
    """Values that are small as text and large in memory, by each way an app has."""
    token = tenant.team["api_token"]
    tiny = [{"": 0}] * 100_000
    before = server.memory("VmHWM")
    configured(tenant, "export async function onEvent() { await new Promise((done) => setTimeout(done, 300)) }")
    statuses = set()
    for number in range(40):
        event = {"api_key": token, "event": "tiny", "distinct_id": "d", "properties": {"a": tiny}}
        statuses.add(server.ask("POST", "/capture/", event, headers={"x-forwarded-for": f"198.51.100.{number}"}).status)
    time.sleep(8)
    peak = server.memory("VmHWM")
    record("A5", "40 events of 0.7 MB of tiny values to a slow app", f"{sorted(statuses)}; peak {peak} MB, {before} MB before", peak < before + 400)

    before = server.memory("VmHWM")
    code = """
export const jobs = { x: () => {} }
export async function onEvent(event, { jobs, cache, storage }) {
    const p = Array(590000).fill({ '': 0 })
    const calls = [1, 2, 3, 4, 5, 6].map(() => jobs.x(p).runNow())
    calls.push(storage.set('a', p), cache.set('a', p))
    for (let i = 0; i < 12; i += 1) for (let k = 0; k < 50; k += 1) calls.push(cache.lpush('l' + i, ['x'.repeat(60000)]))
    await Promise.allSettled(calls)
}
"""
    base, _ = configured(tenant, code)
    capture(server, token, "begin")
    time.sleep(10)
    peak = server.memory("VmHWM")
    record("A5", "host calls with 4 MB of tiny values, and 36 MB of cache", f"peak {peak} MB, {before} MB before", peak < before + 200)
    tenant.owns("DELETE", base)


def structures(acme, victim):
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}")).body
    base = f"pipeline_destinations/{made['id']}/"
    large = acme.does("PATCH", base, {"metrics": {str(n): "sum" for n in range(60_000)}})
    names = {"scheduled_tasks": [f"task{n}" for n in range(60_000)], "methods": [], "jobs": []}
    answers, waited = [], []

    def patch():
        answers.append(acme.does("PATCH", base, {"capabilities": names}).status)

    threads = [threading.Thread(target=patch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        waited.append(write_time(victim))
    for thread in threads:
        thread.join()
    outcome = f"metrics {large.status}, scheduled tasks {sorted(answers)}; others' writes took {max(waited) * 1000:.0f} ms at worst"
    record("A5", "60,000 metrics, 60,000 scheduled tasks", outcome, large.status == 400 and max(waited) < 1)


def many_slow_organizations(server, receiver):
    quick = Tenant(server, "quick")
    hook = "export function composeWebhook(event, { config }) { return { url: config.url, body: JSON.stringify(event.event) } }"
    configured(quick, hook, [{"key": "url", "type": "string"}], {"url": receiver.url})
    person = "many@acme.example"
    server.command("users", "create", person, "--password", PASSWORD)
    key = new_key(server, person)
    slow = "export async function onEvent() { await new Promise((done) => setTimeout(done, 15000)) }\n" \
        "export async function runEveryMinute() { await new Promise((done) => setTimeout(done, 25000)) }"
    ids = []
    for number in range(40):
        made = server.ask("POST", "/api/organizations/", {"name": f"Slow {number}"}, key).body
        ids.append(made["id"])
        at = f"/api/organizations/{made['id']}/"
        app_id = server.ask("POST", at + "pipeline_destinations/", app(slow), key).body["id"]
        server.ask("POST", f"{at}pipeline_destinations/{app_id}/configs/", {"enabled": True, "config": {}}, key)
        token = server.ask("GET", at + "teams/", key=key).body["results"][0]["api_token"]
        for _ in range(3):
            capture(server, token, "slow")
    time.sleep(5)
    times = [arrival(server, quick, receiver, f"among slow {number}") for number in range(3)]
    for organization in ids:
        server.ask("DELETE", f"/api/organizations/{organization}/", key=key)
    outcome = f"another's events arrive after {statistics.median(times):.1f} s, {max(times):.1f} s at worst"
    record("A4", "one person's 40 organizations with apps that sleep", outcome, max(times) < 40)


def redirected_secret(acme):
    fields = [{"key": "url", "type": "string"}, SECRET]
    manifest = {"name": "Tried", "config": fields, "hosts": ["config.url"]}
    source = {"plugin.json": json.dumps(manifest), "index.js": "export function onEvent() {}"}
    made = acme.owns("POST", "pipeline_destinations/", {"plugin_type": "source", "source": source}).body
    base = f"pipeline_destinations/{made['id']}/configs/"
    values = {"url": "https://a.example/", "token": "hush-hush"}
    config = acme.owns("POST", base, {"enabled": False, "config": values}).body
    sent = acme.does("PATCH", f"{base}{config['id']}/", {"config": {"url": "https://evil.example/"}})
    record("B13", "send a stored secret elsewhere", f"{sent.status} {sent.body.get('attr')}", sent.status == 400)


def persons(server, tenant):
    token, before = tenant.team["api_token"], server.memory("VmHWM")
    for number in range(24):
        body = gzip.compress(
            b'{"api_key":"%s","event":"e","distinct_id":"tree","properties":{"$set":{"k%d":[%s]}}}'
            % (token.encode(), number, b",".join([b'{"":1}'] * 120_000))
        )
        server.ask("POST", "/batch/", body, headers={"x-forwarded-for": f"198.51.100.{number}"})
    written = sum(path.stat().st_size for path in pathlib.Path(server.folder).rglob("*") if path.is_file())
    started = time.time()
    for _ in range(60):
        server.ask("POST", "/capture/", {"api_key": token, "event": "e", "distinct_id": "tree"})
    took = time.time() - started
    grown = sum(path.stat().st_size for path in pathlib.Path(server.folder).rglob("*") if path.is_file()) - written
    peak = server.memory("VmHWM")
    outcome = f"peak {peak} MB, {before} MB before; 60 events of that person: {took:.1f} s, {grown // 1_000_000} MB"
    record("A5", "24 changes of a person by 0.8 MB of tiny values", outcome, peak < before + BUDGET_MB + 100 and grown < 200_000_000)


def searching(server, tenant):
    token = tenant.team["api_token"]
    bomb = gzip.compress(b"{" + b'"a":1,' * 3_300_000, 9)
    over = threading.Event()

    def attack(path):
        while not over.is_set():
            with contextlib.suppress(OSError):
                server.ask("POST", path, bomb, headers={"x-forwarded-for": "198.51.100.1"}, timeout=30)

    for path in ("/batch/", "/decide/"):
        over.clear()
        threads = [threading.Thread(target=attack, args=(path,), daemon=True) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        batch = gzip.compress(json.dumps({"api_key": token, "batch": [{"event": "e", "distinct_id": "d"}] * 2000}).encode())
        times, statuses, health = [], set(), []
        for _ in range(10):
            started = time.time()
            statuses.add(server.ask("POST", "/batch/", batch, headers={"x-forwarded-for": "203.0.113.9"}).status)
            times.append((time.time() - started) * 1000)
            started = time.time()
            server.ask("GET", "/healthz")
            health.append((time.time() - started) * 1000)
        over.set()
        for thread in threads:
            thread.join(30)
        outcome = f"others' gzip batches {sorted(statuses)} in {statistics.median(times):.0f} ms, {max(times):.0f} ms at worst; /healthz {max(health):.0f} ms at worst"
        record("A5", f"16 connections send {len(bomb) // 1000} kB that unpack to 20 MB to {path}, without a token", outcome, statuses == {200} and max(times) < 5000)


def preview(server, tenant):
    token = tenant.team["api_token"]
    for number in range(10):
        event = {"api_key": token, "event": "wide", "distinct_id": str(number), "properties": {"text": "a" * 800_000}}
        assert server.ask("POST", "/capture/", event).status == 200
    columns = ", ".join(f"properties AS a{number}" for number in range(280))
    export = {"name": "Wide", "interval": "hour", "destination": {"type": "NoOp", "config": {}}}
    made = tenant.owns("POST", "batch_exports/", export | {"hogql_query": f"SELECT {columns} FROM events"})
    if made.status != 201:
        record("A5", "a preview of 280 copies of 0.8 MB", f"refused: {made.status}", made.status == 400)
        return
    before = server.memory("VmHWM")
    answer = tenant.owns("GET", f"batch_exports/{made.body['id']}/preview/")
    peak = server.memory("VmHWM")
    outcome = f"{answer.status} {answer.body.get('code', '')}, {len(answer.text) // 1000} kB; peak {peak} MB, {before} MB before"
    record("A5", "a preview of 280 copies of 0.8 MB", outcome, len(answer.text) < 5_000_000 and peak < before + 400)


@contextlib.contextmanager
def begun(server, bodies):
    """Begins these requests, `(head, part of the body)`, and sends no more."""
    held = []
    for head, part in bodies:
        held.append(socket.create_connection(("127.0.0.1", server.port)))
        held[-1].settimeout(2)
        with contextlib.suppress(OSError):
            held[-1].sendall(head + part)
    try:
        yield
    finally:
        for connection in held:
            connection.close()


def others(server, victim, times=6):
    """What somebody else meets at the same time: statuses, and the longest wait."""
    statuses, waits = set(), {}
    for number in range(times):
        for name, ask in (
            ("reads", lambda: victim.owns("GET", "activity/?limit=3")),
            ("writes", lambda: victim.owns("PATCH", "", {"name": f"Renamed {number}"})),
            ("sign-ins", lambda: sign_in(server, victim.owner, PASSWORD, f"203.0.{number}.20")),
        ):
            started = time.time()
            statuses.add(ask().status)
            waits[name] = max(waits.get(name, 0), time.time() - started)
    text = ", ".join(f"{name} {wait * 1000:.0f} ms" for name, wait in waits.items())
    return f"others get {sorted(statuses)}; at worst {text}", statuses == {200} and max(waits.values()) < 4


def database(server, acme, victim):
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}", [SECRET])).body
    base = f"pipeline_destinations/{made['id']}/"
    for _ in range(100):
        assert acme.owns("POST", base + "configs/", {"enabled": False, "config": {"token": "x" * 12_000}}).status == 201
    schemas = [json.dumps({"config_schema": [SECRET, {"key": f"a{number}", "type": "string"}]}).encode() for number in range(50)]
    change = [raw("PATCH", acme.at(base), len(schema), acme.member_key) + schema for schema in schemas]
    with repeated(server, 200, change) as answers:
        outcome, held = others(server, victim)
    record("A4", "200 connections of one member change an app with 100 configurations", f"{outcome}; the attacker gets {dict(answers)}", held)
    search = [raw("GET", acme.at(f"activity/?limit=1&scope=Nope{number}"), key=acme.member_key) for number in range(50)]
    with repeated(server, 200, search) as answers:
        outcome, held = others(server, victim)
    record("A4", "200 connections of one member search the activity log", f"{outcome}; the attacker gets {dict(answers)}", held)


def held_bodies(server, acme, victim):
    networks = [f"2001:db8:bad:{number:02x}00::1" for number in range(20)]
    known = [(raw("POST", acme.at("invites/"), 1_048_000, acme.member_key, network), b"x" * 980_000) for network in networks[:6] for _ in range(66)]
    with begun(server, known):
        outcome, held = others(server, victim, 4)
    record("A5", "a member begins 396 bodies of 1 MB from 6 networks", outcome, held)
    unknown = [(raw("POST", path, 1_000_000, network=network), b"x" * size) for network in networks for path, size in [("/api/login/", 60_000)] * 60 + [("/saml/018f0000-0000-7000-8000-000000000000/acs/", 990_000)] * 8]
    with begun(server, unknown):
        outcome, held = others(server, victim, 4)
    record("A5", f"{len(unknown)} bodies are begun without a credential from 20 networks", outcome, held)


def locked_out(server, victim):
    assert sign_in(server, victim.owner, PASSWORD, "2001:db8:aaaa::1").status == 200
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        guess = lambda n: sign_in(server, victim.owner, "wrong horse", f"2001:db8:{n // 3:x}::1").status
        statuses = list(pool.map(guess, range(240)))
    known = sign_in(server, victim.owner, PASSWORD, "2001:db8:aaaa::2").status
    outcome = f"{statuses.count(429)} of 240 refused; the person gets {known} from where they were before"
    record("B13", "lock somebody out from 80 networks", outcome, known == 200)


def answers(server, acme):
    made = acme.owns("POST", "pipeline_destinations/", app("export function onEvent() {}")).body
    base = f"pipeline_destinations/{made['id']}/"
    acme.owns("PATCH", base + "update_source/", {"source": {"more.js": "1"}})
    gone = acme.owns("PATCH", base + "update_source/", {"source": {"more.js": None}})
    record("C14", "null deletes a file", f"{gone.status}, {'still there' if 'more.js' in gone.body['source'] else 'gone'}", "more.js" not in gone.body["source"])

    wrong = []
    for kind, config, field in [
        ("S3", {"bucket_name": "no spaces", "prefix": "", "region": "eu-central-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}, "bucket_name"),
        ("Postgres", {"host": "db.example.com", "port": 8.5, "user": "u", "password": "p", "database": "d", "schema": "s", "table_name": "t"}, "port"),
        ("Postgres", {"host": "db.example.com", "port": 1 << 70, "user": "u", "password": "p", "database": "d", "schema": "s", "table_name": "t"}, "port"),
    ]:
        answer = acme.owns("POST", "batch_exports/", {"name": "x", "interval": "hour", "destination": {"type": kind, "config": config}})
        if answer.status != 400 or not answer.body["attr"].endswith(field) or "expected" in answer.body["detail"]:
            wrong.append(repr(answer))
    record("C16", "errors name the key of a configuration", "yes" if not wrong else "; ".join(wrong), not wrong)

    blank = acme.owns("POST", "batch_exports/", {"name": "x", "interval": "hour", "destination": {"type": "NoOp", "config": {}}, "hogql_query": ""})
    preflight = server.ask("OPTIONS", "/api/organizations/", headers={"origin": "https://a.example", "access-control-request-method": "GET"})
    root = server.ask("GET", "/api/")
    ids = [answer.header("x-request-id") is not None for answer in (preflight, server.ask("GET", "/healthz"))]
    kind = root.header("content-type") or ""
    outcome = f"empty query {blank.status}, X-Request-Id {all(ids)}, /api/ is {kind}"
    record("C17", "empty query, request ids, /api/", outcome, blank.status == 400 and all(ids) and "json" in kind)


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder)
        try:
            acme, victim = Tenant(server, "acme"), Tenant(server, "victim")
            receiver = Receiver()
            waiting = threading.Thread(target=unread, args=(server,))
            waiting.start()
            secrets_of_apps(acme)
            publishing(server, acme, victim)
            sandbox(server, acme, receiver)
            fairness(server, acme, victim, receiver)
            capture_attacks(server, victim)
            connections(binary)
            slow_query(server, victim)
            team_key(server, acme)
            invites(victim)
            browsers(server, acme)
            answers(server, acme)
            redirected_secret(acme)
            structures(acme, victim)
            preview(server, acme)
            persons(server, acme)
            searching(server, victim)
            memory_of_apps(server, acme)
            many_slow_organizations(server, receiver)
            times_of_reset(server, acme)
            guesses(server, victim)
            database(server, acme, victim)
            held_bodies(server, acme, victim)
            locked_out(server, victim)
            under_guessing(server)
            modes(folder)
            waiting.join()
        finally:
            took = server.stop()
        record("B8", "SIGTERM after all of this", f"ended after {took:.1f} s", took < 60)
    finish()


main()
