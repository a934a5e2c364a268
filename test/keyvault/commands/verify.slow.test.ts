import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCommand } from "../command_line.ts";
import { createHome, startVault, type VaultHome } from "../fixture.ts";

let home: VaultHome;

beforeAll(async () => {
  home = await createHome();
});
afterAll(() => home.remove());

const verify = (...args: string[]) => audit("verify", ...args);
const audit = (...args: string[]) => runCommand(["audit", ...args], home.environment);

test("audit verify reports how many heads it compared, and fails for a file without heads", {
  timeout: 60_000,
}, async () => {
  const plain = await verify();
  expect(plain).toMatchObject({ code: 0, stderr: "" });
  const [, seq = "", mac = ""] = /audit head\n? +(\d+):([0-9a-f]{64})\n$/.exec(plain.stdout) ?? [];
  const heads = join(home.dir, "heads");
  await writeFile(heads, "");
  expect(await verify("--heads", heads)).toEqual({
    code: 2,
    stdout: "",
    stderr: `keyvault: ${heads} holds no head: the chain was not checked\n`,
  });
  await writeFile(heads, `2026-01-01T00:00:00.000Z ${seq}:${mac}\n`);
  expect((await verify("--heads", heads)).stdout).toContain("and the heads noted before are among them (1).");
  expect(await verify("--head", `0:${mac}`), "a chain begins with zeros").toMatchObject({ code: 1 });
  expect(await verify("--head", `0:${"00".repeat(32)}`)).toMatchObject({ code: 0 });
  const next = `${Number(seq) + 1}:${mac}`;
  expect(await verify("--heads", heads, "--head", next)).toMatchObject({
    code: 1,
    stdout: `The chain is broken: record ${Number(seq) + 1} and those after it were cut off.\n`,
  });
});

test("audit verify names a row that contradicts the audit, even if the chain is intact", {
  timeout: 120_000,
}, async () => {
  const vault = await startVault(home);
  const { key_id } = await vault.makeKey({ tenant: "acc-0", purpose: "agent", label: "key", ceiling: [] });
  const other = await vault.makeKey({ tenant: "acc-0", purpose: "agent", label: "other", ceiling: [] });
  expect(await verify(), "beside a running vault").toMatchObject({ code: 0 });
  await home.sql(`update keys set ceiling = '["payments:send"]' where key_id = $1`, [key_id]);
  await home.sql("create table former as select * from keys where key_id = $1", [other.key_id]);
  await home.sql("delete from keys where key_id = $1", [other.key_id]);
  const said = await verify("--json");
  expect(said.code).toBe(1);
  const { damaged, ...rest } = JSON.parse(said.stdout);
  expect({ ...rest, damaged: { ...damaged, keys: damaged.keys.sort() } }).toMatchObject({
    intact: true,
    contradictions: [],
    damaged: { keys: [key_id, other.key_id].sort(), tenants: [], waiting: 0 },
  });
  expect((await verify()).stdout).toContain(`Key ${key_id} is gone or not in the state`);
  await home.sql("insert into keys select * from former");
  await home.sql("drop table former");
  await home.sql("update keys set ceiling = '[]' where key_id = $1", [key_id]);
  expect(await verify()).toMatchObject({ code: 0 });
  await vault.stop();
});

test("audit verify detects removed last records even if no head is given, and audit accept records the new end of the chain", {
  timeout: 120_000,
}, async () => {
  const vault = await startVault(home);
  for (const label of ["one", "other"]) {
    await vault.makeKey({ tenant: "acc-1", purpose: "agent", label, ceiling: [] });
  }
  await vault.stop();
  const heads = await home.sql<{ seq: number; mac: string }>(
    "select seq::int, encode(mac, 'hex') as mac from audit order by seq desc limit 2",
  );
  const [lost, end] = heads.map(({ seq, mac }) => `${seq}:${mac}`) as [string, string];
  await home.sql(
    `alter table audit disable trigger audit_append_only;
     delete from audit where seq = (select max(seq) from audit);
     alter table audit enable trigger audit_append_only`,
  );
  expect(await verify()).toMatchObject({ code: 1, stdout: expect.stringContaining("were cut off") });
  expect(await audit("accept", lost)).toMatchObject({
    code: 1,
    stderr: `keyvault: The chain ends with ${end}, not with the head that you gave\n`,
  });
  const broken = await startVault(home);
  expect(broken.sealing.state()).toMatchObject({ reason: "chain_broken" });
  expect(await audit("accept", end)).toMatchObject({ code: 0, stdout: expect.stringContaining("Accepted.") });
  await broken.stop();
  expect(await verify(), "the row of the lost record stays unbelieved").toMatchObject({
    code: 1,
    stdout: expect.stringMatching(
      /^All 5 records are intact[\s\S]*\nKey [0-9a-f]{32} is gone or not in the state/,
    ),
  });
  const opened = await startVault(home);
  expect(opened.sealing.state()).toBeUndefined();
  expect(await audit("accept", end)).toMatchObject({
    code: 1,
    stderr: "keyvault: Another vault process writes to this database\n",
  });
  await opened.stop();
  expect(await home.sql("select caller, detail from audit where statement = 'head_accept'")).toEqual([
    { caller: "recovery", detail: { noted: lost, accepted: end.split(":")[0] } },
  ]);
});
