import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import { accountEventKinds, eventKinds } from "../../src/events/kinds.ts";
import { createWebhookSecret } from "../../src/events/secrets.ts";
import { signedHeaders } from "../../src/webhooks/sign_and_send.ts";
import { eventually } from "./support/time.ts";

const page = await readFile(new URL("../../docs/events.md", import.meta.url), "utf8");
let receiver: ChildProcess | undefined;
let folder: string | undefined;
afterEach(async () => {
  receiver?.kill("SIGKILL");
  if (folder !== undefined) await rm(folder, { recursive: true });
});

test("docs/events.md lists every kind of event with its fields", () => {
  const rows = [...page.matchAll(/^\| `([a-z]+\.[a-z_]+)` \|[^|]*\|([^|]*)\|$/gm)].map(([, kind, fields]) => [
    kind,
    [...(fields ?? "").matchAll(/`([a-z_]+)`/g)].map(([, field]) => field),
  ]);
  const kinds = Object.entries(eventKinds).map(([kind, { fields, secrets }]) => [
    kind,
    [...Object.keys(fields.shape), ...secrets],
  ]);
  const accountKinds = Object.entries(accountEventKinds).map(([kind, fields]) => [
    kind,
    Object.keys(fields.shape),
  ]);
  expect(rows).toEqual([...kinds, ...accountKinds]);
});

test("the example receiver in docs/events.md accepts genuine and fresh webhooks, and answers 401 to all other requests", async () => {
  const secret = createWebhookSecret();
  const port = await freePort();
  const code =
    /```js\n([\s\S]*?)```/.exec(page)?.[1]?.replace("listen(8080)", `listen(${port}, "127.0.0.1")`) ?? "";
  folder = await mkdtemp(join(tmpdir(), "deputize-docs-"));
  const file = join(folder, "receiver.mjs");
  const store =
    'const storeOnce = async (id, event) => process.stdout.write(id + " " + event.event + "\\n");\n';
  await writeFile(file, store + code);
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, WEBHOOK_SECRET: secret },
    stdio: ["pipe", "pipe", "inherit"],
  });
  receiver = child;
  let stored = "";
  child.stdout.on("data", (chunk) => {
    stored += chunk;
  });
  const body = JSON.stringify({ event: "delegation.denied", org_name: "Zoë" });
  const deliveryId = "7d0e1f3c-0000-5000-8000-000000000001";
  const now = new Date();
  async function post(headers: Record<string, string>, text = body): Promise<number> {
    return (await fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers, body: text })).status;
  }
  const signed = (at: Date, key = secret) => signedHeaders({ deliveryId, body }, key, at, "service");
  await eventually("it listens", () =>
    post({}).then(
      () => true,
      () => false,
    ),
  );
  expect(await post(signed(now))).toBe(204);
  expect(await post(signed(now), `${body} `)).toBe(401);
  expect(await post(signed(now, createWebhookSecret()))).toBe(401);
  expect(await post(signed(addSeconds(now, -301)))).toBe(401);
  expect(await post(signed(addSeconds(now, 330)))).toBe(401);
  expect(await post({ ...signed(now), "X-Service-Signature": "é".repeat(64) })).toBe(401);
  expect(await post({})).toBe(401);
  child.kill();
  await once(child, "close");
  expect(stored).toBe(`${deliveryId} delegation.denied\n`);
});
