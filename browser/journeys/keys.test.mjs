// A key is made by picking what it should do, and does that and no more.
import assert from 'node:assert/strict';
import { organization, person, environment } from '../helpers.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';

const ask = (key, method, path) => fetch(`${environment.site}${path}`, { method, headers: { authorization: `Bearer ${key}` } });

journey('a key that only reads is made, reads, changes nothing, and is deleted', async (visitor) => {
  const place = await organization('Library');
  const kit = await person(place, { email: 'kit@library.test', first_name: 'Kit', level: 15 });
  const page = await visitor(kit);
  await page.goto(place.page());
  await page.locator('summary').filter({ hasText: 'Your account' }).click();
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByText('No API keys yet.').waitFor();
  await page.getByRole('link', { name: 'New key' }).click();
  // The safest purpose is chosen already, and what it does not need is out of sight.
  assert.ok(await page.getByLabel('Read-only').isChecked());
  assert.ok(!(await page.getByText('Custom permissions').isVisible()));
  await page.getByLabel('Label').fill('Reports');
  await page.getByLabel('Expiration').selectOption({ label: '30 days' });
  await page.getByRole('button', { name: 'Create key' }).click();
  await heading(page, 'Your new API key');
  const key = (await page.locator('code.secret').innerText()).trim();
  assert.match(key, /^hgr_/);
  const first = await page.locator('#first-request').innerText();
  assert.ok(first.startsWith(`export HEDGEROW_API_KEY='${key}'\ncurl '${environment.site}/api/organizations/'`), first);

  const below = `/api/organizations/${place.id}/`;
  for (const path of ['', 'members/', 'batch_exports/', 'pipeline_destinations/']) {
    assert.equal((await ask(key, 'GET', `${below}${path}`)).status, 200, path);
  }
  assert.equal((await ask(key, 'DELETE', below)).status, 403, 'it only reads');

  await page.getByRole('link', { name: "I've saved it" }).click();
  const row = page.getByRole('listitem').filter({ hasText: 'Reports' });
  assert.ok(!(await row.innerText()).includes(key));
  await row.getByText('organization:read').first().waitFor();
  await row.getByRole('link', { name: 'Delete Reports' }).click();
  await heading(page, 'Delete this key?');
  await page.getByRole('button', { name: 'Delete key' }).click();
  await says(page, 'Key deleted');
  assert.equal((await ask(key, 'GET', below)).status, 401, 'it is gone');
  await page.getByRole('link', { name: 'Your organization' }).click();
  await heading(page, 'Library');
}, { allow: [REFUSED] });

journey('a key for one kind of thing is put together by hand, also without a script', async (visitor) => {
  const place = await organization('Archive');
  const kim = await person(place, { email: 'kim@archive.test', first_name: 'Kim' });
  const signedIn = await visitor(kim);
  const state = await signedIn.context().storageState();
  const page = await visitor(null, { javaScriptEnabled: false, storageState: state });
  await page.goto(`${environment.site}/account/keys/new/`);
  await page.getByLabel('Label').fill('Backups');
  await page.getByLabel('Custom', { exact: true }).check();
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Choose at least one permission').waitFor();
  assert.equal(await page.getByLabel('Label').inputValue(), 'Backups');
  await page.getByRole('group', { name: 'Batch exports' }).getByLabel('Write').check();
  await page.getByRole('button', { name: 'Create key' }).click();
  await heading(page, 'Your new API key');
  const key = (await page.locator('code.secret').innerText()).trim();
  assert.equal((await ask(key, 'GET', `/api/organizations/${place.id}/batch_exports/`)).status, 200);
  assert.equal((await ask(key, 'GET', `/api/organizations/${place.id}/members/`)).status, 403);
}, { allow: [REFUSED] });
