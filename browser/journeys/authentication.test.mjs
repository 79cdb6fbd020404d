// Signing in, with a password alone and with a code from an authenticator app.
import assert from 'node:assert/strict';
import { code } from '../../crates/server/tests/journeys/totp.mjs';
import { organization, person, environment } from '../helpers.mjs';
import { REFUSED, heading, journey } from '../journey.mjs';

const typeIn = async (page, { email, password }) => {
  await page.goto(environment.site);
  await page.getByLabel('Email').fill(email);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
};

journey('somebody signs in, finds the organization, and signs out', async (visitor) => {
  const place = await organization('Gate');
  const gus = await person(place, { email: 'gus@gate.test', first_name: 'Gus', last_name: 'Gate' });
  const page = await visitor();
  await typeIn(page, { ...gus, password: 'not the password' });
  await page.locator('.problem, .alert').first().waitFor();
  await page.getByLabel('Password').fill(gus.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await heading(page, 'Gate');
  const menu = page.getByRole('navigation', { name: 'Gate' });
  assert.ok((await menu.getByRole('link').count()) >= 9, 'the menu leads everywhere');
  await page.locator('summary').filter({ hasText: 'Gus Gate' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You are signed out.').waitFor();
  await page.goto(place.page('members/'));
  await heading(page, 'Sign in');
}, { allow: [REFUSED] });

journey('somebody enables an authenticator and signs in with it', async (visitor) => {
  const place = await organization('Code');
  const cora = await person(place, { email: 'cora@code.test', first_name: 'Cora' });
  const page = await visitor(cora);
  await page.goto(place.page());
  await page.locator('summary').filter({ hasText: 'Your account' }).click();
  await page.getByRole('link', { name: 'Account', exact: true }).click();
  await page.getByRole('link', { name: 'Two-factor' }).click();
  await page.getByRole('button', { name: 'Set up' }).click();
  const secret = (await page.locator('code.secret').innerText()).trim();
  await page.getByLabel('Code').fill(code(secret));
  await page.getByRole('button', { name: 'Turn on' }).click();
  await heading(page, 'Backup codes');
  const backup = await page.getByRole('listitem').and(page.locator('.codes li')).first().innerText();

  const again = await visitor();
  await typeIn(again, cora);
  await heading(again, 'Two-factor authentication');
  // The present code was used already, and each is good once.
  await again.getByLabel('Code').fill(code(secret, 1));
  await again.getByRole('button', { name: 'Sign in' }).click();
  await heading(again, 'Code');

  const without = await visitor();
  await typeIn(without, cora);
  await without.getByLabel('Code').fill(backup.trim());
  await without.getByRole('button', { name: 'Sign in' }).click();
  await heading(without, 'Code');
});
