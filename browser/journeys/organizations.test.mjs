// Organizations and their teams, from the first name to the end.
import assert from 'node:assert/strict';
import { environment } from '../helpers.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';

journey('an organization is made, gets a team, and is deleted by typing its name', async (visitor) => {
  const page = await visitor(environment.owner);
  await page.goto(`${environment.site}/organizations/`);
  await page.getByRole('link', { name: 'New organization' }).click();
  await page.getByLabel('Organization name').fill('Short-lived');
  await page.getByRole('button', { name: 'Create' }).click();
  await says(page, 'Organization created');
  const overview = page.url().split('?')[0];

  await page.getByRole('link', { name: 'Teams', exact: true }).first().click();
  await page.getByRole('link', { name: 'New team' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Web shop');
  await page.getByLabel('Time zone').fill('Nowhere/At all');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('#timezone-problem').waitFor();
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Web shop');
  await page.getByLabel('Time zone').fill('Europe/Berlin');
  await page.getByRole('button', { name: 'Create' }).click();
  await says(page, 'Team created');
  const token = await page.locator('#token').innerText();
  const taken = await fetch(`${environment.site}/capture/`, {
    method: 'POST', body: JSON.stringify({ api_key: token, event: 'hello', distinct_id: 'me' }),
  });
  assert.equal(taken.status, 200, 'the token lets events in');

  await page.getByRole('link', { name: 'Settings', exact: true }).click();
  await page.getByRole('link', { name: 'Delete…' }).click();
  await heading(page, 'Delete Short-lived?');
  await page.getByText('2 teams').waitFor();
  await page.getByLabel('Type “Short-lived” to confirm').fill('something else');
  await page.getByRole('button', { name: 'Delete organization' }).click();
  await page.locator('#confirmation-problem').waitFor();
  await page.getByLabel('Type “Short-lived” to confirm').fill('Short-lived');
  await page.getByRole('button', { name: 'Delete organization' }).click();
  await heading(page, 'Organizations');
  assert.equal(await page.getByRole('link', { name: 'Short-lived' }).count(), 0);
  assert.equal((await page.goto(overview)).status(), 404);
}, { allow: [REFUSED] });
