// Empties the database, makes the tables and 100 members, writes the requests to measure: seed.mjs REQUESTS_FILE
import { writeFileSync } from "node:fs";
import { betterAuth } from "better-auth";
import { getMigrations } from "better-auth/db/migration";
import { serializeSignedCookie } from "better-call";
import { options, origin, pool } from "./options.mjs";

const MEMBERS = 100;
const ROLES = ["member", "member", "member", "admin"];
// better-auth reads all organizations of the caller before it makes one more. Many callers in turn keep that list
// short; with one caller its rate would fall all through the measurement.
const CREATORS = 500;

async function emptyDatabase() {
  const { rows } = await pool.query("select current_database() as name");
  if (!rows[0].name.startsWith("bench")) {
    throw new Error(`refusing to empty database ${rows[0].name}: its name must begin with 'bench'`);
  }
  await pool.query("drop schema public cascade; create schema public");
  const { runMigrations } = await getMigrations(options);
  await runMigrations();
}

function person(kind, n) {
  const [firstName, lastName] = [`First${n}`, `Last${n}`];
  return { email: `${kind}${n}@example.com`, name: `${firstName} ${lastName}`, firstName, lastName };
}

// The session cookie as sign-in sets it: NAME=TOKEN.HMAC
async function cookieOf(context, user) {
  const { name, attributes } = context.authCookies.sessionToken;
  const session = await context.internalAdapter.createSession(user.id);
  const cookie = await serializeSignedCookie(name, session.token, context.secret, attributes);
  return cookie.split(";")[0];
}

async function addMembers(context, organizationId) {
  for (let n = 1; n < MEMBERS; n += 1) {
    const user = await context.internalAdapter.createUser(person("member", n));
    const data = { organizationId, userId: user.id, role: ROLES[n % ROLES.length], createdAt: new Date() };
    await context.adapter.create({ model: "member", data });
  }
}

async function creatorCookies(context) {
  const cookies = [];
  for (let n = 0; n < CREATORS; n += 1) {
    const user = await context.internalAdapter.createUser(person("creator", n));
    cookies.push(await cookieOf(context, user));
  }
  return cookies;
}

async function seed() {
  const auth = betterAuth(options);
  const context = await auth.$context;
  const owner = await context.internalAdapter.createUser(person("member", 0));
  const headers = { Cookie: await cookieOf(context, owner) };
  const organization = await auth.api.createOrganization({ body: { name: "Hedgehogs", slug: "hedgehogs" }, headers });
  await addMembers(context, organization.id);
  return { id: organization.id, headers, creators: await creatorCookies(context) };
}

function requests({ id, headers, creators }) {
  const path = "/api/auth/organization";
  return {
    retrieve: { method: "GET", path: `${path}/get-organization?organizationId=${id}`, headers },
    list: { method: "GET", path: `${path}/list-members?organizationId=${id}&limit=100`, headers },
    create: {
      method: "POST",
      path: `${path}/create`,
      headers: { Cookie: "{{credential}}", "Content-Type": "application/json", Origin: origin },
      credentials: creators,
      body: JSON.stringify({ name: "bench {{n}}", slug: "bench-{{n}}" }),
    },
  };
}

await emptyDatabase();
const seeded = await seed();
await pool.query("analyze");
await pool.end();
writeFileSync(process.argv[2], JSON.stringify(requests(seeded), null, 2));
