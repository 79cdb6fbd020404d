// fetch and what belongs to it, close enough to what browsers and node-fetch have.
(function (native, shared) {
    'use strict'

    const { parse } = JSON
    const { Buffer } = shared

    class FetchError extends Error {
        name = 'FetchError'
        type = 'system'
    }

    class AbortError extends Error {
        name = 'AbortError'
        type = 'aborted'
    }

    class AbortSignal {
        aborted = false
        reason = undefined
        onabort = null
        #listeners = []

        addEventListener(type, listener) {
            if (type === 'abort') this.#listeners.push(listener)
        }

        removeEventListener(type, listener) {
            this.#listeners = this.#listeners.filter((each) => each !== listener)
        }

        throwIfAborted() {
            if (this.aborted) throw this.reason
        }

        static abort(signal, reason) {
            if (signal.aborted) return
            signal.aborted = true
            signal.reason = reason ?? new AbortError('The operation was aborted.')
            signal.onabort?.({ type: 'abort' })
            for (const listener of signal.#listeners) listener({ type: 'abort' })
        }
    }

    class AbortController {
        signal = new AbortSignal()

        abort(reason) {
            AbortSignal.abort(this.signal, reason)
        }
    }

    class Headers {
        // By name in small letters.
        #values = new Map()

        constructor(init = undefined) {
            if (init === undefined || init === null) return
            const pairs = typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init)
            for (const [name, value] of pairs) this.append(name, value)
        }

        append(name, value) {
            const key = shared.text(name).toLowerCase()
            const before = this.#values.get(key)
            this.#values.set(key, before === undefined ? shared.text(value) : `${before}, ${shared.text(value)}`)
        }

        set(name, value) {
            this.#values.set(shared.text(name).toLowerCase(), shared.text(value))
        }

        get(name) {
            return this.#values.get(String(name).toLowerCase()) ?? null
        }

        has(name) {
            return this.#values.has(String(name).toLowerCase())
        }

        delete(name) {
            this.#values.delete(String(name).toLowerCase())
        }

        forEach(callback) {
            for (const [name, value] of this.#values) callback(value, name, this)
        }

        keys() {
            return this.#values.keys()
        }

        values() {
            return this.#values.values()
        }

        entries() {
            return this.#values.entries()
        }

        raw() {
            return Object.fromEntries([...this.#values].map(([name, value]) => [name, [value]]))
        }

        [Symbol.iterator]() {
            return this.entries()
        }
    }

    class Response {
        #body
        #isBase64

        constructor(body = '', { status = 200, statusText = '', headers = undefined, url = '', isBase64 = false } = {}) {
            this.#body = body
            this.#isBase64 = isBase64
            this.status = status
            this.statusText = statusText
            this.headers = new Headers(headers)
            this.url = url
        }

        get ok() {
            return this.status >= 200 && this.status < 300
        }

        async buffer() {
            return Buffer.from(this.#body, this.#isBase64 ? 'base64' : 'utf8')
        }

        async arrayBuffer() {
            return (await this.buffer()).buffer
        }

        async text() {
            return this.#isBase64 ? (await this.buffer()).toString() : this.#body
        }

        async json() {
            return parse(await this.text())
        }

        clone() {
            return new Response(this.#body, { ...this, isBase64: this.#isBase64 })
        }
    }

    function sentBody(body, headers) {
        if (body === undefined || body === null) return { body: null }
        const bytes = shared.view(body)
        if (bytes) return { body: shared.encoded(bytes, 'base64'), is_base64: true }
        if (body instanceof shared.URLSearchParams && !headers.has('content-type')) {
            headers.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8')
        }
        return { body: shared.text(body) }
    }

    async function fetch(input, options = {}) {
        const url = shared.text(input)
        const headers = new Headers(options.headers)
        const body = sentBody(options.body, headers)
        const method = shared.text(options.method ?? 'GET').toUpperCase()
        const { signal } = options
        signal?.throwIfAborted()
        const asked = shared.ask({ type: 'fetch', url, method, headers: [...headers], ...body })
        try {
            const sent = await (signal ? Promise.race([asked, aborted(signal)]) : asked)
            return new Response(sent.body, { ...sent, isBase64: sent.is_base64, url })
        } catch (error) {
            if (signal?.aborted) throw signal.reason
            throw new FetchError(`request to ${url} failed, reason: ${error.message}`)
        }
    }

    const aborted = (signal) =>
        new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason))
        })

    Object.assign(globalThis, { fetch, Headers, Response, AbortController, AbortSignal })
    shared.nodeFetch = Object.assign((...values) => fetch(...values), { FetchError, AbortError, Headers, Response })
    shared.nodeFetch.default = shared.nodeFetch
})
