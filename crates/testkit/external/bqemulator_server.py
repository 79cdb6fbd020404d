"""bqemulator, an emulator of BigQuery, on loopback; a token server that checks assertions as Google's does; and a reader
that asks the emulator through the vendor's own client."""

import base64
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

options = json.loads(sys.argv[1])
folder = Path(options["folder"])
tokens = set()
seen = []


def start_emulator():
    # The emulator wants an extension of DuckDB, which comes as a package; it is looked for below the home folder.
    import duckdb_extensions

    duckdb_extensions.import_extension("spatial")
    program = Path(sys.executable).parent / "bqemulator"
    port = free_port()
    log = open(folder / "emulator.log", "w")
    arguments = ["start", "--project", options["project"], "--rest-port", str(port), "--grpc-port", "0"]
    process = subprocess.Popen([program, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    return process, port


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def checked(assertion):
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding

    header, claims, signature = assertion.split(".")

    def decoded(part):
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    public = serialization.load_pem_public_key(options["public_key"].encode())
    public.verify(decoded(signature), f"{header}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    header, claims = json.loads(decoded(header)), json.loads(decoded(claims))
    now = time.time()
    assert header["alg"] == "RS256" and header["kid"] == options["key_id"], header
    assert claims["iss"] == options["email"] and claims["aud"] == f"http://127.0.0.1:{front.server_address[1]}/token", claims
    assert claims["scope"] == "https://www.googleapis.com/auth/bigquery", claims
    assert now - 300 < claims["iat"] <= now + 60 and now < claims["exp"] <= claims["iat"] + 3600, claims


class Front(BaseHTTPRequestHandler):
    """The token server, and in front of the emulator, which checks no token, somebody who does."""

    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/token":
            return self.grant(body)
        if self.path == "/read":
            return self.read(body.decode())
        seen.append({"method": self.command, "path": self.path, "body": body.decode() if len(body) < 100_000 and b"PAR1" not in body else ""})
        is_upload = "upload_id=" in self.path
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in tokens and not is_upload:
            error = {"code": 401, "message": "Invalid Credentials", "errors": [{"reason": "authError", "message": "Invalid Credentials"}]}
            return self.reply(401, json.dumps({"error": error}).encode())
        fault = folder / "fault"
        if fault.exists():
            status, body = json.loads(fault.read_text())
            return self.reply(status, json.dumps(body).encode())
        self.forward(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def grant(self, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        try:
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer", form
            checked(form["assertion"])
        except Exception as error:
            print("assertion refused:", repr(error), flush=True)
            return self.reply(400, b'{"error":"invalid_grant","error_description":"Invalid JWT Signature."}')
        token = f"token-{len(tokens)}-{os.urandom(8).hex()}"
        tokens.add(token)
        self.reply(200, json.dumps({"access_token": token, "expires_in": 3599, "token_type": "Bearer"}).encode())

    def read(self, sql):
        if sql == "seen":
            return self.reply(200, json.dumps({"tokens": len(tokens), "requests": seen}).encode())
        from google.api_core.client_options import ClientOptions
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        endpoint = ClientOptions(api_endpoint=f"http://127.0.0.1:{emulator_port}")
        client = bigquery.Client(project=options["project"], credentials=AnonymousCredentials(), client_options=endpoint)
        if sql == "dataset":
            client.create_dataset(f"{options['project']}.{options['dataset']}")
            rows = []
        elif sql == "tables":
            rows = [[table.table_id] for table in client.list_tables(options["dataset"])]
        elif sql.startswith("partition "):
            rows = [[client.get_table(f"{options['dataset']}.{sql[10:]}").time_partitioning.type_]]
        else:
            rows = [[None if cell is None else str(cell) for cell in row.values()] for row in client.query_and_wait(sql)]
        self.reply(200, json.dumps(rows).encode())

    def forward(self, body):
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection", "content-length")}
        url = f"http://127.0.0.1:{emulator_port}{self.path}"
        request = urllib.request.Request(url, data=body or None, headers=headers, method=self.command)
        try:
            response = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            response = error
        content = response.read()
        location = response.headers.get("location", "")
        location = location.replace(f":{emulator_port}/", f":{front.server_address[1]}/")
        self.reply(response.status, content, location)

    def reply(self, status, content, location=""):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(content)))
        self.send_header("content-type", "application/json")
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


process, emulator_port = start_emulator()
front = ThreadingHTTPServer(("127.0.0.1", 0), Front)
threading.Thread(target=front.serve_forever, daemon=True).start()


def is_up():
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{emulator_port}/bigquery/v2/projects/{options['project']}/datasets", timeout=5):
            return True
    except OSError:
        return False


while not is_up():
    if process.poll() is not None:
        sys.exit((folder / "emulator.log").read_text()[-3000:])
    time.sleep(0.05)
print("ready", json.dumps({"port": front.server_address[1]}), flush=True)
# Nothing is ever sent to us: it ends when the test does, and so do we.
sys.stdin.read()
process.kill()
os._exit(0)
