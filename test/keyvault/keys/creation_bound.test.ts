import { expect, test } from "vitest";
import { type CreationRateParts, limitKeyCreation } from "../../../keyvault/keys/creation_rate.ts";
import { createRates } from "../../../keyvault/rates.ts";

/** Creation of keys, bounded, while the clock is stopped. */
function bounded(rate: number, perDay: number) {
  const alarms: object[] = [];
  const parts = {
    createKey: async () => ({ key_id: "made" }),
    database: () => ({ where: () => ({ first: async () => undefined }) }),
    journal: { record: async () => true },
    rates: createRates(() => 0),
    rate,
    perDay,
    log: { error: (event: object) => alarms.push(event) },
    keyCreations: { inc() {} },
  } as unknown as CreationRateParts;
  const create = limitKeyCreation(parts);
  const ask = async (name: string, tenant: string, role: "api" | "admin" = "api") => {
    const answer = await create({ role, name }, "request", { tenant, purpose: "agent", label: "key" });
    return "refused" in answer ? answer.refused : "made";
  };
  return { ask, alarms };
}

test("what one caller asks for a tenant uses up nothing of another caller's, nor of another tenant's", async () => {
  const { ask, alarms } = bounded(1, 0);
  while ((await ask("stray", "acc-1")) === "made");
  expect(await ask("api", "acc-1")).toBe("made");
  expect(await ask("stray", "acc-2")).toBe("made");
  expect(await ask("stray", "acc-1", "admin")).toBe("made");
  expect(alarms).toEqual([]);
});

test("a caller that is over the bound for all its tenants is reported each time, and nobody else is", async () => {
  const { ask, alarms } = bounded(0, 2);
  expect(await Promise.all(["a", "b", "c"].map((tenant) => ask("stray", tenant)))).toEqual([
    "made",
    "made",
    "rate_limited",
  ]);
  expect(await ask("api", "c")).toBe("made");
  expect(alarms).toEqual([
    { event: "caller_creates_too_many_keys", caller: "stray", role: "api", per_day: 2 },
  ]);
});
