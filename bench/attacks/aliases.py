"""999 aliases of one person in a batch: each one counted the person's distinct ids, and counted as work for each of them, so that after some 400 there was no
work left for the rest of the batch: 419 stayed persons of their own. All must be one person, whether anybody has heard of the aliases before or
not. Looks at persons, and at events that the aliases send afterwards, through previews of exports."""

import time

from common import Org, arguments, bench, stage

COUNT = 999


def send(org, events):
    batch = [{"event": event, "distinct_id": who, "properties": properties} for event, who, properties in events]
    answer = org.server.ask("POST", "/batch/", {"api_key": org.token, "batch": batch}, headers={"x-forwarded-for": "203.1.1.1"})
    assert answer.status == 200, answer


def rows(org, query, model):
    """Ten at most."""
    export = {"name": f"Look {time.time()}", "interval": "hour", "model": model, "destination": {"type": "NoOp", "config": {}}, "hogql_query": query}
    made = org.ask("POST", "batch_exports/", export)
    assert made.status == 201, made
    answer = org.ask("GET", f"batch_exports/{made.body['id']}/preview/")
    assert answer.status == 200, answer
    org.ask("DELETE", f"batch_exports/{made.body['id']}/")
    return answer.body["rows"]


def separate(org):
    """Names of those that are not the same person as ada."""
    (ada,) = {row["person_id"] for row in rows(org, "SELECT person_id FROM events WHERE event = 'seen' AND distinct_id = 'ada'", "events")}
    last = rows(org, f"SELECT person_id FROM persons WHERE distinct_id = '{name(COUNT - 1)}'", "persons")
    assert last, "there is no such person"
    found = rows(org, f"SELECT distinct_id FROM events WHERE event = 'seen' AND person_id != '{ada}'", "events")
    found += rows(org, f"SELECT distinct_id FROM persons WHERE person_id != '{ada}' AND is_deleted = false", "persons")
    return sorted({row["distinct_id"] for row in found}, key=lambda one: (len(one), one))


def name(number):
    return f"also-ada-{number}"


def attempt(org, what, aliases, are_known):
    names = [name(number) for number in range(COUNT)]
    if are_known:
        send(org, [("known", one, {"$set": {"a": 1}}) for one in names])
    took = time.time()
    send(org, aliases(names))
    took = time.time() - took
    send(org, [("seen", one, {"$set": {"b": 1}}) for one in ["ada", *names]])
    apart = separate(org)
    outcome = f"{took:.2f} s; {len(apart)} of those looked at stay separate" + (f", such as {', '.join(apart[:3])}" if apart else "")
    bench.record("18.4", f"{COUNT} aliases of one person in a batch, {what}, {'known' if are_known else 'new'} names", outcome, not apart)


def main():
    given = arguments(__doc__)
    of_person = lambda names: [("$create_alias", "ada", {"alias": one}) for one in names]
    of_aliases = lambda names: [("$create_alias", one, {"alias": "ada"}) for one in names]
    identified = lambda names: [("$identify", "ada", {"$anon_distinct_id": one}) for one in names]
    # Known aliases with events of their own are left out: ada is identified after the first, and then becomes nobody else.
    ways = [
        ("events of the person", of_person, False),
        ("events of the person", of_person, True),
        ("events of the aliases", of_aliases, False),
        ("identified", identified, False),
        ("identified", identified, True),
    ]
    with stage(given, 1) as (server, keys, _):
        for what, aliases, are_known in ways:
            attempt(Org(server, keys[0], f"Aliases {what} {are_known}"), what, aliases, are_known)
    bench.finish()


main()
