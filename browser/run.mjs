// Starts the server and its surroundings once, and goes through all journeys and pages; or only those that are named:
// `node browser/run.mjs keys every_page`.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { begin } from './environment.mjs';

const here = new URL('.', import.meta.url).pathname;
const named = process.argv.slice(2);
const isWanted = (path) => named.length === 0 || named.some((name) => path.endsWith(`/${name}.test.mjs`));
const tests = (folder) => readdirSync(folder).filter((name) => name.endsWith('.test.mjs')).sort().map((name) => join(folder, name));
const files = [...tests(here), ...tests(join(here, 'journeys'))].filter(isWanted);
if (files.length === 0) throw new Error(`there is no journey called ${named.join(' or ')}`);

const { environment, end, log } = await begin();
process.on('SIGTERM', () => process.exit(1));
process.env.BROWSER_ENVIRONMENT = JSON.stringify(environment);

const counted = { passed: 0, failed: 0 };
const report = run({ files, concurrency: 2 })
  .on('test:pass', () => { counted.passed += 1; })
  .on('test:fail', () => { counted.failed += 1; })
  .compose(new spec());
report.pipe(process.stdout);
await new Promise((done) => report.on('end', done));
// What the server did not like stands in its log, whatever the pages looked like.
const errors = log().split('\n').filter((line) => line.includes('"level":"ERROR"'));
await end();
if (errors.length > 0) console.error(`the server logged errors:\n${errors.join('\n')}`);
console.error(`${counted.passed} passed, ${counted.failed} failed`);
process.exit(counted.failed === 0 && errors.length === 0 && counted.passed >= files.length ? 0 : 1);
