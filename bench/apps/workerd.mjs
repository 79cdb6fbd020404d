// workerd: a process of its own, asked over HTTP on a Unix socket.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { median, rate } from './work.mjs'

const STARTS = 21
const PROGRAM = fileURLToPath(new URL('node_modules/workerd/bin/workerd', import.meta.url))
const CONFIG = fileURLToPath(new URL('workerd.capnp', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'hedgerow-workerd-'))
const agent = new Agent({ keepAlive: true })
let count = 0

function post(socketPath, json) {
    return new Promise((resolve, reject) => {
        const sent = request({ socketPath, agent, method: 'POST', path: '/' }, (response) => {
            const parts = []
            response.on('data', (part) => parts.push(part))
            response.on('end', () => resolve(JSON.parse(Buffer.concat(parts))))
        })
        sent.on('error', reject)
        sent.end(json)
    })
}

async function start() {
    const socket = join(folder, `${count++}`)
    const server = spawn(PROGRAM, ['serve', CONFIG, '--socket-addr', `http=unix:${socket}`], { stdio: 'inherit' })
    for (;;) {
        try {
            await post(socket, '[]')
            return { server, socket }
        } catch (error) {
            if (!['ENOENT', 'ECONNREFUSED'].includes(error.code)) throw error
            await setTimeout(0.2)
        }
    }
}

async function stop(server) {
    const ended = new Promise((resolve) => server.on('exit', resolve))
    server.kill('SIGKILL')
    await ended
}

const start_ms = await median(STARTS, async () => {
    const { server } = await start()
    return () => stop(server)
})
const { server, socket } = await start()
const events_per_second = await rate((json) => post(socket, json))
await stop(server)
rmSync(folder, { recursive: true })
console.log(JSON.stringify({ start_ms, events_per_second }))
process.exit(0)
