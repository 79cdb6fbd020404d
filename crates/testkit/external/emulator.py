"""Starts a store of objects on a free loopback port: moto for S3, or gcp-storage-emulator for Google Cloud Storage."""

import json
import os
import sys


def moto():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return server.get_host_and_port()[1]


def gcs():
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="exports")
    server.start()
    return server._api._httpd.server_address[1]


port = {"moto": moto, "gcs": gcs}[sys.argv[1]]()
print("ready", json.dumps({"port": port}), flush=True)
# Nothing is ever sent to us: it ends with the test, and so do we.
sys.stdin.read()
os._exit(0)
