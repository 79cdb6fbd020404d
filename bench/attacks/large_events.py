"""Events of 7 MB for 24 apps that all ask for theirs at the same moment: they were in memory before any was reserved, each several times (635 MB in a simulation with 8 MB). One
person, six organizations with four apps each. Between the large events, small ones keep the apps in step. Only with --binary."""

import json
import time

from common import Honest, Org, arguments, bench

CODE = """
async function onEvent(event) {
    if (event.event === 'step') await new Promise((done) => setTimeout(done, 900 - Date.now() % 900))
}
module.exports = { onEvent }
"""


def send(org, rounds, megabytes):
    """One request for each large event: it is all that a request can have."""
    large = {"event": "$ai_generation", "distinct_id": "d", "properties": {"text": "x" * (megabytes << 20)}}
    for number in range(rounds):
        for event in [{"event": "step", "distinct_id": "d", "properties": {}}, large]:
            body = json.dumps({"api_key": org.token, "batch": [event]}).encode()
            headers = {"content-type": "application/json", "x-forwarded-for": f"203.0.{number}.1"}
            answer = org.server.ask("POST", "/batch/", body, headers=headers)
            assert answer.status == 200, answer


def main():
    given = arguments(__doc__, organizations=6, apps=4, rounds=12, megabytes=7)
    with bench.running(given.binary, HEDGEROW_CAPTURE_MEMORY="768") as server:
        honest = bench.Tenant(server, "honest")
        key = bench.OrganizationCreator(server, "attacker").key
        orgs = [Org(server, key, f"Large events {number}") for number in range(given.organizations)]
        for org in orgs:
            send(org, given.rounds, given.megabytes)
        # What was stored is no news, nor is what the first large event takes.
        time.sleep(3)
        with Honest(Org(server, honest.owner_key)) as others:
            for org in orgs:
                for _ in range(given.apps):
                    org.enable(org.app({"plugin.json": '{"name": "Large"}', "index.js": CODE}))
                org.send(1)
                send(org, given.rounds, given.megabytes)
            time.sleep(given.seconds)
        others.say(f"{given.organizations * given.apps} apps get events of {given.megabytes} MB")
        grown = others.peak - others.before
        held = grown < 300 and others.was_served("reads", 1, 5) and others.was_served("writes", 1, 5)
        outcome = f"memory grew by {grown} MB; reads of others: {others.short('reads')}; writes: {others.short('writes')}"
        bench.record("37.1", "large events for apps that ask for them at the same moment", outcome, held)
    bench.finish()


main()
