"""The official Python SDK, as a program uses it. It is not told to flush: leaving must be enough."""

import os
import sys
from datetime import datetime, timezone

from posthog import Posthog


def fail(error, items):
    print(f"the SDK could not send: {error!r}", file=sys.stderr)
    os._exit(1)


client = Posthog(os.environ["TOKEN"], host=os.environ["SITE"], gzip=True, flush_at=50, on_error=fail)

client.capture(
    "bought",
    distinct_id="ann",
    properties={"price": 7.5, "items": ["a", "b"], "name": "Zoë 😀", "nested": {"deep": None}},
    timestamp=datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc),
    uuid="0198c2f6-a9b4-7c01-8000-0123456789ab",
)
client.set(distinct_id="ann", properties={"plan": "free", "city": "Berlin"})
client.set(distinct_id="ann", properties={"plan": "paid"})
client.set_once(distinct_id="ann", properties={"plan": "never", "first": "site"})
client.capture("seen", distinct_id="before-sign-in")
client.alias(previous_id="before-sign-in", distinct_id="bob")
for number in range(200):
    client.capture("counted", distinct_id=f"many-{number % 7}", properties={"number": number})
flag = client.get_feature_flag("no-such-flag", "ann")
assert not flag, flag
