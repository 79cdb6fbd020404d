// The server with everything around it that its pages can reach: a mail server, a name server and a store of objects. All
// of them are real, on free ports of loopback. What is returned is plain data, so that another process can be told of it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts, isListening, run, started, until, watched } from './processes.mjs';

const COMPONENTS = process.env.TESTKIT_COMPONENTS;
const SCRIPTS = new URL('../crates/testkit/external', import.meta.url).pathname;
/** Every domain of a journey ends with it. */
const ZONE = 'test';

const mailServer = async (folder) => {
  mkdirSync(join(folder, 'mails'));
  const options = JSON.stringify({ folder, port: 0, auth: null, tls: null, certificate: null, key: null });
  const server = started(folder, 'smtp', [join(COMPONENTS, 'python/bin/python'), join(SCRIPTS, 'smtp.py'), options]);
  const { port } = JSON.parse(await server.ready((log) => log.match(/^ready (.*)$/m)?.[1]));
  return { server, url: `smtp://127.0.0.1:${port}`, mails: join(folder, 'mails') };
};

const nameServer = async (folder) => {
  const [port] = await freePorts(1);
  const socket = join(folder, 'knot.sock');
  writeFileSync(join(folder, `${ZONE}.zone`), `${ZONE}. 0 SOA ${ZONE}. admin.${ZONE}. 1 3600 600 86400 0\n${ZONE}. 0 NS ${ZONE}.\n`);
  writeFileSync(join(folder, 'knot.conf'), `server:
  rundir: ${folder}
  listen: 127.0.0.1@${port}
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
log:
  - target: stderr
    any: info
control:
  listen: ${socket}
database:
  storage: ${folder}
template:
  - id: default
    storage: ${folder}
    file: "%s.zone"
    zonefile-sync: -1
    journal-content: none
zone:
  - domain: ${ZONE}
`);
  const server = watched(folder, 'knot', ['/usr/sbin/knotd', '-c', join(folder, 'knot.conf')]);
  await server.ready((log) => log.includes('server started'));
  return { server, address: `127.0.0.1:${port}`, socket };
};

const objectStore = async (folder) => {
  const [key, secret, bucket] = ['AKJOURNEYS', 'a-secret-of-the-journeys', 'journeys'];
  const identity = { name: 'journeys', credentials: [{ accessKey: key, secretKey: secret }], actions: ['Admin', 'Read', 'Write', 'List', 'Tagging'] };
  const data = join(folder, 'weed');
  mkdirSync(data);
  writeFileSync(join(folder, 's3.json'), JSON.stringify({ identities: [identity] }));
  const names = ['master.port', 'volume.port', 'filer.port', 's3.port'].flatMap((name) => [name, `${name}.grpc`]);
  const ports = Object.fromEntries((await freePorts(names.length)).map((port, place) => [names[place], port]));
  const server = watched(folder, 'weed-server', [
    join(COMPONENTS, 'seaweedfs/bin/weed'), 'server', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', `-dir=${data}`,
    '-s3', `-s3.config=${join(folder, 's3.json')}`, '-s3.port.iceberg=0', '-s3.port.lance=0',
    ...names.map((name) => `-${name}=${ports[name]}`),
    // On unless told otherwise, and nothing of ours may leave this machine.
    '-master.telemetry=false',
    '-volume.max=30', '-volume.minFreeSpace=100MiB', '-master.volumeSizeLimitMB=64',
  ]);
  await server.ready(() => isListening(ports['s3.port']));
  const endpoint = `http://127.0.0.1:${ports['s3.port']}`;
  const make = () => {
    try {
      return run(join(COMPONENTS, 'moto/bin/python'), [join(SCRIPTS, 'objects.py'), 's3', endpoint, 'make', bucket, key, secret]) || true;
    } catch {
      return false;
    }
  };
  // It listens a moment before it can store anything.
  await until('a bucket is made', make);
  return { server, endpoint, key, secret, bucket };
};

/** The first start knows nobody's name and calls the owner “Owner”. */
const named = async (site, { email, password }) => {
  const ask = async (method, path, body, headers = {}) => {
    const answer = await fetch(`${site}${path}`, {
      method, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const session = await ask('POST', '/api/login/', { email, password });
  const cookie = session.headers.getSetCookie()[0].split(';')[0];
  await ask('PATCH', '/api/users/@me/', { first_name: 'Olga', last_name: 'Brandt' }, { cookie });
};

const hedgerow = async (folder, { mail, names }) => {
  const data = join(folder, 'data');
  const exports = join(folder, 'exports');
  mkdirSync(exports);
  const owner = { email: 'olga@hedgerow.test', password: 'correct horse battery', key: 'a-key-of-the-browser-tests' };
  const server = watched(folder, 'hedgerow', [process.env.BROWSER_SERVER, 'serve'], {
    HEDGEROW_LISTEN: '127.0.0.1:0',
    HEDGEROW_DATA_DIR: data,
    HEDGEROW_EXPORT_ROOT: exports,
    HEDGEROW_BOOTSTRAP_EMAIL: owner.email,
    HEDGEROW_BOOTSTRAP_PASSWORD: owner.password,
    HEDGEROW_BOOTSTRAP_API_KEY: owner.key,
    HEDGEROW_SMTP_URL: mail.url,
    HEDGEROW_DNS: names.address,
    HEDGEROW_ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8',
    // Nobody listens there, and nothing leaves the machine.
    HEDGEROW_APP_MIRROR: 'http://127.0.0.1:9/',
    HEDGEROW_LOG: 'info',
  });
  const listening = (line) => line.startsWith('{') && JSON.parse(line).message === 'listening' && JSON.parse(line).address;
  // The last line may not be whole yet.
  const address = await server.ready((log) => log.split('\n').slice(0, -1).map(listening).find(Boolean));
  const site = `http://${address}`;
  await server.ready(() => fetch(`${site}/readyz`).then((answer) => answer.ok, () => false));
  await named(site, owner);
  return { server, site, owner, events: join(data, 'events.sqlite') };
};

/** Starts everything. `end` ends it again, and nothing is left of it. */
export const begin = async () => {
  for (const needed of ['TESTKIT_COMPONENTS', 'BROWSER_SERVER']) {
    if (!process.env[needed]) throw new Error(`${needed} is not set; \`cargo xtask test\` does it`);
  }
  const folder = mkdtempSync(join(tmpdir(), 'hedgerow-browser-'));
  const servers = [];
  const end = async () => {
    await Promise.all(servers.map((server) => server.end()));
    rmSync(folder, { recursive: true, force: true });
  };
  const keep = async (starting) => {
    const { server, ...rest } = await starting;
    servers.push(server);
    return rest;
  };
  try {
    const [mail, names, objects] = await Promise.all([
      keep(mailServer(folder)), keep(nameServer(folder)), keep(objectStore(folder)),
    ]);
    const ours = await keep(hedgerow(folder, { mail, names }));
    return { environment: { ...ours, mails: mail.mails, names: { zone: ZONE, socket: names.socket }, objects }, end, log: servers.at(-1).log };
  } catch (error) {
    await end();
    throw error;
  }
};
