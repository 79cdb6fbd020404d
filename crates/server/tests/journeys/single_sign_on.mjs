// Somebody signs in through the identity provider of their company, whatever its form asks for.
import { axe, journey } from '../../../testkit/external/browser.mjs';

const { SITE, EMAIL, WAY, IS_ENFORCED } = process.env;

await journey(async (page) => {
  await page.goto(`${SITE}/login/`);
  await page.getByLabel('Email').fill(EMAIL);
  await page.getByRole('button', { name: 'Continue' }).click();
  if (IS_ENFORCED === 'yes') {
    // The page continues automatically; there is no password to type.
    if ((await page.getByLabel('Password').count()) > 0) throw new Error('a password is asked for');
  } else {
    const found = await axe(page);
    if (found.length > 0) throw new Error(found.join('\n'));
    await page.getByRole('link', { name: `Continue with ${WAY}` }).click();
  }
  await page.getByLabel('Email', { exact: true }).fill(EMAIL);
  await page.getByLabel('First name').fill('Zoë');
  await page.getByLabel('Last name').fill('Zimmer');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'My organization', level: 1 }).waitFor();
  await page.goto(`${SITE}/account/`);
  await page.getByText(EMAIL, { exact: true }).waitFor();
});
