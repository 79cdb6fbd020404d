// One process for each of two cores, as better-auth has no threads of its own.
import cluster from "node:cluster";
import { createServer } from "node:http";

const PROCESSES = 2;

if (cluster.isPrimary) {
  for (let n = 0; n < PROCESSES; n += 1) cluster.fork();
  // A benchmark with half its processes would be no benchmark.
  cluster.on("exit", () => process.exit(1));
  process.on("SIGTERM", () => process.exit(0));
} else {
  const { betterAuth } = await import("better-auth");
  const { toNodeHandler } = await import("better-auth/node");
  const { options } = await import("./options.mjs");
  const server = createServer({ keepAliveTimeout: 75_000 }, toNodeHandler(betterAuth(options)));
  server.listen(Number(process.env.PORT), "127.0.0.1");
}
