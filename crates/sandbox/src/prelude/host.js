// How an app reaches the outside. Each question goes over the pipe, and its answer settles a promise.
//
// Every file of this folder is a function of `native`, what the process gives, and `shared`, what the files give each
// other. Apps get hold of neither. What is needed later is taken from the globals now, before an app can change them.
(function (native, shared) {
    'use strict'

    const { parse, stringify } = JSON
    const Later = Promise
    const { keys } = Object
    const uncurried = (method) => Function.prototype.call.bind(method)
    const wellFormed = uncurried(String.prototype.toWellFormed)

    // By the number of the question.
    const waiting = { __proto__: null }

    shared.text = (value) => wellFormed(String(value))

    shared.ask = (request) =>
        new Later((resolve, reject) => {
            const { type, ...rest } = request
            const id = native.send(stringify({ __proto__: null, [type]: { __proto__: null, ...rest } }))
            waiting[id] = { __proto__: null, resolve, reject, isTimer: false }
        })

    shared.answer = (line) => {
        const { answer: id, ok, error } = parse(line)
        const waiter = waiting[id]
        if (!waiter) return
        delete waiting[id]
        if (typeof error === 'string') waiter.reject(new Error(error))
        else waiter.resolve(ok)
    }

    // What is left when a call is over are timers: they end with their call.
    shared.forget = () => {
        for (const id of keys(waiting)) delete waiting[id]
    }

    globalThis.setTimeout = function setTimeout(callback, ms, ...values) {
        const id = native.sleep(Number(ms) || 0)
        const resolve = () => {
            try {
                callback(...values)
            } catch (error) {
                write('error', [error])
            }
        }
        waiting[id] = { __proto__: null, resolve, reject() {}, isTimer: true }
        return id
    }

    globalThis.clearTimeout = function clearTimeout(id) {
        if (!waiting[id]?.isTimer) return
        delete waiting[id]
        native.forget(id)
    }

    function shown(value) {
        if (typeof value === 'string') return value
        if (value instanceof Error) return `${value.name}: ${value.message}`
        if (typeof value !== 'object' || value === null) return String(value)
        try {
            return stringify(value) ?? String(value)
        } catch {
            return String(value)
        }
    }

    function write(level, values) {
        let line = ''
        for (let i = 0; i < values.length; i += 1) line += (i ? ' ' : '') + shown(values[i])
        native.log(level, wellFormed(line))
    }

    const console = {}
    for (const level of ['debug', 'log', 'info', 'warn', 'error']) {
        console[level] = (...values) => write(level, values)
    }
    console.trace = console.debug
    globalThis.console = console

    globalThis.global = globalThis

    // What was thrown, in a form that can be sent.
    shared.describe = (thrown) => {
        const isError = typeof thrown === 'object' && thrown !== null
        const part = (key, otherwise) => (isError && thrown[key] !== undefined ? shared.text(thrown[key]) : otherwise)
        const name = part('name', 'Error')
        const message = isError ? part('message', shown(thrown)) : shared.text(thrown)
        const is_retry = name === 'RetryError' || thrown instanceof shared.RetryError
        return stringify({ __proto__: null, name, message, stack: part('stack', ''), is_retry })
    }
})
