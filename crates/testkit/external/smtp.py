"""A real SMTP server on loopback for tests. It writes each mail it takes into a folder, as JSON."""

import asyncio
import email
import json
import os
import ssl
import sys
from email import policy
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult

options = json.loads(sys.argv[1])
folder = Path(options["folder"])


class Handler:
    async def handle_MAIL(self, server, session, envelope, address, mail_options):
        # The test writes how many mails are to be put off; each one lowers the number.
        busy = folder / "busy"
        left = int(busy.read_text()) if busy.exists() else 0
        if left:
            busy.write_text(str(left - 1))
            return "451 4.3.2 come back later"
        envelope.mail_from = address
        envelope.mail_options.extend(mail_options)
        return "250 2.1.0 OK"

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        refused = folder / "refused"
        if refused.exists() and address in refused.read_text().splitlines():
            return "550 5.1.1 nobody of that name here"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server, session, envelope):
        mails = folder / "mails"
        name = f"{len(list(mails.glob('*.json'))):06}"
        unfinished = mails / f"{name}.unfinished"
        unfinished.write_text(json.dumps(parsed(session, envelope)))
        unfinished.rename(mails / f"{name}.json")
        return "250 2.0.0 OK"


def parsed(session, envelope):
    message = email.message_from_bytes(envelope.content, policy=policy.default)

    def body(kind):
        part = message.get_body((kind,))
        return part and part.get_content().replace("\r\n", "\n")

    return {
        "from": envelope.mail_from,
        "to": envelope.rcpt_tos,
        "subject": message["subject"] or "",
        "reply_to": message["reply-to"],
        "text": body("plain"),
        "html": body("html"),
        "headers": [[name, str(value)] for name, value in message.items()],
        "is_encrypted": options["tls"] == "implicit" or session.ssl is not None,
        "login": session.auth_data if session.authenticated else None,
    }


def authenticate(server, session, envelope, mechanism, given):
    user, password = given.login.decode(), given.password.decode()
    if [user, password] == options["auth"]:
        return AuthResult(success=True, auth_data=user)
    # Not handled, so that the server itself answers with 535.
    return AuthResult(success=False, handled=False)


def connection(context):
    starts_tls = options["tls"] == "starttls"
    return SMTP(
        Handler(),
        hostname="localhost",
        enable_SMTPUTF8=True,
        tls_context=context if starts_tls else None,
        require_starttls=starts_tls,
        authenticator=authenticate,
        auth_required=options["auth"] is not None,
        auth_require_tls=starts_tls,
    )


async def main():
    loop = asyncio.get_running_loop()
    # Nothing is ever sent to us: it becomes readable when it ends, and so do we.
    loop.add_reader(sys.stdin, os._exit, 0)
    context = None
    if options["tls"]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options["certificate"], options["key"])
    implicit = context if options["tls"] == "implicit" else None
    server = await loop.create_server(lambda: connection(context), "127.0.0.1", options["port"], ssl=implicit)
    port = server.sockets[0].getsockname()[1]
    print("ready", json.dumps({"port": port}), flush=True)
    await server.serve_forever()


asyncio.run(main())
