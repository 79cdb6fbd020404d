// Loads an app, finds what it offers, and calls it.
(function (native, shared) {
    'use strict'

    const { parse, stringify } = JSON
    const settled = Promise.resolve.bind(Promise)
    const failed = Promise.reject.bind(Promise)
    const { create, defineProperty, freeze, keys } = Object

    const METHODS = [
        'setupPlugin',
        'teardownPlugin',
        'onEvent',
        'processEvent',
        'composeWebhook',
        'getSettings',
        'exportEvents',
        'onAction',
        'onSnapshot',
    ]
    const TASKS = ['runEveryMinute', 'runEveryHour', 'runEveryDay']
    const OTHERS = ['processEventBatch', 'jobs', 'metrics']
    const KNOWN = [...METHODS, ...TASKS, ...OTHERS]
    const METRICS_OF_EXPORTS = [
        'events_seen',
        'events_delivered_successfully',
        'undelivered_events',
        'retry_errors',
        'other_errors',
    ]

    const modules = { __proto__: null }
    // Where the app's functions may be, the first place first.
    let places = []
    let meta

    const isObject = (value) => typeof value === 'object' && value !== null

    function imported(importer, specifier) {
        const target = native.resolve(importer, String(specifier))
        if (target === undefined) throw new Error(`Cannot import '${specifier}': apps can only import literal names`)
        const [kind, name] = [target.slice(0, target.indexOf(':')), target.slice(target.indexOf(':') + 1)]
        if (kind === 'file') return load(name).exports
        return kind === 'package' ? shared.packages[name] : shared.absent(name)
    }

    // Whoever imports by name or the default gets both from what was not written as a module, too.
    function asModule(value) {
        const isModule = (isObject(value) || typeof value === 'function') && value.__esModule
        if (isModule) return value
        const inherited = isObject(value) || typeof value === 'function' ? value : null
        return create(inherited, { default: { value } })
    }

    function load(name) {
        if (modules[name]) return modules[name]
        const exports = {}
        const module = { exports, first: exports, declared: undefined }
        if (native.isEsm(name)) defineProperty(exports, '__esModule', { value: true })
        modules[name] = module
        const require = (specifier) => imported(name, specifier)
        const importNames = (specifier, names) => {
            const value = imported(name, specifier)
            return names === undefined ? value : asModule(value)
        }
        const importLater = async (specifier) => asModule(imported(name, specifier))
        const exportAll = (source) => {
            for (const key of keys(source)) {
                if (key === 'default' || key in exports) continue
                defineProperty(exports, key, { enumerable: true, configurable: true, get: () => source[key] })
            }
        }
        try {
            const body = native.compile(name)
            module.declared = body.call(exports, exports, require, module, importNames, exportAll, importLater, {})
        } catch (error) {
            delete modules[name]
            throw error
        }
        return module
    }

    // Everything global counts only if nothing was exported.
    function placesOf(entry) {
        const { first, exports, declared } = entry
        const exported = [first, first.default, exports].filter(isObject)
        if (exported.some((place) => keys(place).length > 0)) return exported
        const global = { ...declared }
        for (const name of KNOWN) {
            if (!(name in global) && Object.hasOwn(globalThis, name)) global[name] = globalThis[name]
        }
        return [global]
    }

    function find(name) {
        for (let i = 0; i < places.length; i += 1) if (places[i][name]) return places[i][name]
        return undefined
    }
    const has = (name) => typeof find(name) === 'function'

    function gathered(name, isWanted) {
        const all = { __proto__: null }
        for (const place of [...places].reverse()) {
            const group = place[name]
            if (!isObject(group)) continue
            for (const key of keys(group)) if (isWanted(group[key])) all[key] = group[key]
        }
        return all
    }

    function methodsFound() {
        const isThere = (name) =>
            has(name) ||
            (name === 'onEvent' && has('exportEvents')) ||
            (name === 'processEvent' && has('processEventBatch'))
        return METHODS.filter(isThere)
    }

    function metricsFound() {
        const metrics = gathered('metrics', (value) => typeof value === 'string')
        for (const name of keys(metrics)) metrics[name] = metrics[name].toLowerCase()
        if (has('exportEvents')) for (const name of METRICS_OF_EXPORTS) metrics[name] = 'sum'
        return metrics
    }

    shared.load = (entry, given) => {
        const told = parse(given)
        meta = shared.makeMeta(told)
        globalThis.posthog = freeze(shared.makePosthog(told))
        shared.found = { jobs: { __proto__: null }, metrics: { __proto__: null } }
        places = placesOf(load(entry))
        const jobs = gathered('jobs', (value) => typeof value === 'function')
        shared.found = { jobs, metrics: metricsFound() }
        return stringify({
            methods: methodsFound(),
            scheduled_tasks: TASKS.filter(has),
            jobs: keys(jobs).sort(),
            metrics: shared.found.metrics,
            exports_events: has('exportEvents'),
        })
    }

    // Whoever processes events by the batch processes one at a time, too.
    function inBatches(name) {
        if (name !== 'processEvent' || !has('processEventBatch')) return undefined
        return async (event, given) => (await find('processEventBatch')([event], given))?.[0]
    }

    // Whoever is not asynchronous returns its value, and not the promise of one, which would take another turn.
    shared.call = (kind, name, line) => {
        try {
            const values = parse(line)
            const call = kind === 'job' ? shared.found.jobs[name] : (find(name) ?? inBatches(name))
            if (typeof call !== 'function') throw new Error(`The app has no ${name}`)
            const outcome = call(...values, meta)
            return isObject(outcome) || typeof outcome === 'function' ? settled(outcome) : outcome
        } catch (error) {
            return failed(error)
        }
    }

    // `exportEvents` gets events by the batch. The batch is whatever was sent together.
    shared.exportEvents = async (lines) => {
        const events = parse(lines).map(([event]) => event)
        const ignored = String(meta.config.exportEventsToIgnore ?? '').split(',').map((name) => name.trim())
        const batch = events.filter(({ event }) => !ignored.includes(event))
        if (has('onEvent')) for (const event of events) await find('onEvent')(event, meta)
        if (batch.length === 0) return
        const count = (name) => shared.changeMetric(name, 'increment', batch.length)
        await count('events_seen')
        try {
            await find('exportEvents')(batch, meta)
        } catch (error) {
            const isRetry = error instanceof shared.RetryError
            await count(isRetry ? 'retry_errors' : 'other_errors')
            if (!isRetry) await count('undelivered_events')
            throw error
        }
        await count('events_delivered_successfully')
    }
})
