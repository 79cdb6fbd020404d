// Finds every kind of page by following links, as somebody does who clicks on everything once.

/** Paths that look alike are of one kind: ids and numbers are what differs, and names in a folder of the documentation. */
export const kindOf = (url) => {
  const { pathname, searchParams } = new URL(url);
  const path = pathname
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '{id}')
    .replace(/\/\d{4}-\d{2}-\d{2}(?=\/|$)/g, '/{day}')
    .replace(/\/\d+(?=\/|$)/g, '/{n}')
    .replace(/^\/docs\/(\w+)\/[^/]+\/$/, '/docs/$1/{page}/');
  // What the page says about what has just happened, and where in a list one is, make no other page.
  const asked = [...new Set(searchParams.keys())].filter((name) => !['done', 'page', 'next'].includes(name)).sort();
  return asked.length > 0 ? `${path}?${asked.join('&')}` : path;
};

/** What is no page of the console, or leads out of it. */
const OTHERS = ['/api/', '/assets/', '/saml/', '/oidc/', '/sso/'];
const isPage = (url, site) => url.origin === site && !OTHERS.some((path) => url.pathname.startsWith(path));

const linksOf = (page) => page.evaluate(() =>
  [...document.querySelectorAll('a[href]:not([download])')].map((link) => link.href.split('#')[0]));

/** Calls `visit` on each kind of page once, in the order in which they are found, and returns the kinds. */
export const crawl = async (page, starts, visit) => {
  const site = new URL(starts[0]).origin;
  const known = new Map(starts.map((url) => [kindOf(url), url]));
  const visited = new Set();
  const queue = [...starts];
  while (queue.length > 0) {
    const url = queue.shift();
    const answer = await page.goto(url);
    // A page may lead on to another, which then counts under its own name.
    const kind = kindOf(page.url());
    if (visited.has(kind)) continue;
    visited.add(kind);
    await visit({ kind, url, status: answer.status() });
    for (const link of await linksOf(page)) {
      const next = new URL(link, site);
      if (!isPage(next, site) || known.has(kindOf(link))) continue;
      known.set(kindOf(link), link);
      queue.push(link);
    }
  }
  return [...visited];
};
