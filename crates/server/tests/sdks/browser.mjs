// The official SDK for browsers, on a page of another site.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { journey } from '../../../testkit/external/browser.mjs';

const { SITE, TOKEN, TESTKIT_COMPONENTS } = process.env;
const sdk = readFileSync(join(TESTKIT_COMPONENTS, 'sdk-node/node_modules/posthog-js/dist/array.full.no-external.js'), 'utf8');

/** How many events the server has stored. */
const stored = async () => {
  const metrics = await (await fetch(`${SITE}/metrics`)).text();
  return Number(/^hedgerow_captured_events_total (\d+)/m.exec(metrics)?.[1] ?? 0);
};

await journey(async (page) => {
  const shop = createServer((_, answer) => {
    answer.setHeader('content-type', 'text/html');
    answer.end('<!doctype html><title>Shop</title><link rel="icon" href="data:,"><button>Buy</button>');
  });
  await new Promise((listening) => shop.listen(0, '127.0.0.1', listening));
  // By name, so that it is another site than the server, which is known by its address.
  await page.goto(`http://localhost:${shop.address().port}/`);
  const answers = [];
  page.on('response', (response) => answers.push(`${response.status()} ${new URL(response.url()).pathname}`));
  await page.addScriptTag({ content: sdk });
  await page.evaluate(([site, token]) => new Promise((loaded) => {
    // A visitor who is a program is ignored unless one asks for them.
    window.posthog.init(token, { api_host: site, loaded, person_profiles: 'always', opt_out_useragent_filter: true });
  }), [SITE, TOKEN]);
  const sent = page.waitForResponse((response) => new URL(response.url()).pathname === '/e/');
  await page.evaluate(() => {
    window.posthog.capture('looked', { shelf: 3 });
    window.posthog.identify('ann', { plan: 'free' }, { first: 'shop' });
    window.posthog.capture('bought', { price: 7.5, name: 'Zoë 😀' });
  });
  await page.getByRole('button', { name: 'Buy' }).click();
  await sent;
  const before = await stored();
  await page.evaluate(() => window.posthog.capture('left', {}));
  // Leaving sends what waits, and nobody sees the answer.
  await page.goto('about:blank');
  while ((await stored()) <= before) await page.waitForTimeout(20);
  const refused = answers.filter((answer) => !answer.startsWith('200'));
  if (refused.length > 0) throw new Error(`refused: ${refused.join(', ')}`);
});
