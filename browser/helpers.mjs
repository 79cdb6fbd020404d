// What a journey finds around it, and does behind the pages: over the API, in the name server, in the store of events.
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run, until } from './processes.mjs';

const COMPONENTS = process.env.TESTKIT_COMPONENTS;
const SCRIPTS = new URL('../crates/testkit/external/', import.meta.url).pathname;

const { BROWSER_ENVIRONMENT } = process.env;
if (!BROWSER_ENVIRONMENT) throw new Error('there is no server to visit; `cargo xtask test` starts one');
export const environment = JSON.parse(BROWSER_ENVIRONMENT);

/** Everybody's, where it does not matter. */
export const PASSWORD = environment.owner.password;
export const LEVELS = { member: 1, administrator: 8, owner: 15 };

/** Calls the API; whatever is not well is an error. */
export const api = async (method, path, body, headers = { authorization: `Bearer ${environment.owner.key}` }) => {
  const answer = await fetch(`${environment.site}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
};

/** A new organization of the owner's, where nobody else's journey leads. */
export const organization = async (name) => {
  const { id, teams } = await api('POST', '/api/organizations/', { name });
  const team = await api('GET', `/api/organizations/${id}/teams/${teams[0].id}/`);
  return {
    id,
    name,
    team,
    page: (below = '') => `${environment.site}/organizations/${id}/${below}`,
    api: (method, below, body) => api(method, `/api/organizations/${id}/${below}`, body),
  };
};

/** Somebody who was invited and has joined. */
export const person = async (place, { email, first_name, last_name = '', level = LEVELS.member }) => {
  const invite = await place.api('POST', 'invites/', { target_email: email, first_name, level, send_email: false });
  const token = new URL(invite.invite_link).pathname.split('/').filter(Boolean).at(-1);
  const joined = await api('POST', `/api/signup/${token}/`, { first_name, last_name, password: PASSWORD }, {});
  return { email, password: PASSWORD, uuid: joined.uuid, name: `${first_name} ${last_name}`.trim() };
};

/** Sends events as a program does. */
export const capture = (place, events) =>
  api('POST', '/batch/', { api_key: place.team.api_token, batch: events }, {});

const AGE = `
import sqlite3, sys, time, zlib
path, team, hours = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
table = f"event_{team}"
db = sqlite3.connect(path, timeout=30)
# As crates/events/src/sqlite/checksum.rs makes it.
def number(value): return value.to_bytes(8, "little", signed=True)
def checksum(*values):
    parts = (number(value) if isinstance(value, int) else value if isinstance(value, bytes) else b"\\0" if value is None else value.encode() for value in values)
    return zlib.crc32(number(team) + b"".join(parts))
db.create_function("checksum_of", -1, checksum)
columns = "uuid, event, distinct_id, properties, elements_chain, timestamp, created_at, person_id, person_properties, person_properties_id, inserted_at"
span, now = int(hours * 3600e6), int(time.time() * 1e6)
(first, last), = db.execute(f"SELECT min(seq), max(seq) FROM {table}")
step = span // (last - first + 1)
with db:
    for column in ("inserted_at", "created_at", "timestamp"):
        db.execute(f"UPDATE {table} SET {column} = ? + (seq - ?) * ?", (now - span, first, step))
    db.execute(f"UPDATE {table} SET checksum = checksum_of({columns})")
`;

/** Lets the events of a team have come in one after the other over the last hours: nobody has time to wait for that. */
export const spread = (place, hours) =>
  run(join(COMPONENTS, 'python/bin/python'), ['-c', AGE, environment.events, String(place.team.id), String(hours)]);

/** Puts a record into the name server, as somebody does at the company that keeps their names. */
export const putTxt = (name, text) => {
  const knotc = (...words) => run('/usr/sbin/knotc', ['-s', environment.names.socket, ...words]);
  const { zone } = environment.names;
  knotc('zone-begin', zone);
  knotc('zone-set', zone, `${name.replace(/\.$/, '')}.`, '0', 'TXT', JSON.stringify(text));
  knotc('zone-commit', zone);
};

/** The first mail to somebody, which may still have to come. */
export const mailTo = (email) => until(`a mail to ${email}`, () => {
  const files = readdirSync(environment.mails).filter((name) => name.endsWith('.json')).sort();
  return files.map((name) => JSON.parse(readFileSync(join(environment.mails, name), 'utf8'))).find((mail) => mail.to.includes(email));
});

/** All that a reader finds in the bucket below a prefix: text by name. */
export const delivered = (prefix) => {
  const { endpoint, bucket, key, secret } = environment.objects;
  const folder = mkdtempSync(join(tmpdir(), 'hedgerow-delivered-'));
  try {
    const facts = JSON.parse(run(join(COMPONENTS, 'moto/bin/python'), [
      join(SCRIPTS, 'objects.py'), 's3', endpoint, 'fetch', bucket, folder, key, secret,
    ]));
    const names = Object.keys(facts).filter((name) => name.startsWith(prefix));
    return new Map(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};
