// Programs that are started for a while: they end when we do, and say what they said when something is amiss.
import { execFileSync, spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** For what takes long only on a busy machine. */
const WAIT_LIMIT = 60_000;

/** Looks again and again until there is something to see. */
export const until = async (what, look, limit = WAIT_LIMIT) => {
  const end = Date.now() + limit;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`not within ${limit / 1000} s: ${what}`);
    await pause(25);
  }
};

/** Starts a program that watches its standard input, and ends with it. */
export const started = (folder, name, [program, ...words], env = {}) => {
  const path = join(folder, `${name}.log`);
  const output = openSync(path, 'w');
  const child = spawn(program, words, { cwd: folder, env: { ...process.env, ...env }, stdio: ['pipe', output, output] });
  const failed = new Promise((_, fail) => child.on('error', fail));
  const log = () => readFileSync(path, 'utf8');
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  return {
    /** Waits for something in what it prints, or beside it. */
    ready: (look) => Promise.race([failed, until(`${name} is ready`, () => {
      if (ended()) throw new Error('it has ended');
      return look(log());
    })]).catch((error) => {
      throw new Error(`${name}: ${error.message}; it said at last:\n${log().slice(-4000)}`);
    }),
    log,
    end: () => new Promise((done) => {
      if (ended()) return done();
      child.on('exit', done);
      child.stdin.end();
    }),
  };
};

/** The same for a program that does not look at its standard input: a shell around it does. */
export const watched = (folder, name, command, env) =>
  started(folder, name, ['sh', '-c', '"$@" & cat >/dev/null; kill -KILL $!; wait', 'sh', ...command], env);

/** Runs a short program to its end and returns what it printed. */
export const run = (program, words) => execFileSync(program, words, { encoding: 'utf8' });

/** Loopback ports that nobody listens on now. */
export const freePorts = async (count) => {
  const held = await Promise.all(Array.from({ length: count }, () => new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => done(server));
  })));
  const ports = held.map((server) => server.address().port);
  await Promise.all(held.map((server) => new Promise((done) => server.close(done))));
  return ports;
};

export const isListening = (port) => new Promise((done) => {
  const socket = connect(port, '127.0.0.1');
  const say = (answer) => { socket.destroy(); done(answer); };
  socket.on('connect', () => say(true)).on('error', () => say(false));
});
