// The app that `cargo xtask bench apps` runs here and in each peer.

export async function setupPlugin({ global }) {
    global.seen = 0
}

export async function onEvent(event, { global }) {
    if (event.event.startsWith('$')) global.seen += 1
    global.last = { name: event.event, url: event.properties.$current_url, at: new Date().toISOString() }
}
