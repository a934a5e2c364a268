import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { installTls, issueFiles, revokeCertificate } from "../../../keyvault/tls/issue.ts";
import { readRevoked } from "../../../keyvault/tls/revocations.ts";
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
beforeEach(async () => {
  for (const file of [list, inDir("known_revoked")]) await rm(file, { force: true });
});

const inDir = (name: string): string => join(dir, name);
const revoke = () => revokeCertificate(list, inDir("api.pem"), new Date());
const certificateOf = async (name: string) => new X509Certificate(await readFile(inDir(`${name}.pem`)));
const api = () => certificateOf("api");

async function open(log = SILENT): Promise<Trust> {
  const [caFile, certFile, keyFile] = [inDir("ca.pem"), inDir("server.pem"), inDir("server.key")];
  const trust = await openTrust(
    { caFile, certFile, keyFile, revokedFile: list, knownRevokedFile: inDir("known_revoked") },
    log,
  );
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

/** Ways to lose the list of revoked certificates. */
const LOST = {
  "is emptied": () => writeFile(list, ""),
  "is deleted": () => rm(list),
  "is replaced by another list": () => writeFile(list, "# others\n0a0b\n"),
  "has no longer its line": () => writeFile(list, "# nobody\n"),
};

test.each(Object.entries(LOST))(
  "a certificate stays revoked, also after a restart, if the list %s",
  async (_, lose) => {
    await revoke();
    const first = await open();
    expect(first.accepts(await api())).toBe(false);
    await lose();
    for (let look = 0; look < 3; look += 1) await first.refresh();
    expect(first.accepts(await api())).toBe(false);
    expect(first.accepts(await certificateOf("admin"))).toBe(true);
    first.stop();
    for (let restart = 0; restart < 2; restart += 1) {
      const next = await open();
      expect(next.accepts(await api())).toBe(false);
      await next.refresh();
      expect(next.accepts(await api())).toBe(false);
      next.stop();
    }
  },
);

test("a certificate that was revoked while the vault runs stays revoked if the list is emptied soon after", async () => {
  const trust = await open();
  await revoke();
  await trust.refresh();
  await writeFile(list, "");
  await trust.refresh();
  expect(trust.accepts(await api())).toBe(false);
  expect((await open()).accepts(await api())).toBe(false);
});

test("a certificate is revoked although another TLS file is damaged", async () => {
  const trust = await open();
  const key = await readFile(inDir("server.key"));
  await writeFile(inDir("server.key"), "damaged");
  try {
    await revoke();
    await trust.refresh();
    expect(trust.accepts(await api())).toBe(false);
    expect(trust.material().key).toEqual(key);
  } finally {
    await writeFile(inDir("server.key"), key);
  }
});

test("a revocation ends only if its serial number is removed from both files before a start", async () => {
  await revoke();
  (await open()).stop();
  await writeFile(list, "");
  await writeFile(inDir("known_revoked"), "");
  expect((await open()).accepts(await api())).toBe(true);
});

test("a vault does not start if it cannot store a new revocation, and revokes it although it cannot, if it runs", async () => {
  const trust = await open();
  const known = inDir("known_revoked");
  await rm(known, { force: true });
  await mkdir(known);
  try {
    await revoke();
    await trust.refresh();
    expect(trust.accepts(await api())).toBe(false);
    await expect(open()).rejects.toThrow(`${known} cannot be read`);
  } finally {
    await rm(known, { recursive: true });
  }
  await trust.refresh();
  expect([...(await readRevoked(known))]).toEqual([...(await readRevoked(list))]);
});

test("the log names a list that lacks serial numbers once, until they are put back", async () => {
  const lines: { event?: string; reason?: string }[] = [];
  const log = pino({ level: "error" }, { write: (line) => void lines.push(JSON.parse(line)) });
  await revoke();
  const text = await readFile(list, "utf8");
  const trust = await open(log);
  await rm(list);
  for (let look = 0; look < 3; look += 1) await trust.refresh();
  await writeFile(list, text);
  await trust.refresh();
  expect(lines.map(({ event, reason }) => [event, reason])).toEqual([
    ["revocation_list", expect.stringMatching(/lacks 1 serial numbers that were on it, which stay revoked/)],
  ]);
});

test("a last line that is still being written is not stored, but is stored when it stays", async () => {
  const known = () => readRevoked(inDir("known_revoked"));
  const trust = await open();
  await writeFile(list, "0a0b\n0c0");
  await trust.refresh();
  expect([...(await known())]).toEqual(["a0b"]);
  expect([...trust.material().revoked].sort()).toEqual(["a0b", "c0"]);
  await writeFile(list, "0a0b\n0c0d");
  await trust.refresh();
  await trust.refresh();
  expect([...(await known())].sort()).toEqual(["a0b", "c0d"]);
});

test("stored serial numbers survive a line that a crash left incomplete", async () => {
  await writeFile(inDir("known_revoked"), "0a0b\n0c");
  await revoke();
  const trust = await open();
  expect(trust.accepts(await api())).toBe(false);
  expect(await readRevoked(inDir("known_revoked"))).toContain("a0b");
  expect((await readRevoked(inDir("known_revoked"))).size).toBe(3);
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
