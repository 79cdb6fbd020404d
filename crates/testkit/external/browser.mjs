// A real browser for journeys through pages. It reaches nothing but loopback, and fails on what a visitor
// would not see but a developer should: console errors, refused content, scripts that throw.
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { endWithTest, load, pathOf, text } from './server.mjs';

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];
const LIMIT = 15_000;

/** Starts the browser. */
export const launch = async () => {
  const { default: { chromium } } = await load('playwright-core');
  return chromium.launch({
    executablePath: process.env.TESTKIT_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--no-proxy-server',
      `--host-resolver-rules=MAP * ~NOTFOUND, ${LOOPBACK.map((host) => `EXCLUDE ${host}`).join(', ')}`,
    ],
  });
};

const isOutside = (url) => /^(https?|wss?):$/.test(url.protocol) && !LOOPBACK.includes(url.hostname);

/** Opens a page for a new visitor. What goes wrong there is added to `failures`, unless one of `allow` matches it. */
export const page = async (browser, { failures = [], allow = [], ...settings } = {}) => {
  const context = await browser.newContext(settings);
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  const fail = (what) => allow.some((allowed) => allowed.test(what)) || failures.push(what);
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
      console.error(`refused by ${violatedDirective}: ${blockedURI}`));
  });
  page.on('console', (said) => said.type() === 'error' && fail(`console: ${said.text()} (${said.location().url})`));
  page.on('pageerror', (error) => fail(`script: ${error.stack}`));
  page.on('request', (request) => isOutside(new URL(request.url())) && fail(`left the machine: ${request.url()}`));
  return page;
};

/** What axe finds wrong on a page, one line each; none is what is wanted. */
export const axe = async (page) => {
  await page.evaluate(text(pathOf('axe-core')));
  const { violations } = await page.evaluate(() => window.axe.run());
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ target }) => `${id}: ${help} at ${target}`));
};

/** Runs one visit from start to end, and ends this process with its result. */
export const journey = async (visit, settings = {}) => {
  endWithTest();
  const failures = [];
  const browser = await launch();
  const visitor = await page(browser, { ...settings, failures });
  try {
    await visit(visitor, { browser, failures });
  } catch (error) {
    failures.push(error.stack);
  }
  if (failures.length > 0) {
    const folder = process.env.TESTKIT_SCREENSHOTS;
    const path = join(folder, `${basename(process.argv[1], '.mjs')}-${process.pid}.png`);
    mkdirSync(folder, { recursive: true });
    await visitor.screenshot({ path, fullPage: true }).catch(() => {});
    console.error([...failures, `at ${visitor.url()}, seen in ${path}`].join('\n'));
  }
  await browser.close();
  process.exit(failures.length > 0 ? 1 : 0);
};
