import { writeFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Manifest, RowsLine } from "../../../keyvault/backup/contents.ts";
import { createBackups } from "../../../keyvault/backup/create.ts";
import { openLines, readLine } from "../../../keyvault/backup/lines.ts";
import { createRecoveryKey } from "../../../keyvault/backup/sealed_stream.ts";
import { backupSignBytes, signerOf } from "../../../keyvault/backup/statement.ts";
import type { AuditRow } from "../../../keyvault/db/rows.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { generateKeys, keyId, signHybridOnce } from "../../../src/protocol/hybrid.ts";
import { ADMIN, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const makeKey = (tenant: string) => vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: [] });

test("a backup is of the moment of its record, however late it is read and whatever is done meanwhile", async () => {
  const { home, clock } = vault;
  const { publicKey, privateKey } = createRecoveryKey();
  await writeFile(home.config.recoveryKeyFile, publicKey);
  await makeKey("acc-before");
  const { seq } = vault.vault.journal.head();
  const begun = await createBackups({ ...vault.vault, config: home.config, clock })(ADMIN);
  if (isRefusal(begun)) throw new Error(begun.message);
  await makeKey("acc-after");
  const backup = Buffer.concat(await Array.fromAsync(begun as AsyncIterable<Buffer>));
  const lines = (await Array.fromAsync(openLines(Readable.from([backup]), privateKey))).map(readLine);
  const rowsOf = (table: string): unknown[] =>
    lines
      .filter((line): line is RowsLine => line.kind === "rows" && line.table === table)
      .flatMap(({ rows }) => rows);
  expect((lines[0] as Manifest).head.seq).toBe(seq);
  expect((rowsOf("audit").at(-1) as AuditRow).seq).toBe(seq);
  const tenants = rowsOf("tenants").map((row) => (row as { tenant: string }).tenant);
  expect(tenants).toContain("acc-before");
  expect(tenants).not.toContain("acc-after");
});

test("a signed statement of another head, another time or other lines than the manifest's is nobody's word for it", async () => {
  const { seeds, publicKey } = await generateKeys();
  const manifest = { created_at: "2030-01-01T00:00:00.000Z", head: { seq: 7, mac: "aa" } };
  const digest = Buffer.alloc(32, 1);
  const signed_by = keyId(publicKey);
  const said = {
    type: "backup",
    version: 1,
    ...manifest,
    digest: digest.toString("base64"),
    signed_by,
  } as const;
  const signature = await signHybridOnce(seeds, backupSignBytes(said));
  const line = { kind: "signature", statement: said, public_key: publicKey, signature };
  expect(await signerOf(line, manifest, digest)).toBe(signed_by);
  const { head } = manifest;
  expect(await signerOf(line, { ...manifest, head: { ...head, seq: 8 } }, digest)).toBeUndefined();
  expect(await signerOf(line, { ...manifest, head: { ...head, mac: "bb" } }, digest)).toBeUndefined();
  expect(await signerOf(line, { ...manifest, created_at: "2030" }, digest)).toBeUndefined();
  expect(await signerOf(line, manifest, Buffer.alloc(32, 2))).toBeUndefined();
});
