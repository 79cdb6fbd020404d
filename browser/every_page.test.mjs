// Every page there is, in the light and in the dark, on a phone and on a desk.
import assert from 'node:assert/strict';
import { environment } from './helpers.mjs';
import { crawl, kindOf } from './crawl.mjs';
import { settled } from './seed.mjs';
import { heading, journey, says, signIn } from './journey.mjs';
import { LOOKS, accessible, keyboard, layout, lookAt, shape, unfold, weight } from './page_checks.mjs';

/** What the first page may weigh, with all that belongs to it. */
const MOST_BYTES = 100_000;

/** Kinds of pages that must be among those that were found, below an organization. */
const NEEDED = [
  '', 'members/', 'members/{id}/', 'members/{id}/remove/', 'invites/', 'invites/new/', 'teams/', 'teams/new/', 'teams/{n}/',
  'teams/{n}/delete/', 'domains/', 'domains/new/', 'domains/{id}/', 'domains/{id}/saml/', 'domains/{id}/oidc/', 'domains/{id}/checks/',
  'exports/', 'exports/new/', 'exports/new/s3/', 'exports/{id}/', 'exports/{id}/edit/', 'exports/{id}/test/', 'exports/{id}/preview/',
  'exports/{id}/runs/', 'exports/{id}/runs/{id}/', 'exports/{id}/backfills/', 'exports/{id}/backfills/new/',
  'exports/{id}/backfills/{id}/', 'apps/destinations/', 'apps/frontend/', 'apps/imports/', 'apps/destinations/catalog/',
  'apps/destinations/new/', 'apps/destinations/new/code/', 'apps/destinations/{n}/', 'apps/destinations/{n}/source/',
  'apps/destinations/{n}/configurations/{n}/', 'apps/destinations/{n}/configurations/{n}/logs/', 'activity/', 'settings/', 'delete/',
];
const OUTSIDE = [
  '/organizations/', '/organizations/new/', '/account/', '/account/password/', '/account/two-factor/', '/account/sessions/',
  '/account/keys/', '/account/keys/new/', '/account/keys/{id}/roll/', '/account/keys/{id}/delete/', '/docs/', '/docs/saml/', '/docs/destinations/{page}/',
];
const BEFORE = ['/login/', '/login/recovery/', '/reset/'];

/** Everything that holds for an open page. */
const faults = async (page, kind) => {
  const found = await shape(page);
  await unfold(page);
  for (const look of LOOKS) {
    await lookAt(page, look);
    const seen = [...await layout(page), ...await accessible(page)];
    found.push(...seen.map((fault) => `${fault} (${look.width} pixels, ${look.colorScheme})`));
  }
  return found.map((fault) => `${kind}: ${fault}`);
};

const LONG = { limit: 1_200_000 };

journey('every page inside holds at every width, in the light and in the dark', async (visitor) => {
  const place = await settled('Northwind');
  const page = await visitor(environment.owner);
  const found = [];
  const kinds = await crawl(page, [place.page(), `${environment.site}/organizations/`, `${environment.site}/account/`], async ({ kind, url, status }) => {
    if (status >= 400) found.push(`${kind}: ${status} at ${url}`);
    found.push(...await faults(page, kind));
  });
  const needed = [...NEEDED.map((below) => kindOf(place.page(below).replaceAll('{id}', ID).replaceAll('{n}', '7'))), ...OUTSIDE];
  for (const kind of needed.filter((kind) => !kinds.includes(kind))) found.push(`no link leads to ${kind}`);
  assert.deepEqual(found, []);
}, LONG);

/** Stands for any. */
const ID = '00000000-0000-0000-0000-000000000000';

journey('every page on the way in holds, too', async (visitor) => {
  const page = await visitor();
  const found = [];
  const kinds = await crawl(page, [`${environment.site}/login/`, `${environment.site}/reset/`], async ({ kind }) => found.push(...await faults(page, kind)));
  for (const kind of BEFORE.filter((kind) => !kinds.includes(kind))) found.push(`no link leads to ${kind}`);
  assert.deepEqual(found, []);
}, LONG);

journey('menus open over the page, one at a time, and stay within the window', async (visitor) => {
  const place = await settled('Northwind');
  const page = await visitor(environment.owner);
  await page.goto(place.page());
  for (const look of LOOKS) {
    await lookAt(page, look);
    for (const menu of await page.locator('details.drop > summary').all()) {
      await menu.click();
      const body = page.locator('details.drop[open] .drop-body');
      assert.equal(await body.count(), 1);
      const { x, width } = await body.boundingBox();
      assert.ok(x >= 0 && x + width <= look.width, `${x} and ${width} in ${look.width}`);
      assert.deepEqual(await accessible(page), []);
      await page.keyboard.press('Escape');
      assert.equal(await body.count(), 0);
    }
  }
});

journey('the keyboard reaches everything on the main pages', async (visitor) => {
  const place = await settled('Northwind');
  const page = await visitor(environment.owner);
  const found = [];
  for (const below of ['', 'members/', 'invites/new/', 'exports/', 'exports/new/s3/', 'domains/', 'apps/destinations/', 'apps/destinations/new/code/', 'activity/', 'settings/']) {
    await page.goto(place.page(below));
    found.push(...(await keyboard(page)).map((fault) => `${below}: ${fault}`));
  }
  await page.goto(`${environment.site}/account/keys/new/`);
  found.push(...(await keyboard(page)).map((fault) => `keys: ${fault}`));
  assert.deepEqual(found, []);
  await page.goto(place.page('members/'));
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main', 'the first link leads past the menu');
});

journey('what was just done has the focus, and the way past the menu stays', async (visitor) => {
  const place = await settled('Northwind');
  const page = await visitor(environment.owner);
  await page.goto(place.page('settings/'));
  await page.getByRole('button', { name: 'Save settings' }).click();
  await says(page, 'Saved.');
  assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Saved.');
  assert.deepEqual(await faults(page, 'settings/?done=saved'), []);
  await page.locator('a.skip').focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
});

journey('the first page weighs little', async (visitor) => {
  const stranger = await visitor();
  const login = await weight(stranger, `${environment.site}/login/`);
  const place = await settled('Northwind');
  const owner = await visitor();
  await signIn(owner, environment.owner);
  const overview = await weight(owner, place.page());
  await heading(owner, place.name);
  assert.ok(login > 1000 && login < MOST_BYTES, `signing in: ${login} bytes`);
  assert.ok(overview > 1000 && overview < MOST_BYTES, `the overview: ${overview} bytes`);
});

journey('what cannot be found says so on a page that holds', async (visitor) => {
  const page = await visitor(environment.owner);
  for (const path of ['/nothing/here/', '/organizations/00000000-0000-0000-0000-000000000000/members/']) {
    assert.equal((await page.goto(`${environment.site}${path}`)).status(), 404);
    assert.deepEqual(await faults(page, path), []);
  }
}, { allow: [/status of 404/] });
