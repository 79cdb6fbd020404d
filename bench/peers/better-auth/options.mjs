// The settings of better-auth, as one would deploy it: its organization plugin with default teams, on PostgreSQL.
import { organization } from "better-auth/plugins";
import pg from "pg";

export const origin = `http://127.0.0.1:${process.env.PORT}`;
export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });

export const options = {
  appName: "bench",
  baseURL: origin,
  secret: "only-for-the-benchmark-0123456789abcdef",
  database: pool,
  emailAndPassword: { enabled: true },
  user: {
    additionalFields: {
      firstName: { type: "string", required: true },
      lastName: { type: "string", required: true },
    },
  },
  plugins: [organization({ teams: { enabled: true } })],
  // One join instead of two queries when the session is checked.
  advanced: { database: { joins: true } },
  // Every request comes from one address here; the others are measured without a limit too.
  rateLimit: { enabled: false },
  telemetry: { enabled: false },
  logger: { level: "error" },
};
