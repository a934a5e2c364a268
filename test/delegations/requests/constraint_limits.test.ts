import { describe, expect, test } from "vitest";
import { runningApi } from "../../support/api.ts";
import {
  approve,
  createAgent,
  errorCode,
  registerPlatform,
  selfRequest,
} from "../../support/platform_world.ts";
import { declaring } from "../declaring.ts";

const api = runningApi();

/** Limits, each with a constraint that a request can just meet and a constraint that no request can meet. */
const edges: [string, Record<string, unknown>, Record<string, unknown>][] = [
  [
    "a currency of 16 characters, not of 17",
    { type: "max_amount", max_amount: 1, currency: "C".repeat(16) },
    { type: "max_amount", max_amount: 1, currency: "C".repeat(17) },
  ],
  [
    "a resource id of 512 bytes, not of 513",
    { type: "resource_path", resource_id: "é".repeat(256) },
    { type: "resource_path", resource_id: `${"é".repeat(256)}a` },
  ],
  [
    "a path prefix of 4096 characters, not of 4097",
    { type: "resource_path", resource_id: "a", path_prefix: `/${"p".repeat(4095)}/` },
    { type: "resource_path", resource_id: "a", path_prefix: `/${"p".repeat(4096)}` },
  ],
  [
    "a rate over a year, not over a second more",
    { type: "max_rate", count: 1, window_s: 31_536_000 },
    { type: "max_rate", count: 1, window_s: 31_536_001 },
  ],
];

async function ready() {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const agentId = await createAgent(api.client(), platform);
  return { person, platform, agentId };
}

test.each(edges)("a person's request accepts %s", async (_, met, unmet) => {
  const { person, platform } = await ready();
  const ask = (constraint: unknown) =>
    person.client.post("/v1/service/delegations/self-request", {
      connection_id: platform.connectionId,
      constraints: [constraint],
    });
  const refused = await ask(unmet);
  expect([refused.status, errorCode(refused)]).toEqual([400, "invalid_constraints"]);
  expect((await ask(met)).status).toBe(201);
});

/** Approvals and declarations read constraints like a person's request, so one limit is enough here. */
describe.each(edges.slice(0, 1))("a constraint with %s", (_, met, unmet) => {
  test("can be added by an approver", async () => {
    const { person, platform } = await ready();
    const request = await selfRequest(person, platform.connectionId);
    const refused = await approve(person, request, ["data:read"], { constraints: [unmet] });
    expect([refused.status, errorCode(refused)]).toEqual([400, "invalid_constraints"]);
    expect((await approve(person, request, ["data:read"], { constraints: [met] })).status).toBe(200);
  });

  test("can be declared", async () => {
    const declare = await declaring(api);
    const refused = await declare(unmet);
    expect([refused.status, errorCode(refused)]).toEqual([400, "invalid_constraints"]);
    expect((await declare(met)).status).toBe(200);
  });
});

test("an extension constraint's parameters may exceed the limits of known constraints", async () => {
  const { person, platform } = await ready();
  const constraint = { type: "x_bank", params: { currency: "C".repeat(17), window_s: 31_536_001 } };
  await selfRequest(person, platform.connectionId, { constraints: [constraint] });
});
