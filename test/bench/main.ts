import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Report } from "./results/figures.ts";
import { resultOf, writeResult } from "./results/results.ts";
import { tablesOf } from "./results/tables.ts";

/**
 * `npm run bench [-- name …]` runs the benches in turn, each in a separate process. It prints their results
 * and writes them to `bench-results/`. `--json` prints one object per bench instead of tables. Compare ratios
 * within one run, because other load on the machine slows both sides.
 */
const BENCHES: Record<string, string> = {
  protocol: "Protocol: verify, sign, decode; native against the reference implementation",
  verify_http: "Decisions over HTTP against bare hybrid verifies",
  flood: "More calls than can be decided: waits, refusals, and what a flood does to another account",
  present: "Challenges and presented proofs a second",
  protected_call: "Whole protected calls, proved first, against calls that get a challenge first",
  mcp_proxy: "Calls of an MCP tool through the proxy, against calls without it",
  stock: "Decisions beside many certificates and a long history, against few and none",
  verify_peer: "Decisions that are kept and charged, against checks that keep nothing or --peer <command>",
  verify_customers: "Decisions over HTTP at customer connections, against own ones",
  decision_statement: "The deciding statement alone: own authority, an accepted principal's, no credit",
  replicas: "Decisions of 1, 2, 4 and 8 API processes, with many accounts, one, and a postpaid one",
  http_dispatch: "HTTP dispatch against bare node:http",
  customers:
    "A platform with 10,000 customers: the publisher's list, its removal, and others' events meanwhile",
  events: "Events from the commit of a change to consumers and receivers, embedded and on Kafka",
  vault: "Signatures over mutual TLS, audited, against signing in process",
  memory: "Memory of each process while agents' proofs are presented and decided on",
  vault_start: "Starts of a vault behind a long audit, against one behind a short one",
  operator: "The operator in a cluster with many delegations: starts, writes, memory, waits",
  console: "The console's home page in Chromium: the first content, and bytes over the wire",
  revocation_list: "Long revocation lists, and challenges signed beside them",
};

const args = process.argv.slice(2);
const firstOption = args.findIndex((argument) => argument.startsWith("--"));
const [names, options] =
  firstOption === -1 ? [args, []] : [args.slice(0, firstOption), args.slice(firstOption)];
const unknown = names.filter((name) => !(name in BENCHES));
if (unknown.length > 0) {
  console.error(`No such bench: ${unknown.join(", ")}. There are: ${Object.keys(BENCHES).join(", ")}`);
  process.exit(2);
}

for (const name of names.length > 0 ? names : Object.keys(BENCHES)) await run(name, BENCHES[name] ?? name);

async function run(name: string, title: string): Promise<void> {
  const isJson = options.includes("--json");
  if (!isJson) console.log(`\n${title}`);
  const begun = new Date();
  let report: Report | undefined;
  const bench = fork(fileURLToPath(new URL(`${name}.ts`, import.meta.url)), options, {
    execArgv: ["--expose-gc"],
    env: { ...process.env, BENCH_REPORTS: "true" },
  });
  bench.on("message", (found: Report) => {
    report = found;
  });
  const [code] = await once(bench, "exit");
  if (code !== 0) process.exitCode = 1;
  if (code !== 0 || report === undefined) return;
  const result = resultOf({ name, title, options, begun, report });
  const tables = tablesOf(report);
  const folder = await writeResult(result, tables);
  console.log(isJson ? JSON.stringify(result) : `${tables}\nWritten: ${folder}/${name}.json, .txt`);
}
