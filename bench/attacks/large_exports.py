"""Exports of one person whose query names a large text of control characters twelve times, to a bucket that is silent when the first part of a file is
sent: one run held 2 GB, three 6.4 GB. Only with --binary."""

import gzip
import http.server
import threading
import time
import urllib.parse

from common import Honest, Org, arguments, bench

QUERY = "SELECT " + ", ".join(f"properties.t AS a{number}" for number in range(12)) + " FROM events"
# Before it is escaped once more. A row has at most 16 MiB.
CHARACTERS = 1_300_000


class Bucket(http.server.BaseHTTPRequestHandler):
    """Answers until there is something to keep."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-type", "application/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if "list-type" in self.path:
            self.answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_POST(self):
        upload = b"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>1</UploadId></InitiateMultipartUploadResult>"
        self.answer(200, upload)

    def do_PUT(self):
        if "partNumber" in urllib.parse.urlsplit(self.path).query:
            time.sleep(600)
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(200)

    def do_DELETE(self):
        self.answer(204)

    def log_message(self, *_):
        pass


def export(org, port):
    config = {
        "bucket_name": "b",
        "region": "us-east-1",
        "prefix": "x",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "endpoint_url": f"http://127.0.0.1:{port}",
        "file_format": "JSONLines",
    }
    export = {"name": "large", "interval": "every 5 minutes", "hogql_query": QUERY, "destination": {"type": "S3", "config": config}}
    made = org.ask("POST", "batch_exports/", export)
    assert made.status == 201, made


def send(org, number, network):
    event = '{"event":"$ai_x","distinct_id":"d","properties":{"t":"%s"}}' % ("\\u0001" * CHARACTERS)
    body = gzip.compress(('{"api_key":"%s","batch":[%s]}' % (org.token, event)).encode())
    headers = {"content-type": "application/json", "x-forwarded-for": f"203.{network}.{number}.1"}
    for _ in range(60):
        answer = org.server.ask("POST", "/batch/", body, headers=headers)
        if answer.status == 200:
            return
        time.sleep(0.3)
    raise AssertionError(answer)


def next_interval():
    """Runs of five minutes begin a moment after them."""
    return 300 - time.time() % 300 + 15


def main():
    given = arguments(__doc__, organizations=3, events=16)
    bucket = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    bucket.daemon_threads = True
    threading.Thread(target=bucket.serve_forever, daemon=True).start()
    with bench.running(given.binary, HEDGEROW_CAPTURE_MEMORY="768") as server:
        honest = bench.Tenant(server, "honest")
        key = bench.OrganizationCreator(server, "attacker").key
        orgs = [Org(server, key, f"Large exports {number}") for number in range(given.organizations)]
        for network, org in enumerate(orgs):
            export(org, bucket.server_port)
            for number in range(given.events):
                send(org, number, network)
        time.sleep(5)
        with Honest(Org(server, honest.owner_key)) as others:
            time.sleep(next_interval() + given.seconds)
        others.say(f"{given.organizations} exports of rows of 16 MB to a silent bucket")
        grown = others.peak - others.before
        held = grown < 200 * given.organizations and others.was_served("reads", 1, 5) and others.was_served("writes", 1, 5)
        outcome = f"memory grew by {grown} MB; reads of others: {others.short('reads')}; writes: {others.short('writes')}"
        bench.record("41.1", "exports of large rows to a silent bucket", outcome, held)
    bench.finish()


main()
