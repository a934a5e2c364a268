import { execFile } from "node:child_process";
import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Row } from "../../src/doctor/check.ts";
import { type DevStack, environmentOf, PROGRAM, startDevStack } from "../support/dev_stack.ts";

let stack: DevStack;
const sockets = new Set<Socket>();
let silent: Server;

beforeAll(async () => {
  stack = await startDevStack();
  silent = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
  });
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
}, 240_000);
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  silent?.close();
  await stack?.stop();
});

type Answer = { status: number | null; out: string; err: string };

/** Runs the command in its own process, with exactly these settings. */
function run(env: Record<string, string>, ...args: string[]): Promise<Answer> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [PROGRAM, "doctor", ...args], { env }, (_, out, err) =>
      resolve({ status: child.exitCode, out, err }),
    );
  });
}

const notOk = (rows: readonly Row[]) =>
  rows.filter(({ status }) => status !== "ok").map(({ name, status }) => `${name}: ${status}`);

test.each([
  ["api", ["direct database: skipped", "mail server: skipped", "idle connections: skipped"]],
  ["worker", ["direct database: skipped", "callback egress: skipped"]],
  ["operator", []],
])(
  "every check of a running %s passes, apart from those that need more than this machine",
  async (role, rest) => {
    const { status, out } = await run(await environmentOf(stack, role), "--json");
    const { checks, failed } = JSON.parse(out) as { checks: Row[]; failed: number };
    expect(notOk(checks).filter((line) => !line.startsWith("name servers"))).toEqual(rest);
    expect(checks[0]).toMatchObject({ name: `settings of ${role}`, status: "ok" });
    expect([status, failed]).toEqual([0, 0]);
  },
  60_000,
);

test("the command ends with status 1 although every server accepts connections and never answers", async () => {
  const place = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const environment = {
    ...(await environmentOf(stack, "api")),
    DATABASE_URL_FILE: "",
    DATABASE_URL: `postgres://deputize:s3cret@${place}/deputize`,
    VAULT_URL: `https://${place}`,
    SMTP_URL: `smtp://deputize:s3cret@${place}`,
    BASE_URL: `http://${place}`,
    EVENTS: "kafka",
    KAFKA_BROKERS: place,
    API_URL: `http://${place}`,
    OPERATOR_API_URL: `http://${place}`,
    CONSOLE_URL: `http://${place}`,
    OPERATOR_TOKEN: "t".repeat(32),
    OPERATOR_TOKEN_FILE: "",
  };
  const begun = performance.now();
  const { status, out } = await run(environment, "api", "worker", "--json");
  expect(status).toBe(1);
  expect(out).not.toContain("s3cret");
  const rows = new Map((JSON.parse(out).checks as Row[]).map((row) => [row.name, row.status]));
  const unreachable = ["database", "vault", "mail server", "kafka brokers"];
  expect(unreachable.map((name) => rows.get(name))).toEqual(unreachable.map(() => "failed"));
  // Every check ends within 8 s. The rest is the start of the process on a busy machine.
  expect(performance.now() - begun).toBeLessThan(40_000);
}, 60_000);

test.each([
  [[], 78, /^No role's settings are set/],
  [["vault"], 2, /"vault" is not a role/],
  [["api", "--egress", "nothing"], 2, /--egress must be <host>:<port>, or none/],
])(
  "the command with %j and without settings ends with status %d",
  async (args, wanted, message) => {
    const { status, out, err } = await run({ PATH: process.env.PATH ?? "" }, ...args);
    expect([status, out]).toEqual([wanted, ""]);
    expect(err).toMatch(message);
  },
  60_000,
);
