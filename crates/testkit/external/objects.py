"""Makes buckets, and fetches all that readers see in one: `objects.py KIND BASE make|fetch BUCKET [FOLDER]`."""

import base64
import hashlib
import hmac
import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml
from email.utils import formatdate
from pathlib import Path

kind, base, action, bucket, *rest = sys.argv[1:]


def opened(url, **options):
    return urllib.request.urlopen(urllib.request.Request(url, **options)).read()


class S3:
    def __init__(self):
        import boto3

        key, secret = rest.pop(), rest.pop()
        self.client = boto3.client(
            "s3", endpoint_url=base, region_name="us-east-1", aws_access_key_id=secret, aws_secret_access_key=key
        )

    def make(self):
        self.client.create_bucket(Bucket=bucket)

    def objects(self):
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                answer = self.client.get_object(Bucket=bucket, Key=item["Key"])
                facts = {key: answer.get(key) for key in ("ServerSideEncryption", "SSEKMSKeyId")}
                yield item["Key"], answer["Body"].read(), facts


class Gcs:
    def make(self):
        body = json.dumps({"name": bucket}).encode()
        opened(f"{base}/storage/v1/b", data=body, headers={"Content-Type": "application/json"})

    def objects(self):
        page = json.loads(opened(f"{base}/storage/v1/b/{bucket}/o"))
        for item in page.get("items", []):
            name = urllib.parse.quote(item["name"], safe="")
            yield item["name"], opened(f"{base}/storage/v1/b/{bucket}/o/{name}?alt=media"), {}


class Azure:
    def make(self):
        """In a public container, so that whoever reads needs no signature."""
        key, account = rest.pop(), rest.pop()
        headers = {"x-ms-blob-public-access": "container", "x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        text = f"PUT{12 * chr(10)}{canonical}/{account}/{account}/{bucket}\nrestype:container"
        signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
        headers |= {"Authorization": f"SharedKey {account}:{signature}"}
        opened(f"{base}/{bucket}?restype=container", method="PUT", headers=headers)

    def objects(self):
        version = {"x-ms-version": "2021-08-06"}
        page = xml.fromstring(opened(f"{base}/{bucket}?restype=container&comp=list", headers=version))
        for name in (element.text for element in page.iter("Name")):
            yield name, opened(f"{base}/{bucket}/{urllib.parse.quote(name, safe='')}", headers=version), {}


store = {"s3": S3, "gcs": Gcs, "azure": Azure}[kind]()
if action == "make":
    store.make()
else:
    facts = {}
    for name, content, known in store.objects():
        path = Path(rest[0], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        facts[name] = known
    print(json.dumps(facts))
