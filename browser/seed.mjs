// An organization in which a good deal has happened already, with something of every kind in it.
import { LEVELS, api, capture, organization, person, putTxt, spread, environment } from './helpers.mjs';
import { until } from './processes.mjs';

const PEOPLE = [
  ['Ann', 'Lee', LEVELS.owner], ['Ben', 'Okafor', LEVELS.administrator], ['Cia', 'Marsh', LEVELS.administrator],
  ['Dan', 'Novak', LEVELS.member], ['Eve', 'Sato', LEVELS.member], ['Finn', 'Berg', LEVELS.member],
  ['Gia', 'Rossi', LEVELS.member], ['Hal', 'Wood', LEVELS.member], ['Ida', 'Quist', LEVELS.member],
];
const EVENTS = ['$pageview', 'signed up', 'order placed', 'order paid', 'feedback sent'];
const PLACES = ['/', '/pricing', '/orders/new', '/orders/1204', '/help'];

/** As many events as a small shop has in a few hours. */
export const shopping = (count) => Array.from({ length: count }, (_, number) => ({
  event: EVENTS[number % EVENTS.length],
  distinct_id: `visitor-${number % 37}`,
  properties: { $current_url: `https://shop.example${PLACES[number % PLACES.length]}`, price: (number % 90) + 0.5 },
}));

/** Tells a chat of each order: an app that says something and reaches nobody. */
export const CHAT = {
  'plugin.json': JSON.stringify({
    name: 'Tell the chat',
    description: 'Posts each order to the chat',
    config: [
      { key: 'channel', name: 'Channel', type: 'string', required: true, default: 'orders', hint: 'Without the #.' },
      { key: 'token', name: 'A secret of the chat', type: 'string', secret: true },
      { key: 'mood', name: 'Mood', type: 'choice', choices: ['calm', 'cheerful'], default: 'calm' },
    ],
  }, null, 2),
  'index.ts': `export function onEvent(event: { event: string; distinct_id: string }, { config }) {
    if (event.event !== 'order placed') return
    console.info(\`an order of \${event.distinct_id}, for #\${config.channel}\`)
}
`,
};

const BANNER = {
  'plugin.json': JSON.stringify({ name: 'Banner', description: 'A line above every page', config: [{ key: 'text', name: 'Text', type: 'string', site: true, default: 'Open on Sunday' }] }),
  'site.ts': 'export function inject({ config }) { document.body.prepend(config.text) }\n',
};

const FEED = {
  'plugin.json': JSON.stringify({ name: 'Weather', description: 'The weather, every hour', config: [] }),
  'index.ts': 'export async function runEveryHour() { console.info("sunny") }\n',
};

export const toBucket = (prefix) => {
  const { endpoint, bucket, key, secret } = environment.objects;
  return {
    type: 'S3',
    config: {
      bucket_name: bucket, region: 'us-east-1', prefix, endpoint_url: endpoint, file_format: 'JSONLines', compression: 'gzip',
      aws_access_key_id: key, aws_secret_access_key: secret,
    },
  };
};

/** A session's cookie, for what takes a person and no key. */
export const session = async ({ email, password }) => {
  const answer = await fetch(`${environment.site}/api/login/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ email, password }),
  });
  if (!answer.ok) throw new Error(`signing in: ${answer.status} ${await answer.text()}`);
  return { cookie: answer.headers.getSetCookie()[0].split(';')[0] };
};

const people = async (place, name) => {
  for (const [first_name, last_name, level] of PEOPLE) {
    await person(place, { email: `${first_name}.${last_name}@${name}.test`.toLowerCase(), first_name, last_name, level });
  }
  const invited = ['jan', 'kim', 'lou'].map((who) => ({ target_email: `${who}@${name}.test`, level: LEVELS.member, send_email: false }));
  await place.api('POST', 'invites/bulk/', invited);
};

const domains = async (place, name) => {
  const proven = await place.api('POST', 'domains/', { domain: `${name}.test` });
  putTxt(proven.verification_record, proven.verification_challenge);
  await place.api('POST', `domains/${proven.id}/verify/`, {});
  await place.api('POST', 'domains/', { domain: `shop.${name}.test` });
};

const exports = async (place, name) => {
  const make = (rest) => place.api('POST', 'batch_exports/', rest);
  const backfilled = await make({ name: 'Events to the lake', interval: 'hour', destination: toBucket(`${name}/{year}/{month}`) });
  const files = await make({ name: 'A copy on disk', interval: 'every 15 minutes', destination: { type: 'File', config: { folder: name, compression: 'gzip' } } });
  // Nobody listens there.
  const broken = await make({
    name: 'Persons to the warehouse', interval: 'day', model: 'persons',
    destination: { type: 'Postgres', config: { host: '127.0.0.1', port: 9, database: 'shop', user: 'shop', password: 'wrong', schema: 'public', table_name: 'persons', has_self_signed_cert: true } },
  });
  await place.api('POST', `batch_exports/${broken.id}/pause/`, {});
  const { type, config } = toBucket(`${name}-partner`);
  const refused = await make({ name: 'Orders to the partner', interval: 'day', destination: { type, config: { ...config, aws_secret_access_key: 'an old one' } } });
  const all = [backfilled, files, refused];
  for (const { id } of all) await place.api('POST', `batch_exports/${id}/backfill/`, {});
  const isOver = async ({ id }) => {
    const { results } = await place.api('GET', `batch_exports/${id}/backfills/`);
    return results.every(({ status }) => status !== 'Running');
  };
  await until('the backfills are over', async () => (await Promise.all(all.map(isOver))).every(Boolean));
};

const apps = async (place) => {
  const made = [['pipeline_destinations', CHAT, { channel: 'orders' }], ['pipeline_frontend_apps', BANNER, {}], ['pipeline_import_apps', FEED, {}]];
  for (const [collection, source, config] of made) {
    const app = await place.api('POST', `${collection}/`, { plugin_type: 'source', source });
    await place.api('POST', `${collection}/${app.id}/configs/`, { enabled: true, config });
  }
};

const keys = async () => {
  const who = await session(environment.owner);
  const scopes = [['CI', ['organization:read', 'batch_export:read']], ['Backup script', ['batch_export:write']]];
  const made = await Promise.all(scopes.map(([label, scopes]) => api('POST', '/api/personal_api_keys/', { label, scopes }, who)));
  await api('GET', '/api/organizations/', null, { authorization: `Bearer ${made[0].value}` });
};

const grown = async (name) => {
  const place = await organization(name);
  const low = name.toLowerCase().replace(/\W+/g, '-');
  for (const [team, timezone] of [['Web shop', 'Europe/Berlin'], ['Mobile app', 'America/New_York']]) {
    await place.api('POST', 'teams/', { name: team, timezone });
  }
  await capture(place, shopping(600));
  spread(place, 30);
  await people(place, low);
  await domains(place, low);
  await exports(place, low);
  await apps(place);
  await keys();
  // A few more, for the app that is on by now.
  await capture(place, shopping(40));
  return place;
};

const seeds = new Map();

/** The same for whoever asks in one process: it takes a while to grow. */
export const settled = (name) => {
  if (!seeds.has(name)) seeds.set(name, grown(name));
  return seeds.get(name);
};
