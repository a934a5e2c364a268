import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { installTls } from "../../../keyvault/tls/install.ts";
import { revokeCertificate } from "../../../keyvault/tls/issue.ts";
import { readRevoked } from "../../../keyvault/tls/material.ts";

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
    `${list}: line 3 is no serial number in hexadecimal; no revocation is taken up until it is put right`,
  );
  await writeFile(list, (await readFile(list, "utf8")).replace("serial=", ""));
  expect(await readRevoked(list)).toContain(await revoke());
});

test("a list that cannot be read is named, not begun anew", async () => {
  await expect(revokeCertificate(dir, join(dir, "api.pem"), new Date())).rejects.toThrow(
    `${dir} cannot be read`,
  );
});
