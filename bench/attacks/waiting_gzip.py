"""Gzip of 4 kB that becomes 3.5 MB of `0,0,0…` and then waits for the 122 MB that parsing it takes. While it waited it had the 3.5 MB, and so counted as
somebody with much, of whom all get the same part: with 16 such subnets bodies of others above 1 MB got 503 after 10 s, most of the memory being
free. Only a token, which is public. Batches of 1.2 MB from elsewhere, with the same token and with another one, must all be taken, and at once. The same
holds if gzip does not say how much it becomes: with an empty member behind it, or in base64. Without --way, one of them after the other."""

import base64
import collections
import gzip
import http.client
import json
import threading
import time

from common import Honest, Org, arguments, bench, stage


def batch():
    """Of the usual kind."""
    properties = {f"property_{n}": f"value {n}" for n in range(20)} | {"$current_url": "https://example.com/a", "n": 1}
    event = json.dumps({"event": "$pageview", "distinct_id": "visitor", "properties": properties})
    return b'{"batch":[' + b",".join([event.encode()] * (1_200_000 // len(event))) + b"]}"


def waiting(megabytes):
    text = b'{"event":"e","distinct_id":"d","properties":{"a":[' + b"0," * int(megabytes * 500_000) + b"0]}}"
    return gzip.compress(text, 9)


WAYS = {
    "gzip": lambda packed: packed,
    "gzip with an empty member behind it": lambda packed: packed + gzip.compress(b""),
    "gzip in base64": base64.b64encode,
}


def post(server, token, body, network, **headers):
    headers = {"x-forwarded-for": network, "content-type": "application/json"} | headers
    return server.ask("POST", f"/batch/?token={token}", body, headers=headers, timeout=40)


def attack(server, token, body, network, over, answers):
    while time.time() < over:
        try:
            answers[post(server, token, body, network).status] += 1
        except (OSError, http.client.HTTPException) as error:
            answers[type(error).__name__] += 1
        time.sleep(0.02)


def attempt(given, way, packed):
    # The sizes are those of a server with nothing set.
    with stage(given, 1, HEDGEROW_CAPTURE_MEMORY="768") as (server, keys, victim):
        other, usual = Org(server, keys[0], "Other"), batch()
        batches = {
            "batches with the same token": lambda: post(server, victim.token, usual, "198.51.100.1"),
            "batches with another token": lambda: post(server, other.token, usual, "198.51.101.1"),
            "events with the same token": lambda: victim.send(1, "127.0.98.1"),
        }
        with Honest(victim, **batches) as quiet:
            time.sleep(4)
        quiet.say("before")
        answers, over = collections.Counter(), time.time() + given.seconds
        with Honest(victim, **batches) as others:
            threads = [
                threading.Thread(target=attack, args=(server, victim.token, packed, f"203.1.{number % given.subnets}.5", over, answers))
                for number in range(given.subnets * given.connections)
            ]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        others.say(f"while {given.subnets} subnets send {len(packed) / 1000:.1f} kB that become {given.megabytes} MB, and wait: {dict(answers)}")
        for kind in batches:
            held = others.was_served(kind, 2, 8)
            bench.record("18.2", f"{way} that waits, from {given.subnets} subnets: others' {kind}", others.short(kind), held)


def main():
    given = arguments(__doc__, subnets=16, connections=4, megabytes=3.5, way="")
    assert given.subnets * given.connections <= 256
    for way, pack in WAYS.items():
        if given.way in ("", way):
            attempt(given, way, pack(waiting(given.megabytes)))
    bench.finish()


main()
