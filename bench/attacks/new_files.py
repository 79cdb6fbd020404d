"""The code of apps in memory: whoever started a new file in the console had one of eight places, and kept it while they waited for their own change over the
API, which takes as long as reading the code does. 24 people with an organization and an app each do both all the time, the latter with code that never
ends. Nobody else could see the code of an app: 503 after 10 s. It must be there at once, over the API and in the console. Only with --binary, as
people sign in here."""

import collections
import http.client
import threading
import time
import urllib.parse

from common import Honest, Org, arguments, bench, stage


def signed_in(server, email, network):
    answer = bench.sign_in(server, email, bench.PASSWORD, network)
    assert answer.status == 200, answer
    return {"cookie": answer.cookie(), "x-forwarded-for": network, "sec-fetch-site": "same-origin"}


def page(org, app):
    """Of an app's code."""
    return f"/organizations/{org.id}/apps/destinations/{app.split('/')[1]}/source/"


class Person:
    def __init__(self, server, key, number, forms):
        self.server, self.network, self.forms = server, f"203.1.{number}.1", forms
        self.org = Org(server, key, f"New files {number}")
        self.app = self.org.app({"plugin.json": '{"name": "New files"}', "index.js": "module.exports = {}"})
        self.session = signed_in(server, f"attacker{number}@creators.example", self.network)

    def change(self, _):
        body = {"source": {"index.js": f"// {time.time()}\nfor (;;);"}}
        return self.server.ask("PATCH", self.org.path(self.app + "update_source/"), body, self.org.key, {"x-forwarded-for": self.network})

    def start_file(self, turn):
        body = urllib.parse.urlencode({"file": f"new{turn % 50}.js", "text": f"// {time.time()}"}).encode()
        headers = self.session | {"content-type": "application/x-www-form-urlencoded"}
        return self.server.ask("POST", page(self.org, self.app) + "new/", body, headers=headers)

    def loops(self):
        return [("changes", self.change)] + [("new files", self.start_file)] * self.forms


def repeat(what, do, over, answers):
    turn = 0
    while time.time() < over:
        turn += 1
        try:
            answers[f"{what} {do(turn).status}"] += 1
        except (OSError, http.client.HTTPException) as error:
            answers[f"{what} {type(error).__name__}"] += 1
        time.sleep(0.05)


def main():
    given = arguments(__doc__, people=24, forms=4)
    assert given.binary and given.people <= 40 and given.forms <= 8
    with stage(given, given.people) as (server, keys, victim):
        app = victim.app({"plugin.json": '{"name": "Others"}', "index.js": "module.exports = {}"})
        session = signed_in(server, "owner@honest.example", "203.0.99.1")
        code = {
            "code": lambda: victim.ask("GET", app + "source/", source="127.0.99.1"),
            "console": lambda: server.ask("GET", page(victim, app), headers=session),
        }
        people = [Person(server, key, number, given.forms) for number, key in enumerate(keys)]
        with Honest(victim, **code) as quiet:
            time.sleep(4)
        quiet.say("before")
        answers, over = collections.Counter(), time.time() + given.seconds
        with Honest(victim, **code) as others:
            threads = [threading.Thread(target=repeat, args=(*loop, over, answers)) for person in people for loop in person.loops()]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        others.say(f"while {len(people)} people start files and change code: {dict(answers)}")
        for kind in code:
            bench.record("18.1", f"24 people start files and change code: others' {kind}", others.short(kind), others.was_served(kind, 1, 5))
    bench.finish()


main()
