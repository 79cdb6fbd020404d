// Fills in the identity provider's form, as somebody would.
import { axe, journey } from '../../external/browser.mjs';

await journey(async (page) => {
  await page.goto(process.env.SSO_URL);
  const found = await axe(page);
  if (found.length > 0) throw new Error(found.join('\n'));
  await page.getByLabel('Email').fill('zoe@example.test');
  await page.getByLabel('First name').fill('Zoë');
  // Stands for the service, which has no part in this.
  await page.route(process.env.ACS, (route) =>
    route.fulfill({ contentType: 'text/html', body: '<title>Signed in</title><h1>Signed in</h1>' }));
  const posted = page.waitForRequest(process.env.ACS);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Signed in' }).waitFor();
  const fields = new URLSearchParams((await posted).postData());
  console.log(Buffer.from(fields.get('SAMLResponse'), 'base64').toString());
});
