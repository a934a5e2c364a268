import { X509Certificate } from "node:crypto";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { installTls, revokeCertificate } from "../../../keyvault/tls/issue.ts";
import { readRevoked } from "../../../keyvault/tls/material.ts";
import { openTrust } from "../../../keyvault/tls/trust.ts";

let dir: string;
let list: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "keyvault-revoke-"));
  list = join(dir, "revoked");
  await installTls(dir, ["localhost"], new Date());
});
afterAll(() => rm(dir, { recursive: true }));
beforeEach(() => rm(list, { force: true }));

const revoke = () => revokeCertificate(list, join(dir, "api.pem"), new Date());

test("a certificate is on the list as the vault reads it, once, also behind a line without an end", async () => {
  await writeFile(list, "0A:0b");
  const serial = await revoke();
  expect(await revoke()).toBe(serial);
  expect([...(await readRevoked(list))].sort()).toEqual(["a0b", serial].sort());
  expect((await readFile(list, "utf8")).split("\n")).toHaveLength(3);
});

test("a list that the vault does not take up is no revocation, and its bad line is named", async () => {
  await writeFile(list, "# stolen\n0a0b\nserial=0c\n");
  await expect(revoke()).rejects.toThrow(
    `${list}: line 3 is not a hexadecimal serial number; no revocation is read until it is corrected`,
  );
  await writeFile(list, (await readFile(list, "utf8")).replace("serial=", ""));
  expect(await readRevoked(list)).toContain(await revoke());
});

test("a list that cannot be read is named, not begun anew", async () => {
  await expect(revokeCertificate(dir, join(dir, "api.pem"), new Date())).rejects.toThrow(
    `${dir} cannot be read`,
  );
});

test("a list begun anew where one was gone revokes who is on it, and lets in nobody who was on the former one", async () => {
  const lines: { reason?: string }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line) as { reason?: string }) });
  const [stolen, former, other] = await Promise.all(
    ["api.pem", "admin.pem", "server.pem"].map(
      async (name) => new X509Certificate(await readFile(join(dir, name))),
    ),
  );
  const serialOf = (certificate = stolen!) => `${certificate.serialNumber}\n`;
  await writeFile(list, serialOf(former));
  const inDir = (name: string) => join(dir, name);
  const trust = await openTrust(
    {
      caFile: inDir("ca.pem"),
      certFile: inDir("server.pem"),
      keyFile: inDir("server.key"),
      revokedFile: list,
    },
    log,
  );
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
    trust.stop();
  }
});
