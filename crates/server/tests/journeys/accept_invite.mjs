// An invited person accepts, sets up an authenticator, signs out, and signs in with both.
import { axe, journey } from '../../../testkit/external/browser.mjs';
import { code } from './totp.mjs';

const { LINK, EMAIL, SITE } = process.env;
const PASSWORD = 'correct horse battery';

const expectAccessible = async (page) => {
  const found = await axe(page);
  if (found.length > 0) throw new Error(`${page.url()}\n${found.join('\n')}`);
};

await journey(async (page) => {
  await page.goto(LINK);
  await expectAccessible(page);
  await page.getByLabel('First name').fill('Ann');
  await page.getByLabel('Last name').fill('Lee');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Create account and join' }).click();
  await page.getByRole('heading', { name: 'My organization', level: 1 }).waitFor();
  await expectAccessible(page);

  await page.goto(`${SITE}/account/two-factor/`);
  await page.getByRole('button', { name: 'Set up' }).click();
  await expectAccessible(page);
  const secret = (await page.locator('code.secret').innerText()).trim();
  await page.getByLabel('Code').fill(code(secret));
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByRole('heading', { name: 'Backup codes' }).waitFor();
  await expectAccessible(page);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.goto(`${SITE}/login/`);
  await expectAccessible(page);
  await page.getByLabel('Email').fill(EMAIL);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Two-factor authentication' }).waitFor();
  await expectAccessible(page);
  // The present code was used already, and each is good once.
  await page.getByLabel('Code').fill(code(secret, 1));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'My organization', level: 1 }).waitFor();
});
