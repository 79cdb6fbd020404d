// A domain is proven with a record in DNS.
import assert from 'node:assert/strict';
import { organization, putTxt, environment } from '../helpers.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';

journey('a domain is added, its record is put into DNS, and it is verified', async (visitor) => {
  const place = await organization('Meadow');
  const page = await visitor(environment.owner, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(place.page());
  await page.getByRole('link', { name: 'Domains', exact: true }).first().click();
  await page.getByRole('link', { name: 'Add a domain' }).click();
  await page.getByLabel('Domain', { exact: true }).fill('not a domain');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.locator('#domain-problem').waitFor();
  await page.getByLabel('Domain', { exact: true }).fill('meadow.test');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await says(page, 'Domain added');
  await page.getByText('Not verified').first().waitFor();

  // Too early: the page says what it saw instead.
  await page.getByRole('button', { name: 'Check now' }).click();
  await says(page, 'Record not found');
  const copied = async (name) => {
    await page.getByRole('button', { name: `Copy ${name}`, exact: true }).click();
    await page.getByText('Copied').waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const name = await copied('Name');
  await page.getByText('Copied').waitFor({ state: 'detached' });
  putTxt(name, await copied('Value'));
  await page.getByRole('button', { name: 'Check now' }).click();
  await says(page, 'Domain verified');
  const { results } = await place.api('GET', 'domains/');
  assert.deepEqual(results.map(({ domain, is_verified }) => [domain, is_verified]), [['meadow.test', true]]);

  await page.getByRole('link', { name: 'Run diagnostics' }).click();
  await page.getByRole('button', { name: 'Run diagnostics' }).click();
  await page.locator('main ol.rows > li').first().waitFor();
  await page.goto(place.page('domains/'));
  await heading(page, 'Domains');
  await page.getByRole('row').filter({ hasText: 'meadow.test' }).getByText('Verified').waitFor();
}, { allow: [REFUSED] });

journey('a domain becomes verified while somebody looks at it', async (visitor) => {
  const place = await organization('Pond');
  const { id, verification_record, verification_challenge } = await place.api('POST', 'domains/', { domain: 'pond.test' });
  const page = await visitor(environment.owner);
  await page.goto(place.page(`domains/${id}/`));
  putTxt(verification_record, verification_challenge);
  await place.api('POST', `domains/${id}/verify/`, {});
  // Nobody clicks: the page asks again automatically.
  await page.locator('#state').getByText('Verified', { exact: true }).waitFor();
});
