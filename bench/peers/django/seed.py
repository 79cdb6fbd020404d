"""Empties the database, makes the tables and 100 members, writes the requests to measure: seed.py REQUESTS_FILE"""

import json
import secrets
import sys
from hashlib import sha256

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

django.setup()

from capture.models import Token  # noqa: E402  (needs the set-up above)
from directory.models import ApiKey, Membership, Organization, Team, User  # noqa: E402

MEMBERS = 100
LEVELS = [1, 1, 1, 8]


def empty_database():
    name = settings.DATABASES["default"]["NAME"]
    if not name.startswith("bench"):
        sys.exit(f"refusing to empty database {name!r}: its name must begin with 'bench'")
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    call_command("migrate", run_syncdb=True, verbosity=0)


@transaction.atomic
def seed():
    users = [
        User(email=f"member{n}@example.com", first_name=f"First{n}", last_name=f"Last{n}", password="!")
        for n in range(MEMBERS)
    ]
    User.objects.bulk_create(users)
    organization = Organization.objects.create(name="Hedgehogs", slug="hedgehogs")
    Team.objects.create(organization=organization, name="Default")
    Membership.objects.bulk_create(
        Membership(organization=organization, user=user, level=15 if n == 0 else LEVELS[n % len(LEVELS)])
        for n, user in enumerate(users)
    )
    # `bench ingest` sends events with it.
    Token.objects.create(token="bench")
    key = secrets.token_urlsafe(32)
    ApiKey.objects.create(hash=sha256(key.encode()).hexdigest(), user=users[0])
    return organization, key


def requests(organization, key):
    headers = {"Authorization": f"Bearer {key}"}
    one = f"/api/organizations/{organization.id}/"
    return {
        "retrieve": {"method": "GET", "path": one, "headers": headers},
        "list": {"method": "GET", "path": f"{one}members/?limit=100", "headers": headers},
        "create": {
            "method": "POST",
            "path": "/api/organizations/",
            "headers": {**headers, "Content-Type": "application/json"},
            "body": json.dumps({"name": "bench {{n}}"}),
        },
    }


empty_database()
wanted = requests(*seed())
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
with open(sys.argv[1], "w") as file:
    json.dump(wanted, file, indent=2)
