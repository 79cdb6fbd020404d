// Pictures of the main pages for the README and the docs, of an organization in which a good deal has happened.
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { launch, page as opened } from '../crates/testkit/external/browser.mjs';
import { begin } from './environment.mjs';

const FOLDER = process.env.BROWSER_PICTURES;
/** A picture that is larger makes the README slow. */
const MOST_BYTES = 200_000;
const DESK = { viewport: { width: 1440, height: 900 } };
const PHONE = { viewport: { width: 375, height: 760 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

/** Follows links by their words, as somebody does; the last of several of the same name. */
const through = (...names) => async (page) => {
  for (const name of names) {
    const link = page.locator('main').getByRole('link', { name }).first();
    await link.click();
    await page.waitForLoadState('networkidle');
  }
};

/** The days that have something to show are the last ones. */
const calendar = async (page) => {
  await through('Events to the lake', 'Backfills', 'New backfill')(page);
  await page.evaluate(() => {
    const { bottom } = document.getElementById('calendar').getBoundingClientRect();
    scrollBy(0, bottom - innerHeight + 24);
  });
};

const PICTURES = [
  { name: 'overview', below: '' },
  { name: 'overview-dark', below: '', colorScheme: 'dark' },
  { name: 'overview-phone', below: '', look: PHONE },
  { name: 'members', below: 'members/' },
  { name: 'invites', below: 'invites/new/', act: (page) => page.getByLabel('Email addresses').fill('Ann Lee <ann@example.com>\nben@example.com, cia@example.com') },
  { name: 'domains', below: 'domains/' },
  { name: 'domain', below: 'domains/', act: through(/^shop\./) },
  { name: 'exports', below: 'exports/' },
  { name: 'exports-dark', below: 'exports/', colorScheme: 'dark' },
  { name: 'exports-phone', below: 'exports/', look: PHONE },
  { name: 'export', below: 'exports/', act: through('Events to the lake') },
  { name: 'export-new', below: 'exports/new/s3/' },
  { name: 'export-backfill', below: 'exports/', act: calendar },
  { name: 'export-run', below: 'exports/', act: through('Events to the lake', 'All runs', /\d{2}:\d{2}/) },
  { name: 'apps', below: 'apps/' },
  { name: 'app-source', below: 'apps/', act: through('Tell the chat', 'Source code', 'index.ts') },
  { name: 'app-dark', below: 'apps/', act: through('Tell the chat'), colorScheme: 'dark' },
  { name: 'activity', below: 'activity/' },
  { name: 'keys', at: '/account/keys/' },
  { name: 'key-phone', at: '/account/keys/new/', look: PHONE, colorScheme: 'dark' },
];

const { environment, end } = await begin();
process.env.BROWSER_ENVIRONMENT = JSON.stringify(environment);
let browser;
try {
  // These look for the server when they are loaded.
  const [{ settled }, { signIn }] = await Promise.all([import('./seed.mjs'), import('./journey.mjs')]);
  const place = await settled('Field and Fern');
  browser = await launch();
  mkdirSync(FOLDER, { recursive: true });
  const failures = [];
  for (const { name, below, at, look = DESK, colorScheme = 'light', act } of PICTURES) {
    const page = await opened(browser, { ...look, colorScheme, reducedMotion: 'reduce', failures });
    await signIn(page, environment.owner);
    await page.goto(at ? `${environment.site}${at}` : place.page(below));
    await act?.(page);
    const path = join(FOLDER, `${name}.png`);
    await page.screenshot({ path });
    const { size } = statSync(path);
    console.log(`${name}.png: ${Math.round(size / 1000)} kB`);
    if (size > MOST_BYTES) failures.push(`${name}.png has ${size} bytes`);
    await page.context().close();
  }
  if (failures.length > 0) throw new Error(failures.join('\n'));
} finally {
  await browser?.close();
  await end();
}
// The browser's own helpers would keep us here.
process.exit(0);
