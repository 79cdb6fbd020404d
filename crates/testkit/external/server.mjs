// What our small servers for tests share: finding packages, listening on loopback, ending with the test, pages.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const installed = createRequire(`${process.env.TESTKIT_COMPONENTS}/node/`);

/** Where a package that `cargo xtask test` installed begins. Plain imports would look beside this file. */
export const pathOf = (name) => installed.resolve(name);

/** The package itself. */
export const load = (name) => import(pathToFileURL(pathOf(name)));

/** What the test asks for. */
export const options = () => JSON.parse(process.argv[2]);

export const text = (path) => readFileSync(path, 'utf8');

/** Ends when the test does, or when it drops its handle. */
export const endWithTest = () => process.stdin.on('end', () => process.exit()).resume();

/** Listens on a free port and returns the base address; requests are answered once there is a handler. */
export const listen = async () => {
  endWithTest();
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const base = `http://127.0.0.1:${server.address().port}`;
  const ready = (handler) => {
    server.on('request', handler);
    console.log('ready', JSON.stringify({ base }));
  };
  return { base, ready };
};

const escaped = (value) => String(value).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

const hiddenFields = (hidden) =>
  Object.entries(hidden)
    .map(([name, value]) => `<input type="hidden" name="${escaped(name)}" value="${escaped(value)}">`)
    .join('\n');

/** A form that asks who somebody is and sends these other fields along; on some pages one can also refuse. */
export const loginPage = (action, hidden, canCancel = false) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,"><title>Sign in</title></head><body><main>
<h1>Sign in</h1>
<form method="post" action="${escaped(action)}">
${hiddenFields(hidden)}
<p><label>Email <input name="email" type="email" required></label></p>
<p><label>First name <input name="first_name"></label></p>
<p><label>Last name <input name="last_name"></label></p>
<p><label>Identifier <input name="id"></label></p>
<p><button>Sign in</button>${canCancel ? ' <button name="cancel" formnovalidate>Cancel</button>' : ''}</p>
</form></main></body></html>`;

/** A form that sends itself. */
export const postingPage = (action, hidden) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,"><title>One moment</title></head><body>
<form method="post" action="${escaped(action)}">
${hiddenFields(hidden)}
<noscript><button>Go on</button></noscript>
</form><script>document.forms[0].submit()</script></body></html>`;
