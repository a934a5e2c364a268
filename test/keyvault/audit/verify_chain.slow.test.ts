import { expect, test } from "vitest";
import { verifyChain } from "../../../keyvault/audit/verify_chain.ts";
import { entry, openChain } from "./chain_support.ts";

const chain = openChain();

test("the journal refuses a second writer of the same database", async () => {
  await expect(chain.open()).rejects.toThrow(/Another vault process/);
});

test("the database rejects updates, deletions and truncation of audit records", async () => {
  for (const sql of ["update audit set outcome = 'granted'", "delete from audit", "truncate audit"]) {
    await expect(chain.home.sql(sql)).rejects.toThrow(/append-only/);
  }
});

test("verifyChain names the first altered record, for every column", async () => {
  await Promise.all(
    ["t1", "t2", "t3"].map((note) =>
      chain.journal.record({ ...entry(note), keyId: "0".repeat(32), purpose: "agent" }),
    ),
  );
  const [row] = await chain.home.sql<{ seq: number }>(
    "select seq::int from audit where detail->>'note' = 't2'",
  );
  const changes = [
    "recorded_at = recorded_at + interval '1 ms'",
    "caller = 'api2'",
    "role = 'admin'",
    "key_id = repeat('1', 32)",
    "key_id = NULL",
    "purpose = 'service'",
    "statement = 'delegation'",
    "digest = decode(repeat('06', 32), 'hex')",
    "digest = NULL",
    "outcome = 'failed'",
    `detail = '{"note": "t9"}'`,
    "recorded_at = 'infinity'",
    "recorded_at = '-infinity', mac = decode(repeat('00', 32), 'hex')",
    "recorded_at = '294276-01-01'",
    "recorded_at = '4713-01-01 BC'",
    `detail = '{"note": "t2", "more": 1e400}'`,
    `detail = '{"note": "t2", "more": 1e400}', mac = decode(repeat('00', 32), 'hex')`,
    `detail = ('{"note": "t2", "more": ' || repeat('[', 100) || repeat(']', 100) || '}')::jsonb`,
    "mac = decode(repeat('00', 32), 'hex')",
  ];
  for (const change of changes) {
    await chain.home.sql("create table kept as select * from audit where detail->>'note' = 't2'");
    await chain.tamper(`update audit set ${change} where detail->>'note' = 't2'`);
    expect(await verifyChain(chain.database, chain.token), change).toEqual({
      intact: false,
      seq: row?.seq,
      reason: "altered",
    });
    await chain.tamper(
      `delete from audit where seq = ${row?.seq}; insert into audit select * from kept; drop table kept`,
    );
  }
  expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
});
