// Bytes and text: Buffer, TextEncoder, TextDecoder, atob, btoa.
(function (native, shared) {
    'use strict'

    const { fromCharCode } = String
    const { setPrototypeOf } = Object
    const CHUNK = 4096

    // Bytes go to the process as text with a character for each, and come back as arrays.
    shared.binary = (bytes) => {
        let text = ''
        for (let i = 0; i < bytes.length; i += CHUNK) text += fromCharCode(...bytes.subarray(i, i + CHUNK))
        return text
    }

    const view = (value) => {
        if (value instanceof ArrayBuffer) return new Uint8Array(value)
        if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
        return undefined
    }
    shared.view = view

    const canonical = (encoding) => {
        const name = String(encoding ?? 'utf8').toLowerCase()
        switch (name) {
            case 'utf8':
            case 'utf-8':
                return 'utf8'
            case 'binary':
            case 'latin1':
            case 'ascii':
                return 'latin1'
            case 'hex':
            case 'base64':
            case 'base64url':
                return name
            default:
                throw new TypeError(`Unknown encoding: ${encoding}`)
        }
    }

    const decoded = (text, encoding) => {
        switch (canonical(encoding)) {
            case 'hex':
                return native.fromHex(text)
            case 'base64':
            case 'base64url':
                return native.fromBase64(text)
            case 'latin1':
                return native.fromLatin1(text)
            default:
                return native.fromText(shared.text(text))
        }
    }

    const encoded = (bytes, encoding) => {
        const binary = shared.binary(bytes)
        switch (canonical(encoding)) {
            case 'hex':
                return native.toHex(binary)
            case 'base64':
                return native.toBase64(binary, false)
            case 'base64url':
                return native.toBase64(binary, true)
            case 'latin1':
                return binary
            default:
                return native.toText(binary)
        }
    }

    class Buffer extends Uint8Array {
        static from(value, encoding, length) {
            if (typeof value === 'string') return setPrototypeOf(decoded(value, encoding), Buffer.prototype)
            if (value instanceof ArrayBuffer) return new Buffer(value, encoding, length)
            if (value?.type === 'Buffer' && Array.isArray(value.data)) return Buffer.from(value.data)
            return super.from(value)
        }

        static alloc(size, fill = 0) {
            return new Buffer(size).fill(fill)
        }

        static allocUnsafe(size) {
            return new Buffer(size)
        }

        static isBuffer(value) {
            return value instanceof Buffer
        }

        static byteLength(value, encoding) {
            return typeof value === 'string' ? decoded(value, encoding).length : value.byteLength
        }

        static concat(list, total) {
            const length = total ?? list.reduce((sum, item) => sum + item.length, 0)
            const whole = new Buffer(length)
            let offset = 0
            for (const item of list) {
                whole.set(item.subarray(0, length - offset), offset)
                offset += item.length
                if (offset >= length) break
            }
            return whole
        }

        toString(encoding, start = 0, end = this.length) {
            return encoded(this.subarray(start, end), encoding)
        }

        toJSON() {
            return { type: 'Buffer', data: Array.from(this) }
        }

        equals(other) {
            return this.length === other.length && this.every((byte, i) => byte === other[i])
        }

        slice(start, end) {
            return this.subarray(start, end)
        }

        write(text, offset = 0) {
            const bytes = decoded(text, 'utf8').subarray(0, this.length - offset)
            this.set(bytes, offset)
            return bytes.length
        }
    }
    shared.Buffer = Buffer
    shared.encoded = encoded
    shared.decoded = decoded
    globalThis.Buffer = Buffer

    globalThis.TextEncoder = class TextEncoder {
        get encoding() {
            return 'utf-8'
        }

        encode(text = '') {
            return native.fromText(shared.text(text))
        }
    }

    globalThis.TextDecoder = class TextDecoder {
        constructor(encoding = 'utf-8') {
            if (canonical(encoding) !== 'utf8') throw new RangeError(`Unknown encoding: ${encoding}`)
        }

        get encoding() {
            return 'utf-8'
        }

        decode(bytes) {
            return bytes === undefined ? '' : native.toText(shared.binary(view(bytes)))
        }
    }

    globalThis.btoa = (text) => native.toBase64(shared.binary(decoded(String(text), 'latin1')), false)
    globalThis.atob = (text) => shared.binary(decoded(String(text), 'base64'))
})
