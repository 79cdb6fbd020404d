// What holds for every page, whatever is on it. Each function returns what is wrong, one line each; none is what is wanted.
import { axe } from '../crates/testkit/external/browser.mjs';

/** A desk in the light and a phone in the dark: each width, and each set of colors. Neither changes what the other is about. */
export const LOOKS = [
  { width: 1440, colorScheme: 'light' },
  { width: 375, colorScheme: 'dark' },
];

/** Looks at an open page in one of these ways. */
export const lookAt = async (page, { width, colorScheme }) => {
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme });
};

/** What is folded away is part of the page. Menus lie over it, and are looked at by themselves. */
export const unfold = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll('main details')) details.open = true;
});

export const shape = (page) => page.evaluate(() => {
  const wrong = [];
  const headings = document.querySelectorAll('h1');
  if (headings.length !== 1) wrong.push(`${headings.length} main headings`);
  const skip = document.querySelector('a.skip');
  const main = document.querySelector('main');
  if (document.body.matches('.inside') && skip?.getAttribute('href') !== `#${main?.id}`) wrong.push('no way past the menu');
  if (!document.title.trim() || !document.documentElement.lang) wrong.push('no title or language');
  const inline = [...document.querySelectorAll('[style], script:not([src]), style')];
  const handlers = [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({ name }) => name.startsWith('on')));
  for (const one of [...inline, ...handlers]) wrong.push(`inline: ${one.outerHTML.slice(0, 120)}`);
  const seen = new Set();
  for (const { id } of document.querySelectorAll('[id]')) {
    if (seen.has(id)) wrong.push(`two elements have the id ${id}`);
    seen.add(id);
  }
  return wrong;
});

/** Nothing is wider than the window, and no two things that can be clicked lie on each other. */
export const layout = (page) => page.evaluate(() => {
  const wrong = [];
  const name = (one) => `${one.tagName.toLowerCase()} “${(one.innerText || one.name || one.id || '').trim().slice(0, 40)}”`;
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) {
    const wide = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
    wrong.push(`${width} pixels wide in a window of ${innerWidth}: ${wide.slice(-3).map(name).join(', ')}`);
  }
  const clickable = 'a[href], button, input:not([type="hidden"]), select, textarea, summary';
  const boxes = [...document.querySelectorAll(clickable)]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.matches('.skip'))
    // A link that goes over several lines has a box on each.
    .flatMap((one) => [...one.getClientRects()].map((box) => ({ one, box })))
    .filter(({ box }) => box.width > 1 && box.height > 1);
  const shared = (a, b) => Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
  for (const [place, { one, box }] of boxes.entries()) {
    for (const other of boxes.slice(place + 1)) {
      if (one === other.one || one.contains(other.one) || other.one.contains(one)) continue;
      if (shared(box, other.box) > 1.5) wrong.push(`${name(one)} and ${name(other.one)} overlap`);
    }
    if (box.right <= 0 || box.bottom + scrollY <= 0) wrong.push(`${name(one)} is out of sight`);
  }
  return wrong;
});

export const accessible = axe;

/** Tab leads to everything that can be used, and one sees where one is. */
export const keyboard = async (page) => {
  const most = await page.evaluate(() => {
    window.reached = new Set();
    document.body.focus();
    getSelection()?.removeAllRanges();
    return document.querySelectorAll('a[href], button, input, select, textarea, summary').length;
  });
  const wrong = [];
  for (let step = 0; step <= most; step += 1) {
    await page.keyboard.press('Tab');
    const unseen = await page.evaluate(() => {
      const here = document.activeElement;
      if (here === document.body || window.reached.has(here)) return null;
      window.reached.add(here);
      const style = getComputedStyle(here);
      const box = here.getBoundingClientRect();
      const isMarked = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
      return isMarked && box.width > 0 && box.height > 0 ? null : here.outerHTML.slice(0, 120);
    });
    if (unseen) wrong.push(`no sign of the focus: ${unseen}`);
  }
  const left = await page.evaluate(() => {
    const usable = 'a[href], button:not(:disabled), input:not([type="hidden"], :disabled), select, textarea, summary';
    const isReached = (one) => window.reached.has(one)
      // Arrow keys move within a group, and Tab leads to one of it.
      || (one.type === 'radio' && [...window.reached].some((other) => other.type === 'radio' && other.name === one.name));
    return [...document.querySelectorAll(usable)]
      .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !isReached(one))
      .map((one) => `Tab does not lead to ${one.outerHTML.slice(0, 120)}`);
  });
  return [...wrong, ...left];
};

/** How many bytes came over the wire until the page stood there, for somebody who was never here. */
export const weight = async (page, url) => {
  const requests = [];
  const tools = await page.context().newCDPSession(page);
  await tools.send('Network.enable');
  await tools.send('Network.setCacheDisabled', { cacheDisabled: true });
  page.on('requestfinished', (request) => requests.push(request));
  await page.goto(url, { waitUntil: 'networkidle' });
  const sizes = await Promise.all(requests.map((request) => request.sizes()));
  return sizes.reduce((sum, { responseBodySize, responseHeadersSize }) => sum + responseBodySize + responseHeadersSize, 0);
};
