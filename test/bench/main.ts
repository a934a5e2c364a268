import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/**
 * `npm run bench [-- name …]`: runs the benches one after the other, each in a process of its own; `--json`
 * gives one object per bench. Figures are ratios within one run: what the machine does besides slows both
 * sides.
 */
const BENCHES = {
  protocol: "Protocol: verify, sign, decode; native against the reference implementation",
  verify_http: "Decisions over HTTP against bare hybrid verifies",
  decision_statement: "The deciding statement alone: own authority, an accepted principal's, no credit",
  http_dispatch: "HTTP dispatch against bare node:http",
  events: "Events from the commit of a change to consumers and receivers, embedded and on Kafka",
  vault: "Signatures over mutual TLS, audited, against signing in process",
  vault_start: "Starts of a vault behind a long audit, against one behind a short one",
  operator: "The operator in a cluster with 10,000 delegations: starts, writes, memory, waits",
  console: "The console's home page in Chromium: the first content, and bytes over the wire",
  revocation_list: "Long revocation lists, and challenges signed beside them",
} as const;

const flags = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const unknown = wanted.filter((name) => !(name in BENCHES));
if (unknown.length > 0) {
  console.error(`No such bench: ${unknown.join(", ")}. There are: ${Object.keys(BENCHES).join(", ")}`);
  process.exit(2);
}

for (const [name, title] of Object.entries(BENCHES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  if (!flags.includes("--json")) console.log(`\n${title}`);
  const script = fileURLToPath(new URL(`${name}.ts`, import.meta.url));
  const [code] = await once(
    spawn(process.execPath, ["--expose-gc", script, ...flags], { stdio: "inherit" }),
    "exit",
  );
  if (code !== 0) process.exitCode = 1;
}
