// Does everything that must make a journey fail.
import { axe, journey } from '../../external/browser.mjs';

await journey(async (page) => {
  await page.goto(process.env.SSO_URL);
  await page.evaluate(() => {
    document.body.innerHTML = '<img src="data:,"><p>a picture without words</p>';
    const policy = document.createElement('meta');
    policy.httpEquiv = 'Content-Security-Policy';
    policy.content = "img-src 'none'";
    document.head.append(policy);
    setTimeout(() => { throw new Error('thrown by a script'); });
    console.error('said on the console');
    const refused = new Image();
    refused.src = '/refused.png';
    document.body.append(refused);
  });
  for (const outside of ['http://example.com/', 'http://192.0.2.1/']) {
    await page.evaluate((url) => fetch(url, { mode: 'no-cors' }).catch(() => {}), outside);
  }
  await page.goto(process.env.SSO_URL);
  await page.evaluate(() => { document.body.innerHTML = '<img src="data:,">'; });
  throw new Error((await axe(page)).join('\n'));
});
