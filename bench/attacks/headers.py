"""Requests of apps with 24,000 headers: 270 kB of JSON, counted as 540 kB, were three HeaderMaps of some 3 MB each while the receiver says nothing (10 s). Six
organizations of one person, an app each, 32 requests at a time. The receiver is on loopback, takes connections, and answers nothing."""

import contextlib
import resource
import socket
import threading
import time

from common import Honest, Org, arguments, stage

CODE = """
async function onEvent(event) {
    const headers = {}
    for (let i = 0; i < COUNT; i += 1) headers['a' + i.toString(36)] = ''
    await Promise.all(Array.from({ length: 32 }, () => fetch('http://127.0.0.1:PORT/', { headers }).catch(() => 0)))
}
module.exports = { onEvent }
"""


def main():
    given = arguments(__doc__, organizations=6, headers=24_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with stage(given, 1) as (server, keys, victim), socket.create_server(("127.0.0.1", 0), backlog=512) as silent:
        kept, seen = [], [0]

        def take():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = silent.accept()
                    seen[0] += 1
                    connection.settimeout(12)
                    kept.append(connection)
                    if len(kept) > 2000:
                        kept.pop(0).close()

        threading.Thread(target=take, daemon=True).start()
        code = CODE.replace("COUNT", str(given.headers)).replace("PORT", str(silent.getsockname()[1]))
        apps = []
        for number in range(given.organizations):
            org = Org(server, keys[0], f"Headers {number}")
            app = org.app({"plugin.json": '{"name": "Headers", "hosts": ["127.0.0.1"]}', "index.js": code})
            org.enable(app)
            apps.append((org, app))
        with Honest(victim) as quiet:
            time.sleep(4)
        quiet.say("before")
        with Honest(victim) as others:
            for org, _ in apps:
                org.send(40)
            time.sleep(given.seconds)
        others.say(f"while {len(apps)} apps send requests with {given.headers} headers; {seen[0]} connections arrived")
        for org, app in apps:
            org.ask("DELETE", app)


main()
