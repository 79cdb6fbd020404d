// A batch export to a bucket, from the wizard to the rows that arrive.
import assert from 'node:assert/strict';
import { capture, delivered, organization, spread, environment } from '../helpers.mjs';
import { shopping } from '../seed.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';

const EVENTS = 120;

const fillIn = async (page, { secret }) => {
  const { endpoint, bucket, key } = environment.objects;
  await page.getByLabel('Name', { exact: true }).fill('To the lake');
  await page.getByLabel('Frequency').selectOption('hour');
  await page.getByLabel('Bucket', { exact: true }).fill(bucket);
  await page.getByLabel('Region', { exact: true }).fill('us-east-1');
  await page.getByLabel('Prefix', { exact: true }).fill('journey');
  await page.getByLabel(/^Endpoint/).fill(endpoint);
  await page.getByLabel(/^Access key ID/).fill(key);
  await page.getByLabel(/^Secret access key/).fill(secret);
};

journey('an export to S3 is set up, tested, filled from the calendar, and delivers', async (visitor) => {
  const place = await organization('Lake');
  await capture(place, shopping(EVENTS));
  spread(place, 6);
  const page = await visitor(environment.owner);
  await page.goto(place.page());
  await page.getByRole('link', { name: 'Batch exports', exact: true }).first().click();
  await page.getByRole('link', { name: 'New export' }).click();
  await page.getByRole('link', { name: 'Amazon S3' }).click();
  await heading(page, 'New export: Amazon S3');
  await fillIn(page, { secret: 'not the secret' });
  await page.getByRole('button', { name: 'Test connection' }).click();
  await page.getByText('Connection test failed.').waitFor({ timeout: 60_000 });
  await page.getByLabel(/^Secret access key/).fill(environment.objects.secret);
  await page.getByRole('button', { name: 'Test connection' }).click();
  await page.getByText('Connection test passed.').waitFor({ timeout: 60_000 });
  await page.getByRole('button', { name: 'Create export' }).click();
  await says(page, 'Export created');
  const overview = page.url().split('?')[0];

  await page.getByRole('link', { name: 'Preview' }).click();
  await page.getByRole('region', { name: 'First rows' }).getByText('order placed').first().waitFor();
  await page.goto(overview);

  // The range is picked with two clicks: the first gap, and the last.
  await page.getByRole('link', { name: 'Backfills' }).click();
  await page.getByRole('link', { name: 'New backfill' }).click();
  const gaps = page.locator('.calendar a.cell-gap');
  const count = await gaps.count();
  assert.ok(count >= 2, `${count} hours can be filled`);
  await gaps.first().click();
  await page.locator('.cell-chosen').first().waitFor();
  await page.locator('.calendar a.cell-gap').last().click();
  await page.getByRole('status').filter({ hasText: /\d/ }).waitFor();
  await page.getByRole('button', { name: 'Start backfill' }).click();
  await says(page, 'Backfill started');
  // It continues automatically, and so does the page.
  await page.locator('#progress').getByText('Completed', { exact: true }).waitFor({ timeout: 90_000 });

  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  const rows = page.getByRole('row').filter({ hasText: 'Succeeded' });
  assert.ok((await rows.count()) >= 2);
  const sent = (await rows.locator('td[data-label="Rows"]').allInnerTexts()).map((text) => Number(text.replace(/\D/g, '')));
  await rows.getByRole('link').first().click();
  await page.getByRole('heading', { name: /^Run of / }).waitFor();
  await page.locator('#logs').getByRole('row').nth(1).waitFor();
  const files = [...delivered('journey')].filter(([name]) => name.includes('.jsonl'));
  const lines = files.flatMap(([, text]) => text.trim().split('\n'));
  assert.equal(lines.length, sent.reduce((sum, rows) => sum + rows, 0), 'what the pages say has arrived');
  assert.ok(lines.length > 0 && lines.every((line) => JSON.parse(line).event));

  await page.goto(overview);
  await page.getByRole('link', { name: 'Latest run' }).click();
  await page.getByRole('heading', { name: /^Run of / }).waitFor();
  await page.goto(overview);
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await says(page, 'Export paused');
  await page.getByRole('button', { name: 'Resume' }).click();
  await says(page, 'Export resumed');
}, { allow: [REFUSED] });
