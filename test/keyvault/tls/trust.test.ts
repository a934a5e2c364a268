import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { appendFile, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { installTls, issueFiles, revokeCertificate } from "../../../keyvault/tls/issue.ts";
import { readRevoked } from "../../../keyvault/tls/material.ts";
import { openTrust, type Trust } from "../../../keyvault/tls/trust.ts";
import { SILENT } from "../fixture.ts";

let dir: string;
let list: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "keyvault-trust-"));
  list = inDir("revoked");
  await installTls(dir, ["localhost"], new Date());
});
afterAll(() => rm(dir, { recursive: true }));
beforeEach(() => rm(list, { force: true }));

const inDir = (name: string): string => join(dir, name);
const revoke = () => revokeCertificate(list, inDir("api.pem"), new Date());
const certificateOf = async (name: string) => new X509Certificate(await readFile(inDir(`${name}.pem`)));
const api = () => certificateOf("api");

async function open(log = SILENT): Promise<Trust> {
  const [caFile, certFile, keyFile] = [inDir("ca.pem"), inDir("server.pem"), inDir("server.key")];
  const trust = await openTrust({ caFile, certFile, keyFile, revokedFile: list }, log);
  onTestFinished(() => trust.stop());
  return trust;
}

test("revokeCertificate adds a certificate only once, even if the last line has no newline", async () => {
  await writeFile(list, "0A:0b");
  const serial = await revoke();
  expect(await revoke()).toBe(serial);
  expect([...(await readRevoked(list))].sort()).toEqual(["a0b", serial].sort());
  expect((await readFile(list, "utf8")).split("\n")).toHaveLength(3);
});

test("revokeCertificate fails if the vault cannot parse the list, and names the invalid line", async () => {
  await writeFile(list, "# stolen\n0a0b\nserial=0c\n");
  await expect(revoke()).rejects.toThrow(
    `${list}: line 3 is not a hexadecimal serial number; no revocation is read until it is corrected`,
  );
  await writeFile(list, (await readFile(list, "utf8")).replace("serial=", ""));
  expect(await readRevoked(list)).toContain(await revoke());
});

test("revokeCertificate fails if the list cannot be read, and does not create a new one", async () => {
  const revoked = revokeCertificate(dir, inDir("api.pem"), new Date());
  await expect(revoked).rejects.toThrow(`${dir} cannot be read`);
});

test("a new list after a missing list adds revocations, but does not reinstate certificates of the old list", async () => {
  const lines: { reason?: string }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line) as { reason?: string }) });
  const [stolen, former, other] = await Promise.all(["api", "admin", "server"].map(certificateOf));
  const serialOf = (certificate = stolen!) => `${certificate.serialNumber}\n`;
  await writeFile(list, serialOf(former));
  const trust = await open(log);
  const clock = vi.spyOn(performance, "now");
  let now = performance.now();
  clock.mockImplementation(() => now);
  const refresh = async () => {
    now += 5_000;
    await trust.refresh();
  };
  const accepted = () => [stolen, former, other].map((certificate) => trust.accepts(certificate!));
  try {
    await refresh();
    expect(accepted()).toEqual([true, false, true]);
    await rm(list);
    await refresh();
    await revoke();
    for (const _ of [1, 2]) {
      await refresh();
      expect(accepted()).toEqual([false, false, true]);
    }
    expect(lines.map(({ reason }) => reason).filter((reason) => reason !== undefined)).toEqual([
      expect.stringMatching(/is gone: the certificates on it stay revoked until it is put back$/),
      expect.stringMatching(/lacks 1 of its serial numbers, which stay revoked: put them back/),
    ]);
    await appendFile(list, serialOf(former));
    await refresh();
    expect(accepted()).toEqual([false, false, true]);
    await writeFile(list, serialOf());
    await refresh();
    await refresh();
    expect(accepted(), "taken off by hand").toEqual([false, true, true]);
  } finally {
    clock.mockRestore();
  }
});

test("revocations stay in force while their file is missing, until another list has been unchanged for a second", async () => {
  await revoke();
  const trust = await open();
  expect(trust.accepts(await api())).toBe(false);
  await rename(list, inDir("away"));
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  await sleep(1_100);
  await trust.refresh();
  expect(trust.accepts(await api()), "however long it is away").toBe(false);
  await rename(inDir("away"), list);
  await trust.refresh();
  await writeFile(list, "# nobody\n");
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  await sleep(1_100);
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(true);
});

test("a vault without a revocation list loads the first list, and ignores the removal of an empty list", async () => {
  const trust = await open();
  expect(trust.accepts(await api())).toBe(true);
  await writeFile(list, "# nobody\n");
  await trust.refresh();
  await rm(list);
  await revoke();
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  expect(trust.generation()).toBe(1);
});

test("revoked certificates are not accepted while the list is being written", async () => {
  const trust = await open();
  const order: number[] = [];
  trust.onChange(({ revoked }) => order.push(revoked.size));
  const looks: Promise<void>[] = [];
  for (let count = 1; count <= 20; count += 1) {
    await writeFile(list, Array.from({ length: count }, (_, index) => `${index + 1}\n`).join(""));
    looks.push(trust.refresh());
  }
  await Promise.all(looks);
  expect(order).toEqual(order.toSorted((a, b) => a - b));
  expect(trust.material().revoked.size).toBe(20);
});

test("reloads run one after the other, so older files never replace newer ones", async () => {
  const trust = await open();
  await promisify(execFile)("mkfifo", [list]);
  const held = trust.refresh();
  await sleep(200);
  await rename(list, inDir("held"));
  const subject = { kind: "server", names: ["localhost"] } as const;
  await issueFiles(dir, { subject, days: 1, stem: inDir("server"), replace: true }, new Date());
  const later = trust.refresh();
  await sleep(200);
  await writeFile(inDir("held"), "# nobody\n");
  await Promise.all([held, later]);
  expect(trust.material().cert).toEqual(await readFile(inDir("server.pem")));
});
