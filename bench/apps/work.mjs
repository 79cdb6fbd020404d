// The work that each engine does, and how it is measured: the same as in `crates/sandbox/examples/speed.rs`.

export const STARTS = 101
const BATCH = 1000
const ROUNDS = 20

function event(number) {
    return {
        event: '$pageview',
        distinct_id: `user-${number}`,
        team_id: 1,
        uuid: '0190a2b3-0000-7000-8000-000000000000',
        timestamp: '2024-06-01T12:00:00.000Z',
        properties: {
            $current_url: 'https://example.com/pricing?plan=large',
            $browser: 'Firefox',
            $os: 'Linux',
            $lib: 'web',
            $screen_width: 1920,
            $screen_height: 1080,
            number,
            list: [1, 2, 3],
            title: 'Pricing',
        },
    }
}

/** Hands over batches, each as one JSON text, and expects an outcome for each event. */
export async function rate(handOver) {
    const events = Array.from({ length: BATCH }, (_, number) => event(number))
    const begun = performance.now()
    for (let round = 0; round < ROUNDS; round++) {
        const outcomes = await handOver(JSON.stringify(events))
        if (outcomes.length !== BATCH || outcomes.some((outcome) => outcome !== null)) throw new Error(`${outcomes}`)
    }
    return Math.round((BATCH * ROUNDS * 1000) / (performance.now() - begun))
}

export async function median(starts, start) {
    const times = []
    for (let count = 0; count < starts; count++) {
        const begun = performance.now()
        const stop = await start()
        times.push(performance.now() - begun)
        await stop()
    }
    return times.sort((one, other) => one - other)[starts >> 1]
}
