// A journey is a test in a real browser. It fails on what its people do not see, too: see `page` of testkit.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { launch, page as opened } from '../crates/testkit/external/browser.mjs';
import { PASSWORD, environment } from './helpers.mjs';

/** Long enough for a busy machine. */
const LIMIT = 180_000;

/** What a browser says of a form that was refused: journeys make mistakes on purpose. */
export const REFUSED = /status of 4\d\d/;

/** Signs in without the pages, for journeys that begin inside. */
export const signIn = async (page, { email, password = PASSWORD }) => {
  await page.goto(`${environment.site}/login/`);
  const status = await page.evaluate(async (who) => {
    const answer = await fetch('/api/login/', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(who),
    });
    return answer.status;
  }, { email, password });
  assert.equal(status, 200, `${email} signs in`);
};

/** A notice or a heading says what has happened; nothing else does, so a journey waits for it. */
export const says = (page, words) => page.getByRole('status').filter({ hasText: words }).waitFor();
export const heading = (page, name) => page.getByRole('heading', { name, level: 1 }).waitFor();

/**
 * Runs `visit` with a function that opens a page for another person, signed in if it is given who they are. If it
 * fails, all that they saw last is kept as pictures.
 */
export const journey = (name, visit, { allow = [], limit = LIMIT } = {}) => test(name, { timeout: limit }, async () => {
  const failures = [];
  const pages = [];
  const browser = await launch();
  const visitor = async (who, settings = {}) => {
    const page = await opened(browser, { viewport: { width: 1280, height: 900 }, ...settings, failures, allow });
    pages.push(page);
    if (who) await signIn(page, who);
    return page;
  };
  try {
    await visit(visitor, { browser, failures });
    assert.deepEqual(failures, []);
  } catch (error) {
    const seen = await Promise.all(pages.map((page, number) => kept(page, `${name} ${number + 1}`)));
    error.message += `\n${[...failures, ...seen].join('\n')}`;
    throw error;
  } finally {
    await browser.close();
  }
});

const kept = async (page, name) => {
  const folder = process.env.TESTKIT_SCREENSHOTS;
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name.replace(/\W+/g, '-')}.png`);
  await page.screenshot({ path, fullPage: true }).catch(() => {});
  return `at ${page.url()}, seen in ${path}`;
};
