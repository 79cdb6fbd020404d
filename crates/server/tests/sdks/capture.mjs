// The official SDK for Node, as a program uses it.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.env.TESTKIT_COMPONENTS, 'sdk-node', 'x.js'));
const { PostHog } = require('posthog-node');

const client = new PostHog(process.env.TOKEN, { host: process.env.SITE, flushAt: 20, flushInterval: 100 });
client.on('error', (error) => {
  console.error('the SDK could not send:', error);
  process.exit(1);
});

client.capture({
  distinctId: 'ann',
  event: 'bought',
  properties: { price: 7.5, items: ['a', 'b'], name: 'Zoë 😀', nested: { deep: null } },
  timestamp: new Date('2026-01-02T03:04:05.678Z'),
  uuid: '0198c2f6-a9b4-7c01-8000-0123456789ab',
});
client.identify({ distinctId: 'ann', properties: { plan: 'free', city: 'Berlin' } });
client.identify({ distinctId: 'ann', properties: { $set: { plan: 'paid' }, $set_once: { plan: 'never', first: 'site' } } });
client.capture({ distinctId: 'before-sign-in', event: 'seen' });
client.alias({ distinctId: 'bob', alias: 'before-sign-in' });
for (let number = 0; number < 200; number += 1) {
  client.capture({ distinctId: `many-${number % 7}`, event: 'counted', properties: { number } });
}
const flag = await client.getFeatureFlag('no-such-flag', 'ann');
if (flag) throw new Error(`a flag: ${flag}`);
await client.shutdown();
