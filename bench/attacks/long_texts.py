"""Events with long texts that wait to be stored: 530 kB of properties, written into a text that doubles when it is full, take 1 MB and counted as the half of
it, so that they had twice the memory that there is for events. Merges that change nothing keep the writer busy (see capture_memory.py), from the same 16 subnets
that send such texts, packed to some kB each, with four tokens. The server must not grow by more than HEDGEROW_CAPTURE_MEMORY and what it keeps beside it, 128 MB.
Only with --binary."""

import collections
import contextlib
import json
import gzip
import threading
import time
import urllib.parse

import capture_memory as slow
from common import Org, arguments, bench

SUBNETS = 16


def texts(count):
    """Just longer than 512 kB each, which is what a text has room for before it doubles for the last time."""
    properties = {f"p{number}": "x" * 4_000 for number in range(132)}
    event = json.dumps({"event": "e", "distinct_id": "d", "properties": properties}, separators=(",", ":"))
    return gzip.compress(b'{"batch":[' + b",".join([event.encode()] * count) + b"]}")


def repeat(base, token, body, source, over, answers):
    while time.time() < over:
        with contextlib.suppress(OSError):
            answers[slow.request(base, f"/batch/?token={token}", body, source, 40, slow.GZIP)] += 1
        time.sleep(0.05)


def run(server, orgs, given):
    base, answers, peak = urllib.parse.urlsplit(f"http://127.0.0.1:{server.port}"), collections.Counter(), 0
    long, merges = texts(given.events), slow.merges(given.merges)
    for org in orgs:
        slow.prepare(base, org.token)
        # What the server has anyway once it has seen such texts is no news.
        assert slow.request(base, f"/batch/?token={org.token}", long, "127.0.99.1", 40, slow.GZIP) == 200
    before, over, threads = server.memory(), time.time() + given.seconds, []
    for number in range(SUBNETS):
        token, subnet = orgs[number % len(orgs)].token, f"127.1.{number}"
        bodies = [(merges, f"{subnet}.1")] + [(long, f"{subnet}.{n + 2}") for n in range(given.connections)]
        threads += [threading.Thread(target=repeat, args=(base, token, *one, over, answers), daemon=True) for one in bodies]
    [thread.start() for thread in threads]
    while time.time() < over:
        peak = max(peak, server.memory())
        time.sleep(0.1)
    [thread.join(60) for thread in threads]
    print(f"{len(threads)} connections, bodies of {len(long)} bytes: {dict(answers)} (0: no answer within 40 s); {server.memory()} MB afterwards", flush=True)
    return before, peak


def main():
    given = arguments(__doc__, memory=512, events=8, merges=4000, connections=12)
    assert given.binary and given.connections <= 12
    slow.pairs, slow.padding = 1, "id"
    # Whoever sends is taken for who they are, so that each address is one.
    settings = {"HEDGEROW_CAPTURE_MEMORY": str(given.memory), "HEDGEROW_TRUSTED_PROXIES": "10.255.255.0/24"}
    with bench.running(given.binary, **settings) as server:
        key = bench.OrganizationCreator(server, "attacker").key
        orgs = [Org(server, key, f"Long texts {number}") for number in range(4)]
        before, peak = run(server, orgs, given)
        highest = server.memory("VmHWM")
        outcome = f"{before} MB before, {peak} MB at most while they waited, {highest} MB at all; {given.memory} MB are for events"
        held = highest < before + given.memory + 128
        bench.record("18.5", f"events of 530 kB wait to be stored, from {SUBNETS} subnets", outcome, held)
    bench.finish()


main()
