// What an app is given with each call, and `posthog`.
(function (native, shared) {
    'use strict'

    const { ask, text } = shared
    const LONGEST_KEY = 200
    const SECOND = 1000
    const DAY = 24 * 60 * 60 * SECOND
    const UNITS = {
        __proto__: null,
        millisecond: 1,
        second: SECOND,
        minute: 60 * SECOND,
        hour: 60 * 60 * SECOND,
        day: DAY,
        week: 7 * DAY,
        month: 30 * DAY,
        quarter: 91 * DAY,
        year: 365 * DAY,
    }

    const keyOf = (key) => {
        const name = text(key)
        if (name.length > LONGEST_KEY) throw new Error(`A key has at most ${LONGEST_KEY} characters`)
        return name
    }
    const number = (value, what) => {
        if (typeof value !== 'number' || Number.isNaN(value)) throw new TypeError(`${what} must be a number`)
        return value
    }
    const orElse = (value, otherwise) => (value === null || value === undefined ? otherwise : value)

    const storage = {
        get: async (key, otherwise) => orElse(await ask({ type: 'storage_get', key: keyOf(key) }), otherwise),
        set: async (key, value) => {
            if (value === undefined) return storage.del(key)
            await ask({ type: 'storage_set', key: keyOf(key), value })
        },
        del: async (key) => {
            await ask({ type: 'storage_del', key: keyOf(key) })
        },
    }

    const cache = {
        get: async (key, otherwise) => orElse(await ask({ type: 'cache_get', key: keyOf(key) }), otherwise),
        set: async (key, value, ttl) => {
            const ttl_seconds = ttl === undefined ? null : number(ttl, 'The time to live')
            await ask({ type: 'cache_set', key: keyOf(key), value: value ?? null, ttl_seconds })
        },
        incr: async (key) => ask({ type: 'cache_incr', key: keyOf(key) }),
        expire: async (key, ttl) =>
            ask({ type: 'cache_expire', key: keyOf(key), ttl_seconds: number(ttl, 'The time to live') }),
        lpush: async (key, value) => {
            if (typeof value !== 'string' && !Array.isArray(value)) {
                throw new TypeError('cache.lpush expects a string or an array of strings')
            }
            const values = typeof value === 'string' ? [value] : value.map(text)
            if (values.length > 1000) throw new Error('cache.lpush takes at most 1,000 values')
            return ask({ type: 'cache_lpush', key: keyOf(key), values })
        },
        lrange: async (key, start, end) =>
            ask({ type: 'cache_lrange', key: keyOf(key), start: number(start, 'The start'), end: number(end, 'The end') }),
        llen: async (key) => ask({ type: 'cache_llen', key: keyOf(key) }),
        lrem: async (key, count, value) =>
            ask({ type: 'cache_lrem', key: keyOf(key), count: number(count, 'The count'), value: text(value) }),
        lpop: async (key, count) => ask({ type: 'cache_lpop', key: keyOf(key), count: number(count, 'The count') }),
    }

    const cursor = {
        init: async (key, value = 0) => {
            await ask({ type: 'cursor_init', key: keyOf(key), value: number(value, 'The initial value') })
        },
        increment: async (key, by = 1) => ask({ type: 'cursor_increment', key: keyOf(key), by: number(by, 'The increment') }),
    }

    const byName = (make) =>
        new Proxy({ __proto__: null }, { get: (_, name) => (typeof name === 'string' ? make(name) : undefined) })

    const jobs = byName((name) => (payload) => {
        const runIn = async (delay) => {
            if (!shared.found.jobs[name]) throw new Error(`The app has no job '${name}'`)
            const delay_ms = Math.max(0, Math.round(number(delay, 'The time')))
            await ask({ type: 'run_job', name, payload: payload ?? null, delay_ms })
        }
        return {
            runNow: () => runIn(0),
            runIn: (count, unit) => {
                const length = UNITS[String(unit).replace(/s$/, '')]
                if (length === undefined) throw new Error(`Unknown unit of time: ${unit}`)
                return runIn(count * length)
            },
            runAt: (date) => runIn(new Date(date).valueOf() - Date.now()),
        }
    })

    const CHANGES = { __proto__: null, sum: 'increment', max: 'max', min: 'min' }
    shared.changeMetric = (name, change, value) => ask({ type: 'metric', name, change, value: number(value, 'The value') })
    const metrics = byName((name) => {
        const change = CHANGES[shared.found.metrics[name]]
        if (change === undefined) throw new Error(`The app has no metric '${name}'`)
        return { [change]: (value) => shared.changeMetric(name, change, value) }
    })

    const attachment = ({ content_type, file_name, contents }) => ({
        content_type,
        file_name,
        contents: shared.Buffer.from(contents, 'base64'),
    })

    shared.makeMeta = (given) => {
        const attachments = {}
        for (const [name, file] of Object.entries(given.attachments)) attachments[name] = attachment(file)
        const geoip = { locate: async () => null }
        const { config } = given
        return { config, attachments, global: {}, cache, storage, geoip, jobs, metrics, utils: { cursor } }
    }

    shared.makePosthog = (given) => ({
        capture: async (event, properties = {}) => {
            const { timestamp, distinct_id = given.name, ...others } = properties
            await ask({
                type: 'capture',
                event: text(event),
                distinct_id: text(distinct_id),
                timestamp: timestamp === undefined ? null : text(timestamp instanceof Date ? timestamp.toISOString() : timestamp),
                properties: others,
            })
        },
        get api() {
            throw new Error('posthog.api is not available to apps')
        },
    })

    globalThis.structuredClone = function structuredClone(value, _, seen = new Map()) {
        if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError('This cannot be cloned')
        if (typeof value !== 'object' || value === null) return value
        if (seen.has(value)) return seen.get(value)
        const inner = (each) => structuredClone(each, undefined, seen)
        const note = (copy) => (seen.set(value, copy), copy)
        if (value instanceof Date) return new Date(value)
        if (ArrayBuffer.isView(value)) return value.slice()
        if (value instanceof Map) {
            const copy = note(new Map())
            for (const [key, each] of value) copy.set(inner(key), inner(each))
            return copy
        }
        if (value instanceof Set) {
            const copy = note(new Set())
            for (const each of value) copy.add(inner(each))
            return copy
        }
        const copy = note(Array.isArray(value) ? [] : {})
        for (const [key, each] of Object.entries(value)) copy[key] = inner(each)
        return copy
    }
})
