"""Temporal's development server with one worker: starts empty workflows and waits until the server has noted that all of them are completed.

    temporal.py COUNT

Prints the seconds that took. The server keeps everything in memory: with an SQLite file it was slower, and gave up many requests.
"""

import asyncio
import json
import pathlib
import socket
import subprocess
import sys
import time

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

# Of 16, 50 and 200 the fastest.
AT_A_TIME = 50


@workflow.defn
class Nothing:
    @workflow.run
    async def run(self) -> None:
        pass


async def connected(address):
    for _ in range(300):
        try:
            return await Client.connect(address)
        except RuntimeError:
            await asyncio.sleep(0.1)
    raise SystemExit("Temporal's server does not respond")


async def measure(client, count):
    numbers = iter(range(count))

    async def start():
        for number in numbers:
            await client.start_workflow(Nothing.run, id=f"nothing-{number}", task_queue="bench")

    # The sandbox checks each workflow for what is not deterministic; without it Temporal is faster.
    worker = Worker(
        client,
        task_queue="bench",
        workflows=[Nothing],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_workflow_tasks=AT_A_TIME,
        max_cached_workflows=AT_A_TIME,
    )
    async with worker:
        begun = time.monotonic()
        await asyncio.gather(*(start() for _ in range(AT_A_TIME)))
        while (await client.count_workflows("ExecutionStatus = 'Completed'")).count < count:
            await asyncio.sleep(0.1)
        return time.monotonic() - begun


async def main():
    count = int(sys.argv[1])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = pathlib.Path(sys.executable).with_name("temporal")
    command = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        seconds = await measure(await connected(f"127.0.0.1:{port}"), count)
    finally:
        server.terminate()
        server.wait()
    print(json.dumps({"wall": seconds}))


asyncio.run(main())
