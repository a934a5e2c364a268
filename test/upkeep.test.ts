import { randomBytes, randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds } from "../src/clock.ts";
import { type ApiConfig, ConfigError, readApiConfig } from "../src/config.ts";
import { createIdempotency } from "../src/http/idempotency.ts";
import { createSecretBox } from "../src/secret_box.ts";
import { startUpkeep } from "../src/upkeep.ts";
import { decisionWorld } from "./proofs/decision_world.ts";
import { steeredClock } from "./support/clock.ts";
import { until } from "./support/process.ts";

const world = decisionWorld();
const clock = steeredClock(new Date("2026-05-01T10:00:00.000Z"));
const log = pino({ level: "silent" });
let upkeep: { stop(): Promise<void> };

const invocation = (days: number) => ({
  account_id: randomUUID(),
  connection_id: randomUUID(),
  invocation_id: `${days} days`,
  operation_hash: Buffer.alloc(32),
  event_id: randomUUID(),
  decided_at: addSeconds(clock.now(), -days * 86_400),
});

beforeAll(async () => {
  await world.db("invocations").insert([invocation(6), invocation(8)]);
  await world.db("sign_in_mails").insert({
    mail_id: randomUUID(),
    email_hash: randomBytes(32),
    kind: "digits",
    client_hash: randomBytes(32),
    code_hash: randomBytes(32),
    created_at: addSeconds(clock.now(), -87_100),
    expires_at: addSeconds(clock.now(), -86_500),
  });
  const idempotency = createIdempotency({
    db: world.db,
    secretBox: createSecretBox(randomBytes(32)),
    clock,
    log,
  });
  const domains = { lookupTxt: async () => "found" as const, word: "service" };
  const { pool, db } = world;
  upkeep = await startUpkeep({
    pool,
    months: pool,
    db,
    clock,
    idempotency,
    invocationDays: 7,
    retentionMonths: undefined,
    domains,
    log,
  });
});

afterAll(() => upkeep.stop());

test("upkeep creates the partitions before the API serves calls, and deletes expired rows soon after", async () => {
  const { rows } = await world.pool.query(
    "select from pg_inherits where inhrelid = to_regclass('audit_events_2026_05')",
  );
  expect(rows).toHaveLength(1);
  await until("the old invocation is gone", async () => (await world.db("invocations")).length === 1);
  expect((await world.db("invocations").first())?.invocation_id).toBe("6 days");
  await until("the old code is gone", async () => (await world.db("sign_in_mails")).length === 0);
});

test("INVOCATION_DAYS must be at least one whole day, and defaults to 30", () => {
  const environment = {
    DATABASE_URL: "postgres://localhost/none",
    SEALING_KEY: `${"A".repeat(43)}=`,
    BASE_URL: "http://localhost",
    VAULT_URL: "https://localhost",
    VAULT_CA_FILE: "ca",
    VAULT_CERT_FILE: "cert",
    VAULT_KEY_FILE: "key",
    DEVELOPMENT: "true",
  };
  const read = (value?: string): ApiConfig["INVOCATION_DAYS"] =>
    readApiConfig({ ...environment, ...(value !== undefined && { INVOCATION_DAYS: value }) }).INVOCATION_DAYS;
  expect([read(), read("1"), read("36500")]).toEqual([30, 1, 36_500]);
  for (const wrong of ["0", "1.5", "-1", "36501", "x"]) expect(() => read(wrong)).toThrow(ConfigError);
});
