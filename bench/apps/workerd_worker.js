// What workerd runs: the app behind a request that holds a batch.

import { onEvent, setupPlugin } from 'app'

const meta = { global: {}, config: {} }
let isSetUp = false

export default {
    async fetch(request) {
        if (!isSetUp) {
            await setupPlugin(meta)
            isSetUp = true
        }
        const outcomes = []
        for (const event of await request.json()) {
            try {
                await onEvent(event, meta)
                outcomes.push(null)
            } catch (error) {
                outcomes.push(String(error))
            }
        }
        return Response.json(outcomes)
    },
}
