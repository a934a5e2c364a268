import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DevStack, startDevStack } from "../support/dev_stack.ts";
import { createClient } from "../support/http.ts";
import { languages, type Shop } from "./generated_clients/languages.ts";
import { ADDED, type LaterVersion, startLaterVersion, UNKNOWN } from "./generated_clients/later_version.ts";

/*
 * Clients that others generate from the running service's `/openapi.json`. Each runs the main job: sign in,
 * register a platform and an agent, request and approve a delegation, present, verify, revoke, verify.
 */

let stack: DevStack;
let later: LaterVersion;
let folder: string;
let document: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-clients-"));
  stack = await startDevStack();
  const published = await (await fetch(`${stack.baseUrl}/openapi.json`)).json();
  document = join(folder, "openapi.json");
  await writeFile(document, JSON.stringify(published));
  later = await startLaterVersion(stack.baseUrl, published);
}, 300_000);
afterAll(async () => {
  await later?.stop();
  await stack?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Runs a shop as a new person against the service or its later version, and returns what the shop saw. */
async function run({ command, env = {} }: Exclude<Shop, { missing: string }>, base: string) {
  const [program = "", ...args] = command;
  const email = `shop-${randomUUID()}@example.test`;
  const child = spawn(program, [...args, base, email], { env: { ...process.env, ...env } });
  const errors = text(child.stderr);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", async (line) => {
    lines.push(line);
    if (line === "code") child.stdin.end(`${await createClient(stack.baseUrl).codeFor(email)}\n`);
  });
  const [code] = await once(child, "close");
  expect([code, await errors]).toEqual([0, expect.any(String)]);
  return JSON.parse(lines.at(-1) ?? "") as unknown;
}

describe.each(Object.entries(languages))("a client generated for %s", (language, build) => {
  test("compiles, runs the main job, and accepts what a later version may add", {
    timeout: 300_000,
  }, async ({ skip }) => {
    const place = join(folder, language);
    await mkdir(place);
    const shop = await build(document, place);
    if ("missing" in shop) {
      console.warn(
        `SKIPPED: no client for ${language} was generated, because this is missing: ${shop.missing}`,
      );
      skip(shop.missing);
      return;
    }
    expect(await run(shop, stack.baseUrl)).toEqual({
      allowed: ["allow", "authorized"],
      denied: ["deny", "delegation_revoked"],
      again: ["invalid_challenge", 400],
      added: null,
    });
    expect(await run(shop, later.url)).toEqual({
      allowed: ["allow", UNKNOWN],
      denied: ["deny", UNKNOWN],
      again: [UNKNOWN, 400],
      added: ADDED.value,
    });
  });
});
