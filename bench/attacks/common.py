"""What the scripts of this folder share: a server that is there (--base, --pid, --attacker KEY..., --victim KEY), or one that is started for the
occasion (--binary PATH); somebody honest who reads and writes at a steady pace; the server's memory. Loopback only. Standard library only."""

import argparse
import collections
import contextlib
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import attack_common as bench


class Remote:
    """A server that somebody else has started."""

    def __init__(self, base, pid):
        url = urllib.parse.urlsplit(base)
        self.host, self.port, self.pid = url.hostname, url.port, pid
        assert self.host.startswith("127."), "loopback only"

    def ask(self, method, path, body=None, key=None, headers=None, timeout=60, source="127.0.0.1"):
        return bench.Server.ask(self, method, path, body, key, headers, timeout, source)

    def memory(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024


class Org:
    """The first organization of whoever has the key; another one is created if `name` is given."""

    def __init__(self, server, key, name=None):
        self.server, self.key = server, key
        if name:
            made = server.ask("POST", "/api/organizations/", {"name": name}, key)
            assert made.status == 201, made
            self.id = made.body["id"]
        else:
            self.id = server.ask("GET", "/api/organizations/", key=key).body["results"][0]["id"]
        self.token = self.ask("GET", "teams/").body["results"][0]["api_token"]

    def path(self, rest):
        return f"/api/organizations/{self.id}/{rest}"

    def ask(self, method, rest, body=None, source="127.0.0.1", timeout=60):
        network = "203." + source.split(".", 1)[1]
        return self.server.ask(method, self.path(rest), body, self.key, {"x-forwarded-for": network}, timeout, source)

    def app(self, files):
        made = self.ask("POST", "pipeline_destinations/", {"plugin_type": "source", "source": files})
        assert made.status == 201, made
        return f"pipeline_destinations/{made.body['id']}/"

    def enable(self, app):
        made = self.ask("POST", app + "configs/", {"enabled": True, "config": {}})
        assert made.status == 201, made
        return made.body["id"]

    def send(self, count, source="127.0.0.1"):
        batch = [{"event": f"e{n}", "distinct_id": "d", "properties": {}} for n in range(count)]
        body = {"api_key": self.token, "batch": batch}
        return self.server.ask("POST", "/batch/", body, headers={"x-forwarded-for": "203." + source.split(".", 1)[1]}, source=source)


class Honest:
    """Reads, writes and asks /healthz four times a second each, whether or not the last answers have come. Does what else is given once a
    second."""

    def __init__(self, org, **also):
        self.org, self.also, self.times, self.refused = org, also, collections.defaultdict(list), collections.Counter()
        self.over, self.peak, self.threads = threading.Event(), 0, []

    def __enter__(self):
        self.before = self.org.server.memory()
        self.main = threading.Thread(target=self.go, daemon=True)
        self.main.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.main.join()
        for thread in self.threads:
            thread.join(40)

    def go(self):
        number = 0
        while not self.over.wait(0.25):
            number += 1
            with contextlib.suppress(OSError, IndexError):
                self.peak = max(self.peak, self.org.server.memory())
            for kind in ("reads", "writes", "healthz", *(self.also if number % 4 == 1 else ())):
                thread = threading.Thread(target=self.ask, args=(kind, number), daemon=True)
                thread.start()
                self.threads.append(thread)

    def ask(self, kind, number):
        began, org = time.time(), self.org
        try:
            status = {
                "reads": lambda: org.ask("GET", "activity/?limit=3", source="127.0.99.1"),
                "writes": lambda: org.ask("PATCH", "", {"name": f"Renamed {number}"}, source="127.0.99.1"),
                "healthz": lambda: org.server.ask("GET", "/healthz", headers={"x-forwarded-for": "203.0.99.1"}, source="127.0.99.1"),
            }.get(kind, self.also.get(kind))().status
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
        self.times[kind].append(time.time() - began)
        if status != 200:
            self.refused[f"{kind} {status}"] += 1

    def was_served(self, kind, median, worst):
        """All of a kind that was given, within so many seconds."""
        times = self.times[kind]
        refused = any(one.startswith(kind + " ") for one in self.refused)
        return bool(times) and not refused and statistics.median(times) < median and max(times) < worst

    def short(self, kind):
        times, refused = self.times[kind] or [0.0], {one: count for one, count in self.refused.items() if one.startswith(kind + " ")}
        return f"median {statistics.median(times):.3f} s, worst {max(times):.3f} s, {len(times)} asked, refused {refused or 'none'}"

    def say(self, what):
        print(what)
        for kind, times in sorted(self.times.items()):
            print(f"  others' {kind}: median {statistics.median(times):.3f} s, worst {max(times):.3f} s, {len(times)} asked")
        print(f"  refused: {dict(self.refused)}; memory {self.before} MB before, {self.peak} MB at most", flush=True)


def arguments(text, **more):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--binary", help="start this server, with people and organizations made by its commands")
    parser.add_argument("--base", help="http://127.0.0.1:PORT of a server that runs already")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--attacker", action="append", default=[], help="a key of an attacker; several times for several people")
    parser.add_argument("--attackers", help="a file with such keys, one in each line")
    parser.add_argument("--victim", help="a key of an owner of the honest organization")
    parser.add_argument("--seconds", type=float, default=25)
    for name, default in more.items():
        parser.add_argument("--" + name, type=type(default), default=default)
    given = parser.parse_args()
    given.seconds = min(given.seconds, 30)
    return given


@contextlib.contextmanager
def stage(given, people, **settings):
    """The server, keys of so many attackers, and the honest organization. The settings are of a server that is started."""
    if not given.binary:
        server = Remote(given.base, given.pid)
        keys = given.attacker + (pathlib.Path(given.attackers).read_text().split() if given.attackers else [])
        yield server, keys[:people], Org(server, given.victim)
        return
    with bench.running(given.binary, **settings) as server:
        victim = bench.Tenant(server, "honest")
        keys = []
        for number in range(people):
            keys.append(bench.OrganizationCreator(server, f"attacker{number}").key)
        yield server, keys, Org(server, victim.owner_key)
