"""fakesnow, an emulator of Snowflake, on loopback; and a reader that asks it through the vendor's own connector."""

import gzip
import json
import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Before the emulator is imported: its stages live below.
options = json.loads(sys.argv[1])
os.environ["TMPDIR"] = options["folder"]

import snowflake.connector
import uvicorn
from fakesnow.server import app as emulator
from fakesnow.server import sessions

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", 0))
port = listener.getsockname()[1]


async def guarded(scope, receive, send):
    """The emulator lets everybody in; this asks for the password before it does. Failures come as tests order them."""
    if scope["type"] != "http":
        return await emulator(scope, receive, send)
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    path = scope["path"]
    seen.append({"path": path, "body": body.decode(errors="replace") if len(body) < 100_000 else ""})
    if path == "/session/v1/login-request":
        # The vendor's connector packs what it sends.
        data = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)["data"]
        if data.get("PASSWORD") not in (None, options["password"]):
            return await answer(send, {"success": False, "code": "390100", "message": "Incorrect username or password was specified.", "data": None})
        if data.get("AUTHENTICATOR") == "SNOWFLAKE_JWT" and not is_signed(data["TOKEN"]):
            return await answer(send, {"success": False, "code": "390144", "message": "JWT token is invalid.", "data": None})

    async def again():
        return {"type": "http.request", "body": body, "more_body": False}

    under_way.add(request := object())
    try:
        await emulator(scope, again, send)
    finally:
        under_way.discard(request)


async def answer(send, value):
    content = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def is_signed(token):
    """As Snowflake checks it: by the user's public key, with its fingerprint in the issuer."""
    import base64
    import hashlib

    import jwt
    from cryptography.hazmat.primitives import serialization

    public = serialization.load_pem_public_key(options["public_key"].encode())
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    fingerprint = base64.b64encode(hashlib.sha256(der).digest()).decode()
    try:
        claims = jwt.decode(token, public, algorithms=["RS256"], options={"require": ["exp", "iat", "iss", "sub"]})
    except jwt.InvalidTokenError as error:
        print("token refused:", error, flush=True)
        return False
    subject = f"{options['account'].upper()}.{options['user'].upper()}"
    return claims["sub"] == subject and claims["iss"] == f"{subject}.SHA256:{fingerprint}" and claims["exp"] - claims["iat"] <= 3600


seen = []
under_way = set()


def forget():
    """Ends all sessions, as Snowflake ends those of clients that are gone: what they had begun is undone.

    A statement of a client that was killed goes on here, and no connection is closed under a running statement:
    its end is waited for."""
    while under_way:
        threading.Event().wait(0.01)
    ended = [sessions.pop(token) for token in list(sessions)]
    for session in ended:
        session.close()
    return len(ended)


class Reader(BaseHTTPRequestHandler):
    def do_POST(self):
        sql = self.rfile.read(int(self.headers["content-length"])).decode()
        if sql == "seen":
            return self.reply(200, seen)
        if sql == "forget":
            return self.reply(200, forget())
        try:
            connection = snowflake.connector.connect(
                user=options["user"], password=options["password"], account=options["account"],
                host="127.0.0.1", port=port, protocol="http", database=options["database"], schema=options["schema"],
                session_parameters={"CLIENT_OUT_OF_BAND_TELEMETRY_ENABLED": False},
            )
            with connection:
                cursor = connection.cursor().execute(sql)
                rows = [[None if cell is None else str(cell) for cell in row] for row in cursor.fetchall()]
            self.reply(200, rows)
        except snowflake.connector.errors.Error as error:
            self.reply(400, str(error))

    def reply(self, status, value):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def main():
    reader = ThreadingHTTPServer(("127.0.0.1", 0), Reader)
    threading.Thread(target=reader.serve_forever, daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="info", access_log=False))
    threading.Thread(target=server.run, args=([listener],), daemon=True).start()
    while not server.started:
        threading.Event().wait(0.01)
    print("ready", json.dumps({"port": port, "reader": reader.server_address[1]}), flush=True)
    # Nothing is ever sent to us: it ends when the test does, and so do we.
    sys.stdin.read()
    os._exit(0)


main()
