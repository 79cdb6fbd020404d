// isolated-vm: an isolate with a heap of its own in the process of the server, as Node servers run foreign code.

import { readFileSync } from 'node:fs'

import ivm from 'isolated-vm'

import { STARTS, median, rate } from './work.mjs'

const APP = readFileSync(new URL('app.js', import.meta.url), 'utf8')
const MAIN = `
    import { onEvent, setupPlugin } from 'app'
    const meta = { global: {}, config: {} }
    export const setup = () => setupPlugin(meta)
    export async function handle(json) {
        const outcomes = []
        for (const event of JSON.parse(json)) {
            try {
                await onEvent(event, meta)
                outcomes.push(null)
            } catch (error) {
                outcomes.push(String(error))
            }
        }
        return JSON.stringify(outcomes)
    }`

async function start() {
    const isolate = new ivm.Isolate({ memoryLimit: 256 })
    const context = await isolate.createContext()
    const [app, main] = await Promise.all([isolate.compileModule(APP), isolate.compileModule(MAIN)])
    await main.instantiate(context, () => app)
    await main.evaluate()
    const setup = await main.namespace.get('setup', { reference: true })
    await setup.apply(undefined, [], { result: { promise: true } })
    return { isolate, handle: await main.namespace.get('handle', { reference: true }) }
}

const start_ms = await median(STARTS, async () => {
    const { isolate } = await start()
    return () => isolate.dispose()
})
const { isolate, handle } = await start()
const events_per_second = await rate(async (json) =>
    JSON.parse(await handle.apply(undefined, [json], { result: { promise: true }, timeout: 10_000 })),
)
isolate.dispose()
console.log(JSON.stringify({ start_ms, events_per_second }))
