import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { verifyChain } from "../../../keyvault/audit/verify_chain.ts";
import { VaultError } from "../../../keyvault/errors.ts";
import type { Token } from "../../../keyvault/token/client.ts";
import { SILENT } from "../fixture.ts";
import { entry, openChain } from "./chain_support.ts";

const chain = openChain();

test("the journal stores concurrent records in order, and resolves each call after its record is stored", async () => {
  const given = Array.from({ length: 500 }, (_, index) => `n${index}`);
  await Promise.all(given.map((note) => chain.journal.record(entry(note))));
  expect(await chain.notes()).toEqual(given);
  expect(await verifyChain(chain.database, chain.token)).toEqual({
    intact: true,
    head: chain.journal.head(),
  });
});

test("the journal writes many concurrent records in few transactions", async () => {
  const before = await chain.home.sql<{ xact: string }>(
    "select count(distinct xmin::text) as xact from audit",
  );
  await Promise.all(Array.from({ length: 200 }, () => chain.journal.record(entry("shared"))));
  const after = await chain.home.sql<{ xact: string }>(
    "select count(distinct xmin::text) as xact from audit",
  );
  expect(Number(after[0]?.xact) - Number(before[0]?.xact)).toBeLessThanOrEqual(4);
});

test("the journal calls stillTrue after earlier changes took effect, and writes nothing if stillTrue returns false", async () => {
  let state = "old";
  const seen: string[] = [];
  const ask = () => {
    seen.push(state);
    return state === "old";
  };
  const results = await Promise.all([
    chain.journal.record(entry("before"), ask),
    chain.journal.change(async () => ({
      value: "changed",
      entry: entry("change"),
      committed: () => {
        state = "new";
      },
    })),
    chain.journal.record(entry("after"), ask),
  ]);
  expect(results).toEqual([true, "changed", false]);
  expect(seen).toEqual(["old", "new"]);
  expect((await chain.notes()).slice(-2)).toEqual(["before", "change"]);
});

test("the journal rolls back a change that throws, and continues", async () => {
  const { seq } = chain.journal.head();
  const failing = chain.journal.change(async (client) => {
    await client.query("insert into tenants values ('half', 'kek-1', '\\x00', now())");
    throw new Error("no");
  });
  await expect(failing).rejects.toMatchObject({ code: "audit_unavailable" });
  expect(await chain.home.sql("select from tenants where tenant = 'half'")).toEqual([]);
  expect(chain.journal.head().seq).toBe(seq);
  await chain.journal.record(entry("next"));
  expect((await chain.notes()).at(-1)).toBe("next");
});

test("the journal logs that its connection was lost, calls `reopened`, and writes the next record", async () => {
  await chain.journal.close();
  const told: unknown[] = [];
  const log = Object.assign(Object.create(SILENT), { warn: (line: unknown) => told.push(line) });
  chain.journal = await chain.open({ log });
  const before = chain.connections;
  await chain.endWriters();
  await expect
    .poll(() => told, { timeout: 20_000, interval: 5 })
    .toEqual([{ event: "audit_connection_lost" }]);
  expect(await chain.journal.record(entry("back"))).toBe(true);
  expect(chain.connections).toBe(before + 1);
  expect((await chain.notes()).at(-1)).toBe("back");
  expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
});

test("the journal keeps every acknowledged record if it loses its connection under load", async () => {
  const acknowledged: string[] = [];
  const load = Array.from({ length: 40 }, async (_, writer) => {
    for (let round = 0; round < 10; round += 1) {
      const note = `load-${writer}-${round}`;
      await chain.journal.record(entry(note)).then(
        () => acknowledged.push(note),
        (error: unknown) => expect(error).toMatchObject({ code: "audit_unavailable" }),
      );
    }
  });
  await sleep(5);
  await chain.endWriters();
  await Promise.all(load);
  const written = new Set(await chain.notes());
  expect(acknowledged.length).toBeGreaterThan(0);
  expect(acknowledged.filter((note) => !written.has(note))).toEqual([]);
  expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
});

test("verifyChain detects a removed record, two swapped records and an inserted record", async () => {
  const { seq } = chain.journal.head();
  await chain.tamper(
    `create table kept as select * from audit where seq = ${seq - 1}; delete from audit where seq = ${seq - 1}`,
  );
  expect(await verifyChain(chain.database, chain.token)).toEqual({
    intact: false,
    seq: seq - 1,
    reason: "missing",
  });
  await chain.tamper("insert into audit select * from kept; drop table kept");

  const swap = `update audit set seq = case seq when ${seq} then ${seq - 1} + 1000000 else ${seq} + 1000000 end where seq in (${seq}, ${seq - 1}); update audit set seq = seq - 1000000 where seq > 1000000`;
  await chain.tamper(swap);
  expect(await verifyChain(chain.database, chain.token)).toEqual({
    intact: false,
    seq: seq - 1,
    reason: "altered",
  });
  await chain.tamper(swap);

  await chain.tamper(
    `insert into audit select ${seq + 1}, recorded_at, caller, role, key_id, purpose, statement, digest, outcome, detail, mac from audit where seq = ${seq}`,
  );
  expect(await verifyChain(chain.database, chain.token)).toEqual({
    intact: false,
    seq: seq + 1,
    reason: "altered",
  });
  await chain.tamper(`delete from audit where seq = ${seq + 1}`);
  expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
});

test("verifyChain detects missing last records if it is given the head that the chain had before", async () => {
  await chain.journal.record(entry("noted"));
  const noted = chain.journal.head();
  await chain.journal.close();
  await chain.takeOut(noted.seq);
  expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
  expect(await verifyChain(chain.database, chain.token, [noted])).toEqual({
    intact: false,
    seq: noted.seq,
    reason: "cut",
  });
  await chain.putBack();
  expect(await verifyChain(chain.database, chain.token, [noted])).toEqual({ intact: true, head: noted });
  const other = { seq: noted.seq, mac: Buffer.alloc(32, 1) };
  for (const heads of [
    [noted, other],
    [other, noted],
  ]) {
    expect(
      await verifyChain(chain.database, chain.token, heads),
      "each head counts, also of one record",
    ).toEqual({
      intact: false,
      seq: noted.seq,
      reason: "altered",
    });
  }
});

test("the journal writes nothing while its database is set back to an earlier state", async () => {
  await chain.journal.record(entry("lost by a failover"));
  const { seq } = chain.journal.head();
  await chain.takeOut(seq);
  await chain.endWriters();
  await sleep(50);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await expect(chain.journal.record(entry("never"))).rejects.toMatchObject({ code: "audit_unavailable" });
  }
  await chain.putBack();
  await chain.journal.record(entry("again"));
  expect((await chain.notes()).at(-1)).toBe("again");
});

test.each(["record", "change"] as const)(
  "a connected journal writes no %s and logs a mismatch after the chain's last record was removed",
  async (kind) => {
    await chain.journal.close();
    const told: unknown[] = [];
    const log = Object.assign(Object.create(SILENT), { error: (line: unknown) => told.push(line) });
    chain.journal = await chain.open({ log });
    await chain.journal.record(entry("taken out"));
    const { seq } = chain.journal.head();
    await chain.takeOut(seq);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const writing =
        kind === "record"
          ? chain.journal.record(entry("never"))
          : chain.journal.change(async (client) => {
              await client.query("insert into tenants values ('never', 'kek-1', '\\x00', now())");
              return { value: undefined, entry: entry("never") };
            });
      await expect(writing).rejects.toMatchObject({ code: "audit_unavailable" });
      if (attempt === 0) expect(told).toEqual([expect.objectContaining({ event: "audit_mismatch" })]);
    }
    await chain.putBack();
    await chain.journal.record(entry("again"));
    expect((await chain.notes()).slice(-2)).toEqual(["taken out", "again"]);
    expect(await chain.home.sql("select from tenants where tenant = 'never'")).toEqual([]);
    expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
  },
);

test.each([
  "recorded_at = 'infinity'",
  `detail = '{"note": "strange", "more": 1e400}'`,
  `detail = '{"note": "strange", "more": 1e400}', mac = decode(repeat('00', 32), 'hex')`,
  "outcome = 'failed'",
])("the journal does not open after the last record was altered by `update audit set %s`", async (change) => {
  await chain.journal.record(entry("strange"));
  await chain.journal.close();
  const { seq } = chain.journal.head();
  await chain.tamper(`create table kept as select * from audit where seq = ${seq};
                update audit set ${change} where seq = ${seq}`);
  await expect(chain.open()).rejects.toThrow(/does not verify/);
  await chain.putBack();
});

test("the journal does not open a chain that lost its last records and was continued by a second vault", async () => {
  await chain.journal.record(entry("noted"));
  const noted = chain.journal.head();
  await chain.journal.close();
  await chain.takeOut(noted.seq);
  const another = await chain.openForgetful();
  await another.record(entry("in its place"));
  await another.close();
  await expect(chain.open()).rejects.toThrow(/is not the one that the token has noted/);
  expect((await verifyChain(chain.database, chain.token)).intact).toBe(true);
  const found = { intact: false, seq: noted.seq, reason: "altered" };
  expect(await verifyChain(chain.database, chain.token, [noted])).toEqual(found);
  const earlier = { ...noted, seq: noted.seq - 1 };
  expect(await verifyChain(chain.database, chain.token, [noted, earlier])).toMatchObject({
    seq: noted.seq - 1,
  });
  await chain.putBack();
});

test("the journal writes nothing after a second vault replaced the chain's last record", async () => {
  await chain.journal.record(entry("mine"));
  const { seq } = chain.journal.head();
  await chain.endWriters();
  await chain.takeOut(seq);
  const another = await chain.openForgetful();
  await another.record(entry("theirs"));
  await another.close();
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await expect(chain.journal.record(entry("never"))).rejects.toMatchObject({ code: "audit_unavailable" });
  }
  await chain.putBack();
  await chain.journal.record(entry("again"));
  expect((await chain.notes()).slice(-2)).toEqual(["mine", "again"]);
});

test("the journal waits for the disk, whatever the database's synchronous_commit setting is", async () => {
  await chain.journal.close();
  const [row] = await chain.home.sql<{ name: string }>("select current_database() as name");
  await chain.home.sql(`alter database "${row!.name}" set synchronous_commit = off`);
  chain.journal = await chain.open();
  const setting = await chain.journal.change(async (client) => ({
    value: (await client.query<{ synchronous_commit: string }>("SHOW synchronous_commit")).rows[0],
  }));
  expect(setting).toEqual({ synchronous_commit: "on" });
  await chain.home.sql(`alter database "${row!.name}" RESET synchronous_commit`);
});

test("a record in the journal waits for at most one change, and a change waits for at most one batch of records", async () => {
  const order: string[] = [];
  const change = (name: string, meanwhile = () => {}) =>
    chain.journal.change(async () => {
      order.push(name);
      meanwhile();
      return { value: undefined, entry: entry(name) };
    });
  const record = (name: string) => chain.journal.record(entry(name)).then(() => order.push(name));
  const later: Promise<unknown>[] = [];
  const changes = [
    change("first"),
    change("second", () => later.push(record("c"), change("fourth"))),
    change("third"),
  ];
  await Promise.all([...changes, record("a"), record("b")]);
  await Promise.all(later);
  expect(order).toEqual(["first", "a", "b", "second", "c", "third", "fourth"]);
  expect((await chain.notes()).slice(-7)).toEqual(order);
});

test("the journal rolls back a change if the token does not chain the change's record", async () => {
  await chain.journal.close();
  let away = true;
  const failing: Token["chain"] = async (previous, texts) => {
    if (away && texts.length > 0 && Buffer.from(texts[0]!).includes("half")) {
      throw new VaultError("token_unavailable");
    }
    return chain.token.chain(previous, texts);
  };
  chain.journal = await chain.open({ token: { ...chain.token, chain: failing } });
  const half = chain.journal.change(async (client) => {
    await client.query("insert into tenants values ('left', 'kek-1', '\\x00', now())");
    return { value: undefined, entry: entry("half") };
  });
  await expect(half).rejects.toMatchObject({ code: "token_unavailable" });
  away = false;
  await chain.journal.change(async () => ({ value: undefined, entry: entry("whole") }));
  expect(await chain.home.sql("select from tenants where tenant = 'left'")).toEqual([]);
  expect((await chain.notes()).at(-1)).toBe("whole");
});

test("the journal rejects with the VaultError that a change threw", async () => {
  const failing = chain.journal.change(async () => {
    throw new VaultError("key_damaged");
  });
  await expect(failing).rejects.toMatchObject({ code: "key_damaged" });
});
