// An app is written in the browser, refused, mended, set up, and heard.
import assert from 'node:assert/strict';
import { capture, organization, world } from '../around.mjs';
import { CHAT, shopping } from '../garden.mjs';
import { until } from '../processes.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';
import { LOOKS, accessible, layout, lookAt } from '../look.mjs';

journey('a destination app is written, mended, set up, and says what it does', async (visitor) => {
  const place = await organization('Chat');
  const page = await visitor(world.owner);
  await page.goto(place.page());
  await page.getByRole('link', { name: 'Apps', exact: true }).first().click();
  await page.getByRole('link', { name: 'Write one here' }).click();
  await page.getByLabel('index.ts', { exact: true }).fill('export function onEvent(event) {\n    console.info(\n}\n');
  await page.getByLabel('plugin.json', { exact: true }).fill(CHAT['plugin.json']);
  await page.getByRole('button', { name: 'Save the app' }).click();
  // The loader's own words, with the line.
  await page.locator('#code-problem').waitFor();
  await page.getByRole('link', { name: /^See line \d+/ }).waitFor();
  assert.match(await page.getByLabel('index.ts', { exact: true }).inputValue(), /onEvent/, 'what was typed is still there');
  await page.getByLabel('index.ts', { exact: true }).fill(CHAT['index.ts']);
  await page.getByRole('button', { name: 'Save the app' }).click();
  await says(page, 'The app is there');
  await heading(page, 'Tell the chat');
  const overview = page.url().split('?')[0];

  await page.getByRole('link', { name: 'Set up for a team' }).click();
  await page.getByLabel('On', { exact: true }).check();
  await page.getByLabel(/^Channel/).fill('harvest');
  await page.getByLabel(/^A secret of the chat/).fill('nobody may see this');
  await page.getByRole('button', { name: 'Set up', exact: true }).click();
  await says(page, 'The configuration is there');
  assert.ok(!(await page.content()).includes('nobody may see this'));

  await capture(place, shopping(20));
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  await heading(page, 'Logs');
  await until('the app is heard', async () => {
    await page.getByRole('link', { name: 'Refresh' }).click();
    return page.getByText('for #harvest').first().isVisible();
  }, 60_000);

  await page.goto(`${overview}source/`);
  await heading(page, 'Source');
  await page.getByLabel('index.ts', { exact: true }).fill(CHAT['index.ts'].replace('an order of', 'a purchase of'));
  await page.getByRole('button', { name: 'Save index.ts' }).click();
  await says(page, 'The code loads');
  await page.goto(overview);
  await page.getByRole('link', { name: /^Go to this version/ }).click();
  const lines = page.getByRole('region', { name: 'What is different in index.ts' });
  await lines.getByText(/^\+ .*an order of/).waitFor();
  await lines.getByText(/^− .*a purchase of/).waitFor();
  for (const look of LOOKS) {
    await lookAt(page, look);
    assert.deepEqual([...await layout(page), ...await accessible(page)], []);
  }
  await page.locator('main').getByRole('button').first().click();
  await says(page, 'The app has the other code again');
}, { allow: [REFUSED] });
