// Packages that apps can import, and stand-ins for those they cannot.
(function (native, shared) {
    'use strict'

    const { Buffer } = shared

    shared.RetryError = class RetryError extends Error {
        name = 'RetryError'
    }
    globalThis.RetryError = shared.RetryError

    const bytesOf = (data, encoding) => (typeof data === 'string' ? shared.decoded(data, encoding) : shared.view(data))

    // Collects what is hashed, and hashes it in one go.
    class Digest {
        #parts = ''
        #finish

        constructor(finish) {
            this.#finish = finish
        }

        update(data, encoding) {
            this.#parts += shared.binary(bytesOf(data, encoding))
            return this
        }

        digest(encoding) {
            const bytes = this.#finish(this.#parts)
            return encoding ? shared.encoded(bytes, encoding) : Object.setPrototypeOf(bytes, Buffer.prototype)
        }
    }

    const crypto = {
        createHash: (algorithm) => new Digest((data) => native.hash(String(algorithm), data)),
        createHmac: (algorithm, key) => {
            const binary = shared.binary(bytesOf(key))
            return new Digest((data) => native.hmac(String(algorithm), binary, data))
        },
        randomBytes: (count) => Object.setPrototypeOf(native.random(Number(count)), Buffer.prototype),
        randomUUID: () => native.uuid(),
        timingSafeEqual: (a, b) => Buffer.from(a).equals(Buffer.from(b)),
    }

    // Objects are held until they are enough, or until the call that added them is over: no call leaves any behind.
    const buffers = []
    const noteHeld = () => native.holding(buffers.some((buffer) => buffer.held.length > 0))
    shared.flush = async () => {
        for (const { flush } of buffers) await flush()
    }

    function createBuffer({ limit, onFlush }) {
        const state = { held: [], points: 0, flush }
        async function flush() {
            const { held } = state
            if (held.length === 0) return
            state.held = []
            state.points = 0
            noteHeld()
            await onFlush?.(held)
        }
        async function add(object, points = 1) {
            if (limit && state.points > 0 && state.points + points > limit) await flush()
            state.held.push(object)
            state.points += points
            noteHeld()
            if (limit && state.points > limit) await flush()
        }
        buffers.push(state)
        return { add, flush }
    }

    class PassThrough {
        #parts = []

        write(data) {
            this.#parts.push(Buffer.from(data))
            return true
        }

        end(data) {
            if (data !== undefined) this.write(data)
            return this
        }

        async *[Symbol.asyncIterator]() {
            yield* this.#parts
        }
    }

    const util = {
        promisify:
            (call) =>
            (...values) =>
                new Promise((resolve, reject) => {
                    call(...values, (error, value) => (error ? reject(error) : resolve(value)))
                }),
        inspect: (value) => JSON.stringify(value),
        format: (...values) => values.map(String).join(' '),
        isDeepStrictEqual: (a, b) => JSON.stringify(a) === JSON.stringify(b),
    }

    const { URL, URLSearchParams } = shared
    shared.packages = {
        __proto__: null,
        '@posthog/plugin-contrib': { createBuffer },
        '@posthog/plugin-scaffold': { RetryError: shared.RetryError, createBuffer },
        buffer: { Buffer },
        crypto,
        'node-fetch': shared.nodeFetch,
        stream: { PassThrough },
        url: { URL, URLSearchParams, parse: (text) => new URL(text), format: String },
        util,
    }

    // Can be imported, taken apart and extended, so that an app can be read; not called.
    shared.absent = (name) => {
        const fail = () => {
            throw new Error(`The package '${name}' is not available to apps`)
        }
        const known = { __proto__: null, prototype: {}, then: undefined, __esModule: undefined, [Symbol.toPrimitive]: () => name }
        const standIn = new Proxy(function () {}, {
            get: (_, key) => (key in known ? known[key] : standIn),
            apply: fail,
            construct: fail,
        })
        return standIn
    }
})
