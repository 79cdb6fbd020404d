"""Code that becomes many times as long when it is compiled: JSX of 3.5 MB becomes some 40 MB of code and source map. The limit of 8 MB on compiled code was
looked at only after the server has read the line (64 MB at most), built a Reading of it, a serde_json::Value of that and its text. Six people in
three organizations change one line of index.js again and again; each time it is refused, as it was then."""

import threading
import time

from common import Honest, Org, arguments, stage


def main():
    given = arguments(__doc__, people=6, megabytes=3.5)
    with stage(given, given.people) as (server, keys, victim):
        apps = []
        for number, key in enumerate(keys):
            org = Org(server, key, f"Compiled {number}")
            app = org.app({"plugin.json": '{"name": "Compiled"}', "index.js": "module.exports = {}"})
            files = int(given.megabytes * 1e6 / 125_000)
            names = [f"f{n}.jsx" for n in range(files)]
            for first in range(0, files, 7):
                # Files that nothing imports are kept and not looked at.
                some = {name: "<a/>;" * 25_000 for name in names[first:first + 7]}
                kept = org.ask("PATCH", app + "update_source/", {"source": some})
                assert kept.status == 200, kept
            apps.append((org, app, names))
        with Honest(victim) as quiet:
            time.sleep(4)
        quiet.say("before")
        over, answers = time.time() + given.seconds, []

        def change(number, org, app, names):
            turn = 0
            while time.time() < over:
                turn += 1
                imports = " ".join('require("./' + name + '");' for name in names)
                code = f"// {number} {turn}\nif (0) {{ {imports} }}\nmodule.exports = {{}}"
                try:
                    refused = org.ask("PATCH", app + "update_source/", {"source": {"index.js": code}}, source=f"127.0.{number + 1}.1")
                    answers.append((refused.status, refused.text[:160]))
                except OSError as error:
                    answers.append((type(error).__name__, ""))

        with Honest(victim) as others:
            threads = [threading.Thread(target=change, args=(number, *one)) for number, one in enumerate(apps)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        others.say(f"while {len(apps)} people compile {given.megabytes} MB of JSX: {len(answers)} answers, such as {answers[:1]}")


main()
