// Inviting, joining, levels, leaving.
import assert from 'node:assert/strict';
import { LEVELS, PASSWORD, mailTo, organization, person, environment } from '../helpers.mjs';
import { REFUSED, heading, journey, says } from '../journey.mjs';

const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] };

journey('five people are invited at once, and one of them joins', async (visitor) => {
  const place = await organization('Orchard');
  const page = await visitor(environment.owner, CLIPBOARD);
  await page.goto(place.page());
  await page.getByRole('link', { name: 'Invite people' }).click();
  // As addresses are pasted from a mail or a sheet, with a mistake among them.
  await page.getByLabel('Email addresses').fill('Ann Lee <ann@orchard.test>, ben@orchard.test\ncia@orchard.test; dan at orchard\n');
  await page.getByRole('button', { name: 'Invite', exact: true }).click();
  await page.locator('.problem').first().waitFor();
  const typed = await page.getByLabel('Email addresses').inputValue();
  assert.match(typed, /ben@orchard\.test/, 'what was typed is still there');
  await page.getByLabel('Email addresses').fill(
    'Ann Lee <ann@orchard.test>, ben@orchard.test\ncia@orchard.test; dan@orchard.test\neve@orchard.test');
  await page.getByRole('button', { name: 'Invite', exact: true }).click();
  await heading(page, '5 invitations sent');
  await page.getByRole('button', { name: 'Copy link for ann@orchard.test' }).click();
  await page.getByText('Copied').waitFor();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /\/signup\//);
  assert.match((await mailTo('ben@orchard.test')).text, /Orchard/);

  const ann = await visitor();
  await ann.goto(link);
  await heading(ann, 'Join Orchard');
  assert.equal(await ann.getByLabel('First name').inputValue(), 'Ann');
  await ann.getByLabel('Last name').fill('Lee');
  await ann.getByLabel('Password').fill(PASSWORD);
  await ann.getByRole('button', { name: 'Create account and join' }).click();
  await says(ann, "You've joined the organization");

  await page.getByRole('link', { name: 'Done' }).click();
  await heading(page, 'Invites');
  assert.equal(await page.getByRole('row').count(), 1 + 4, 'four are still open');
  await page.getByRole('button', { name: 'Revoke the invite for eve@orchard.test' }).click();
  await says(page, 'Invite revoked');
  await page.getByRole('link', { name: 'Members', exact: true }).click();
  await page.getByRole('row').filter({ hasText: 'ann@orchard.test' }).waitFor();
}, { allow: [REFUSED] });

journey('a member gets another role, and is removed', async (visitor) => {
  const place = await organization('Ladder');
  const mia = await person(place, { email: 'mia@ladder.test', first_name: 'Mia', last_name: 'Moss' });
  await person(place, { email: 'max@ladder.test', first_name: 'Max', last_name: 'Moor' });
  const page = await visitor(environment.owner);
  await page.goto(place.page('members/'));
  await page.getByLabel('Name or email').fill('moss');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('1 member found').waitFor();
  await page.getByRole('link', { name: 'Mia Moss' }).click();
  await page.getByRole('combobox', { name: 'Role' }).selectOption(String(LEVELS.administrator));
  await page.getByRole('button', { name: 'Change role' }).click();
  await says(page, 'Role updated');
  const member = await place.api('GET', `members/?email=${mia.email}`);
  assert.equal(member.results[0].level, LEVELS.administrator);

  const hers = await visitor(mia);
  await hers.goto(place.page('settings/'));
  await hers.getByRole('button', { name: 'Save settings' }).waitFor();

  await page.getByRole('link', { name: 'Change history' }).click();
  await heading(page, 'Activity');
  await page.getByText('Mia Moss').first().waitFor();
  await page.goBack();
  await page.getByRole('link', { name: 'Remove…' }).click();
  await heading(page, 'Remove Mia Moss?');
  await page.getByRole('button', { name: 'Remove member' }).click();
  await says(page, 'Member removed');
  await hers.goto(place.page('settings/'));
  assert.notEqual(await hers.getByRole('heading', { level: 1 }).innerText(), 'Settings', 'she is out immediately');
}, { allow: [REFUSED] });
