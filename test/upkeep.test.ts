import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds } from "../src/clock.ts";
import { askForBinding } from "../src/clusters/namespace_binding.ts";
import { monthOf, partitionName } from "../src/db/months.ts";
import { setScene } from "./http/walk/scene.ts";
import { type ApiOptions, type Person, startApi, type TestApi, withReplica } from "./support/api.ts";
import { type SteeredClock, steeredClock } from "./support/clock.ts";
import { createFakeVault } from "./support/fake_vault.ts";
import { holdLoopPauses } from "./support/loop_pauses.ts";
import { copyRequest, createAgent, registerPlatform, requested } from "./support/platform_world.ts";
import { until } from "./support/process.ts";

const HOUR = 60 * 60;
const DAY = 24 * HOUR;
const MOMENT = 0.001;
/** The pauses of the loops of the API, in milliseconds. */
const UPKEEP = 30 * 60_000;
const UPKEEP_SOON = 60_000;
const VAULT_SYNC = 30_000;

const pauses = holdLoopPauses([UPKEEP, UPKEEP_SOON, VAULT_SYNC]);
let first: TestApi;
beforeAll(async () => {
  first = await startApi({ clock: steeredClock(now) });
  for (const pause of [UPKEEP, UPKEEP_SOON, VAULT_SYNC]) await pauses.begun(pause);
});
afterAll(() => first.stop());

/** Runs a second replica of the API while `use` runs. `step` lets its upkeep run once more. */
function withUpkeep(options: ApiOptions, use: (step: () => Promise<void>) => Promise<void>): Promise<void> {
  const begun = () => Promise.all([pauses.begun(UPKEEP), pauses.begun(UPKEEP_SOON)]);
  return withReplica(first, options, async () => {
    let ends = await begun();
    await use(async () => {
      for (const end of ends) end();
      ends = await begun();
    });
  });
}

const hourOf = (time: Date) => new Date(Math.floor(time.getTime() / HOUR / 1000) * HOUR * 1000);
const challengesOf = (hour: Date) =>
  `spent_challenges_${hour.toISOString().slice(0, 13).replaceAll(/[-T]/g, "_")}`;

async function countTables(name: string): Promise<number> {
  const { rows } = await first.db.raw("select from pg_class where relname = ?", [name]);
  return rows.length;
}

/** Registers a platform with an `Idempotency-Key`. The stored answer contains a secret. */
async function registerWithKey({ client }: Pick<Person, "client">) {
  const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
  const headers = { "idempotency-key": randomUUID() };
  expect((await client.post("/v1/service/platforms", body, { headers })).status).toBe(201);
}

const organization = () => first.person({ organization_name: "Engines" });

/** Work that upkeep does after some time. */
type Work = {
  title: string;
  /** Prepares the work. Returns the last moment at which upkeep must not do it. */
  prepare(): Promise<Date>;
  /** Counts what upkeep has not done yet. */
  left(): Promise<number>;
};

/** The time at which the tests prepare the works: in the middle of an hour, early in the current month. */
const now = addSeconds(monthOf(new Date()).from, 4 * DAY + 10.5 * HOUR);

const WORKS: Work[] = [
  {
    title: "erases the secret in a stored answer after 10 minutes",
    async prepare() {
      await registerWithKey(await organization());
      return addSeconds(now, 600 - MOMENT);
    },
    left: async () => (await first.db("idempotency_keys").whereRaw("octet_length(answer_sealed) > 0")).length,
  },
  {
    title: "deletes a presented proof 5 minutes after its presentation",
    async prepare() {
      await (await setScene(first)).proof();
      return addSeconds(now, 300);
    },
    left: async () => (await first.db("audit_events").where({ event_type: "proof.presented" })).length,
  },
  {
    title: "deletes the count of a rate limit when the limit ends",
    async prepare() {
      const end = addSeconds(now, 900);
      await first.db("rate_limits").insert({ key: "ended", points: 1, expire: Number(end) });
      return end;
    },
    left: async () => (await first.db("rate_limits").where({ key: "ended" })).length,
  },
  {
    title: "creates the partition of spent challenges three hours in advance",
    prepare: async () => addSeconds(hourOf(now), HOUR - MOMENT),
    left: async () => 1 - (await countTables(challengesOf(addSeconds(now, 4 * HOUR)))),
  },
  {
    title: "drops an hour's spent challenges two hours after that hour",
    prepare: async () => addSeconds(hourOf(now), 3 * HOUR - MOMENT),
    left: async () => countTables(challengesOf(now)),
  },
  {
    title: "deletes a stored answer after a day",
    async prepare() {
      await registerWithKey(await organization());
      return addSeconds(now, DAY - MOMENT);
    },
    left: async () => (await first.db("idempotency_keys")).length,
  },
  {
    title: "deletes a sign-in mail a day after its code expired",
    async prepare() {
      await first.client().signIn("mailed@example.test");
      return addSeconds(now, 600 + DAY);
    },
    left: async () => (await first.db("sign_in_mails")).length,
  },
  {
    title: "looks up a verified domain again after a day",
    async prepare() {
      const { client } = await organization();
      await client.post("/v1/service/organization/domains", { domain: "again.example.com" });
      await client.post("/v1/service/organization/domains/again.example.com/verify");
      return addSeconds(now, DAY - MOMENT);
    },
    left: async () => (await first.db("organization_domains").where("checked_at", "<=", now)).length,
  },
  {
    title: "deletes a decided invocation after INVOCATION_DAYS",
    async prepare() {
      await setScene(first);
      return addSeconds(now, 3 * DAY);
    },
    left: async () => (await first.db("invocations")).length,
  },
  {
    title: "deletes an invitation after 7 days",
    async prepare() {
      const { client } = await organization();
      const body = { email: "invited@example.test", role: "auditor" };
      expect((await client.post("/v1/service/organization/members", body)).status).toBe(201);
      return addSeconds(now, 7 * DAY - MOMENT);
    },
    left: async () => (await first.db("organization_invitations")).length,
  },
  {
    title:
      "deletes an undecided request UNDECIDED_REQUEST_DAYS after it expired, and no decided or declared one",
    async prepare() {
      const { requestId } = await requested(first);
      await copyRequest(first.db, requestId, 1, { status: "expired", reason: "undecided" });
      await copyRequest(first.db, requestId, 1, { status: "withdrawn", reason: "undecided" });
      await copyRequest(first.db, requestId, 1, { status: "withdrawn", external_id: `c1.${randomUUID()}` });
      await copyRequest(first.db, requestId, 1, { status: "denied" });
      await copyRequest(first.db, requestId, 1, { status: "approved" });
      await first.db("delegation_requests").where({ request_id: requestId }).update({ reason: "undecided" });
      return addSeconds(now, 11 * DAY);
    },
    left: async () => {
      const rows = await first.db("delegation_requests").where({ reason: "undecided" });
      const decided = await first.db("delegation_requests").whereIn("status", ["approved", "denied"]);
      if (decided.length < 2) throw new Error("A decided request was deleted");
      const declared = await first.db("delegation_requests").whereNotNull("external_id");
      if (declared.length < 1) throw new Error("The request of a Kubernetes object was deleted");
      return rows.length;
    },
  },
  {
    title: "deletes a namespace's request to act for an account after 14 days, and what it recorded",
    async prepare() {
      const { accountId } = await organization();
      await askForBinding(first, accountId, { clusterId: "c1", namespace: "team-a" });
      const object = { account_id: accountId, cluster_id: "c1", namespace: "team-a", name: "shop" };
      await first.db("declared_ceilings").insert({ ...object, ceiling: ["data:read"] });
      return addSeconds(now, 14 * DAY);
    },
    left: async () => {
      const asking = await first.db("namespace_bindings").whereNull("accepted_at");
      return asking.length + (await first.db("declared_ceilings")).length;
    },
  },
  {
    title: "drops an archived month of the history after HISTORY_RETENTION_MONTHS",
    async prepare() {
      const month = monthOf(now, -3);
      await first.db.raw(
        `create table ${partitionName("audit_events", month)} partition of audit_events
           for values from ('${month.from.toISOString()}') to ('${month.to.toISOString()}')`,
      );
      await first.db("history_archives").insert({
        starts_at: month.from,
        ends_at: month.to,
        manifest_hash: Buffer.alloc(32),
        row_counts: JSON.stringify({ audit_events: 0, outcomes: 0 }),
        archived_at: now,
      });
      return addSeconds(monthOf(now, 1).from, -MOMENT);
    },
    left: async () => countTables(partitionName("audit_events", monthOf(now, -3))),
  },
  {
    title: "creates the partition of the history a month in advance",
    prepare: async () => addSeconds(monthOf(now, 1).from, -MOMENT),
    left: async () => 1 - (await countTables(partitionName("audit_events", monthOf(now, 2)))),
  },
  {
    title: "deletes a session 30 days after it expired",
    async prepare() {
      await first.person();
      return addSeconds(now, 60 * DAY);
    },
    left: async () => (await first.db("sessions")).length,
  },
  {
    title: "deletes a session's family with its last session",
    async prepare() {
      await first.person();
      return addSeconds(now, 60 * DAY);
    },
    left: async () => (await first.db("session_families")).length,
  },
];

const DELETIONS = WORKS.filter(({ title }) => !title.startsWith("creates "));

describe("the upkeep of a running API", () => {
  /** Counts the rest of each work at its last moment, and a millisecond later. */
  const seen = new Map<Work, number[]>();
  /** The rest of each work, before and after a run half a year later in which the clocks disagree. */
  const kept = new Map<Work, number[]>();
  async function stepInDisagreement(clock: SteeredClock, step: () => Promise<void>): Promise<void> {
    const left = () => Promise.all(DELETIONS.map((work) => work.left()));
    const before = await left();
    clock.set(addSeconds(now, 200 * DAY));
    clock.setAgreement(false);
    await step();
    clock.setAgreement(true);
    const after = await left();
    for (const [n, work] of DELETIONS.entries()) kept.set(work, [before[n] ?? 0, after[n] ?? 0]);
  }
  beforeAll(async () => {
    const due = new Map<Work, Date>();
    for (const work of WORKS) due.set(work, await work.prepare());
    const clock = steeredClock(now);
    const config = { INVOCATION_DAYS: 3, UNDECIDED_REQUEST_DAYS: 4, HISTORY_RETENTION_MONTHS: 3 };
    await withUpkeep({ clock, config }, async (step) => {
      await stepInDisagreement(clock, step);
      for (const moment of [...new Set([...due.values()].map(Number))].sort((a, b) => a - b)) {
        const works = WORKS.filter((work) => Number(due.get(work)) === moment);
        for (const time of [moment, moment + 1]) {
          clock.set(new Date(time));
          await step();
          for (const work of works) seen.set(work, [...(seen.get(work) ?? []), await work.left()]);
        }
      }
    });
  });

  test.each(WORKS)("$title, and not before", (work) => {
    const [before = 0, after] = seen.get(work) ?? [];
    expect(before).toBeGreaterThan(0);
    expect(after).toBe(0);
  });

  test.each(DELETIONS)("$title, but never while the clocks disagree", (work) => {
    const [before = 0, after] = kept.get(work) ?? [];
    expect(before).toBeGreaterThan(0);
    expect(after).toBe(before);
  });

  test("deletes from more than one page of rows", async () => {
    const rows = Array.from({ length: 1_001 }, () => ({
      account_id: randomUUID(),
      connection_id: randomUUID(),
      invocation_id: "old",
      operation_hash: Buffer.alloc(32),
      event_id: randomUUID(),
      decided_at: addSeconds(first.clock.now(), -31 * DAY),
    }));
    await first.db.batchInsert("invocations", rows, 1_001);
    await withUpkeep({}, async () => {
      expect(await first.db("invocations").where({ invocation_id: "old" })).toEqual([]);
    });
  });

  /** Inserts verified domains that are due. Upkeep claims 10 of them at a time. */
  async function insertDomains(): Promise<void> {
    const { accountId } = await organization();
    const domains = Array.from({ length: 15 }, (_, n) => ({
      organization_id: accountId,
      domain: `d${n}-${accountId}.example.com`,
      token: randomUUID(),
      created_at: now,
      verified_at: now,
      checked_at: addSeconds(now, -DAY),
    }));
    await first.db("organization_domains").insert(domains);
  }
  const dueDomains = () => first.db("organization_domains").where("checked_at", "<=", addSeconds(now, -DAY));

  test("looks up all due domains in one run, and ends after the running lookups when the API stops", async () => {
    await insertDomains();
    await withUpkeep({}, async () => expect(await dueDomains()).toEqual([]));
    await insertDomains();
    const answer = Promise.withResolvers<"found">();
    let count = 0;
    const lookupTxt = () => {
      count += 1;
      return answer.promise;
    };
    const api = await startApi({ shares: first, lookupTxt });
    await until("the first lookups run", () => count === 10);
    const stopped = api.stop();
    await until("it stops", () =>
      fetch(api.url).then(
        () => false,
        () => true,
      ),
    );
    answer.resolve("found");
    await stopped;
    expect([count, (await dueDomains()).length]).toEqual([10, 5]);
  });

  test("moves rows of a month without a partition into the partition of this month", async () => {
    const month = monthOf(first.clock.now(), -1);
    const rowsBy = async () => {
      const query = "select tableoid::regclass::text as name from outcomes where decided_at = ?";
      return (await first.db.raw(query, [month.from])).rows.map(({ name }: { name: string }) => name);
    };
    await withUpkeep({}, async (step) => {
      await first.db("outcomes").insert({
        account_id: randomUUID(),
        decided_at: month.from,
        event_id: randomUUID(),
        outcome: "executed",
        occurred_at: month.from,
        recorded_at: month.from,
      });
      expect(await rowsBy()).toEqual(["outcomes_other"]);
      await step();
      expect(await rowsBy()).toEqual([partitionName("outcomes", month)]);
    });
  });
});

describe("a loop of a running API", () => {
  test("sends to the vault every 30 seconds the changes of agents that are due", async () => {
    const person = await first.person();
    const agentId = await createAgent(first.client(), await registerPlatform(person));
    const sent: string[] = [];
    const shrinkCeiling = async () => void sent.push(agentId);
    await withUpkeep({ vault: Object.assign(createFakeVault(), { shrinkCeiling }) }, async () => {
      const end = await pauses.begun(VAULT_SYNC);
      await first.db("agents").where({ agent_id: agentId }).update({ vault_due_at: first.clock.now() });
      end();
      await until("the change is sent", () => sent.length > 0);
    });
  });

  test("deletes what it can while a table is missing, and names what fails once", async () => {
    const rename = (from: string, to: string) => first.db.raw(`alter table ${from} rename to ${to}`);
    const left = async () => [
      await first.db("rate_limits").where({ key: "ended" }),
      await first.db("audit_events").where({ event_type: "proof.presented" }),
    ];
    await first.db("rate_limits").insert({ key: "ended", points: 1, expire: 1 });
    await (await setScene(first)).proof();
    await rename("idempotency_keys", "hidden_keys");
    await rename("organization_invitations", "hidden_invitations");
    const clock = steeredClock(addSeconds(now, HOUR));
    const api = await startApi({ shares: first, clock });
    const failed = (part: string) =>
      api.lines.filter((line) => line.includes("a part of the upkeep fails") && line.includes(part)).length;
    const parts = ["invitations", "stored answers", "secrets in stored answers"];
    await until("all faults are logged", () => parts.every((part) => failed(`"part":"${part}"`) > 0));
    await until("everything else is deleted", async () => (await left()).flat().length === 0);
    await rename("hidden_keys", "idempotency_keys");
    await rename("hidden_invitations", "organization_invitations");
    for (const loop of ["upkeep", "upkeep_soon"]) {
      await until(`${loop} works again`, () =>
        api.lines.some((line) => line.includes("working again") && line.includes(`"loop":"${loop}"`)),
      );
    }
    expect(parts.map((part) => failed(`"part":"${part}"`))).toEqual([1, 1, 1]);
    await api.stop();
  });

  test("logs a fault, and works again after the fault", async () => {
    const tables = ["idempotency_keys", "notices", "agents"];
    const rename = async (from: string, to: string) => {
      for (const table of tables) await first.db.raw(`alter table ${from}${table} rename to ${to}${table}`);
    };
    await rename("", "hidden_");
    const api = await startApi({ shares: first });
    const logged = (loop: string, message: string) =>
      api.lines.some((line) => line.includes(message) && line.includes(`"loop":"${loop}"`));
    const loops = ["upkeep", "upkeep_soon", "notices"];
    await until("all faults are logged", () =>
      loops.every((loop) => logged(loop, "not working, trying again")),
    );
    await until("the vault sync is logged", () =>
      api.lines.some((line) => line.includes("could not read which agents the vault must update")),
    );
    await rename("hidden_", "");
    await until("all work again", () => loops.every((loop) => logged(loop, "working again")));
    await api.stop();
  });
});
