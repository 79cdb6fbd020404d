// URL and URLSearchParams, over the parser of the process.
(function (native, shared) {
    'use strict'

    const PARTS = ['hash', 'host', 'hostname', 'password', 'pathname', 'port', 'protocol', 'search', 'username']
    const { parse, stringify } = JSON

    class URLSearchParams {
        #pairs = []
        #changed = () => {}

        constructor(init = '', changed = undefined) {
            if (changed) this.#changed = changed
            this.#pairs = URLSearchParams.#read(init)
        }

        static #read(init) {
            if (init instanceof URLSearchParams) return [...init]
            if (typeof init !== 'object' || init === null) return parse(native.parseForm(shared.text(init)))
            const pairs = typeof init[Symbol.iterator] === 'function' ? [...init] : Object.entries(init)
            return pairs.map(([name, value]) => [shared.text(name), shared.text(value)])
        }

        append(name, value) {
            this.#pairs.push([shared.text(name), shared.text(value)])
            this.#changed(this.toString())
        }

        delete(name) {
            this.#pairs = this.#pairs.filter(([each]) => each !== String(name))
            this.#changed(this.toString())
        }

        get(name) {
            return this.#pairs.find(([each]) => each === String(name))?.[1] ?? null
        }

        getAll(name) {
            return this.#pairs.filter(([each]) => each === String(name)).map(([, value]) => value)
        }

        has(name) {
            return this.#pairs.some(([each]) => each === String(name))
        }

        set(name, value) {
            const first = this.#pairs.find(([each]) => each === String(name))
            if (!first) return this.append(name, value)
            first[1] = shared.text(value)
            this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== first[0])
            this.#changed(this.toString())
        }

        sort() {
            this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
            this.#changed(this.toString())
        }

        forEach(callback) {
            for (const [name, value] of this.#pairs) callback(value, name, this)
        }

        *keys() {
            for (const [name] of this.#pairs) yield name
        }

        *values() {
            for (const [, value] of this.#pairs) yield value
        }

        *entries() {
            for (const [name, value] of this.#pairs) yield [name, value]
        }

        [Symbol.iterator]() {
            return this.entries()
        }

        get size() {
            return this.#pairs.length
        }

        toString() {
            return native.writeForm(stringify(this.#pairs))
        }
    }

    class URL {
        #parts
        #params

        constructor(input, base = undefined) {
            this.#read(native.parseUrl(shared.text(input), base === undefined ? '' : shared.text(base)))
        }

        static canParse(input, base = undefined) {
            return native.parseUrl(shared.text(input), base === undefined ? '' : shared.text(base)) !== undefined
        }

        #read(parts) {
            if (parts === undefined) throw new TypeError('Invalid URL')
            this.#parts = parse(parts)
        }

        get href() {
            return this.#parts.href
        }

        set href(href) {
            this.#read(native.parseUrl(shared.text(href), ''))
            this.#params = undefined
        }

        get origin() {
            return this.#parts.origin
        }

        get searchParams() {
            const changed = (query) => this.#read(native.changeUrl(this.href, 'search', query))
            this.#params ??= new URLSearchParams(this.search, changed)
            return this.#params
        }

        toString() {
            return this.href
        }

        toJSON() {
            return this.href
        }

        static {
            for (const part of PARTS) {
                Object.defineProperty(this.prototype, part, {
                    configurable: true,
                    enumerable: true,
                    get() {
                        return this.#parts[part]
                    },
                    set(value) {
                        this.#read(native.changeUrl(this.href, part, shared.text(value)))
                        if (part === 'search') this.#params = undefined
                    },
                })
            }
        }
    }

    globalThis.URL = shared.URL = URL
    globalThis.URLSearchParams = shared.URLSearchParams = URLSearchParams
})
