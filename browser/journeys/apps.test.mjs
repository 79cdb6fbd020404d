// An app is written in the browser, refused, fixed, set up, and run.
import assert from 'node:assert/strict';
import { capture, organization, environment } from '../helpers.mjs';
import { CHAT, shopping } from '../seed.mjs';
import { until } from '../processes.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';
import { LOOKS, accessible, layout, lookAt } from '../page_checks.mjs';

journey('a destination app is written, fixed, set up, and logs what it does', async (visitor) => {
  const place = await organization('Chat');
  const page = await visitor(environment.owner);
  await page.goto(place.page());
  await page.getByRole('link', { name: 'Apps', exact: true }).first().click();
  await page.getByRole('link', { name: 'Write custom code' }).click();
  await page.getByLabel('index.ts', { exact: true }).fill('export function onEvent(event) {\n    console.info(\n}\n');
  await page.getByLabel('plugin.json', { exact: true }).fill(CHAT['plugin.json']);
  await page.getByRole('button', { name: 'Create app' }).click();
  // The loader's own words, with the line.
  await page.locator('#code-problem').waitFor();
  await page.getByRole('link', { name: /^See line \d+/ }).waitFor();
  assert.match(await page.getByLabel('index.ts', { exact: true }).inputValue(), /onEvent/, 'what was typed is still there');
  await page.getByLabel('index.ts', { exact: true }).fill(CHAT['index.ts']);
  await page.getByRole('button', { name: 'Create app' }).click();
  await says(page, 'App created');
  await heading(page, 'Tell the chat');
  const overview = page.url().split('?')[0];

  await page.getByRole('link', { name: 'Set up for a team' }).click();
  await page.getByLabel('Enabled', { exact: true }).check();
  await page.getByLabel(/^Channel/).fill('harvest');
  await page.getByLabel(/^A secret of the chat/).fill('nobody may see this');
  await page.getByRole('button', { name: 'Set up', exact: true }).click();
  await says(page, 'Configuration created');
  assert.ok(!(await page.content()).includes('nobody may see this'));

  await capture(place, shopping(20));
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  await heading(page, 'Logs');
  await until('the app is heard', async () => {
    await page.getByRole('link', { name: 'Refresh' }).click();
    return page.getByText('for #harvest').first().isVisible();
  }, 60_000);

  await page.goto(`${overview}source/`);
  await heading(page, 'Source code');
  await page.getByLabel('index.ts', { exact: true }).fill(CHAT['index.ts'].replace('an order of', 'a purchase of'));
  await page.getByRole('button', { name: 'Save index.ts' }).click();
  await says(page, 'The app now runs the new code');
  await page.goto(overview);
  await page.getByRole('link', { name: /^Restore/ }).click();
  const lines = page.getByRole('region', { name: 'Changes in index.ts' });
  await lines.getByText(/^\+ .*an order of/).waitFor();
  await lines.getByText(/^− .*a purchase of/).waitFor();
  for (const look of LOOKS) {
    await lookAt(page, look);
    assert.deepEqual([...await layout(page), ...await accessible(page)], []);
  }
  await page.locator('main').getByRole('button').first().click();
  await says(page, 'Version restored');
}, { allow: [REFUSED] });
