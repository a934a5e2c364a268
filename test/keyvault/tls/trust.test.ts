import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../../keyvault/log.ts";
import { installTls, issueFiles, revokeCertificate } from "../../../keyvault/tls/issue.ts";
import { openTrust } from "../../../keyvault/tls/trust.ts";

let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "keyvault-trust-"));
  await installTls(dir, ["localhost"], new Date());
});
afterAll(() => rm(dir, { recursive: true }));

const log = createLog("silent");
const file = (name: string): string => join(dir, name);
const files = () => ({
  caFile: file("ca.pem"),
  certFile: file("server.pem"),
  keyFile: file("server.key"),
  revokedFile: file("revoked"),
});
const api = async () => new X509Certificate(await readFile(file("api.pem")));

test("revocations stay in force when their file is taken away from a running vault, until it was back and another one has stood for a second", async () => {
  await rm(file("revoked"), { force: true });
  await revokeCertificate(file("revoked"), file("api.pem"), new Date());
  const trust = await openTrust(files(), log);
  expect(trust.accepts(await api())).toBe(false);
  await rename(file("revoked"), file("away"));
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  await sleep(1_100);
  await trust.refresh();
  expect(trust.accepts(await api()), "however long it is away").toBe(false);
  await rename(file("away"), file("revoked"));
  await trust.refresh();
  await writeFile(file("revoked"), "# nobody\n");
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  await sleep(1_100);
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(true);
  trust.stop();
});

test("a vault without a file of revocations takes up the first one, and is at ease when an empty one goes", async () => {
  await rm(file("revoked"), { force: true });
  const trust = await openTrust(files(), log);
  expect(trust.accepts(await api())).toBe(true);
  await writeFile(file("revoked"), "# nobody\n");
  await trust.refresh();
  await rm(file("revoked"));
  await revokeCertificate(file("revoked"), file("api.pem"), new Date());
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  expect(trust.generation()).toBe(1);
  trust.stop();
});

test("no look at a list that is being written lets a revoked certificate in", async () => {
  await rm(file("revoked"), { force: true });
  const trust = await openTrust(files(), log);
  const order: number[] = [];
  trust.onChange(({ revoked }) => order.push(revoked.size));
  const looks: Promise<void>[] = [];
  for (let count = 1; count <= 20; count += 1) {
    await writeFile(file("revoked"), Array.from({ length: count }, (_, index) => `${index + 1}\n`).join(""));
    looks.push(trust.refresh());
  }
  await Promise.all(looks);
  expect(order).toEqual(order.toSorted((a, b) => a - b));
  expect(trust.material().revoked.size).toBe(20);
  trust.stop();
});

test("looks follow one another: files that were read earlier do not come into force later", async () => {
  await rm(file("revoked"), { force: true });
  const trust = await openTrust(files(), log);
  await promisify(execFile)("mkfifo", [file("revoked")]);
  const held = trust.refresh();
  await sleep(200);
  await rename(file("revoked"), file("held"));
  const subject = { kind: "server", names: ["localhost"] } as const;
  await issueFiles(dir, { subject, days: 1, stem: file("server"), replace: true }, new Date());
  const later = trust.refresh();
  await sleep(200);
  await writeFile(file("held"), "# nobody\n");
  await Promise.all([held, later]);
  expect(trust.material().cert).toEqual(await readFile(file("server.pem")));
  trust.stop();
});
