import { describe, expect, test } from "vitest";
import { type Person, runningApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import {
  approve,
  createAgent,
  registerPlatform,
  selfRequest,
  type TestPlatform,
} from "../../support/platform_world.ts";
import { declaring } from "../declaring.ts";

const api = runningApi();

const hiding: [string, string, Record<string, unknown>][] = [
  [
    "a resource id with reversed text",
    "resource_id",
    { type: "resource_path", resource_id: "\u202e1174-redro" },
  ],
  ["a resource id with a line break", "resource_id", { type: "resource_path", resource_id: "a\nb" }],
  ["a resource id that ends in a space", "resource_id", { type: "resource_path", resource_id: "order " }],
  [
    "a path with a zero-width space",
    "path_prefix",
    { type: "resource_path", resource_id: "a", path_prefix: "/or\u200bders" },
  ],
  [
    "a currency with an invisible character",
    "currency",
    { type: "max_amount", max_amount: 1, currency: "EUR\u2800" },
  ],
  ["a type with reversed text", "type", { type: "x_\u202eknab" }],
  ["reversed text deep in params", "params", { type: "x_bank", params: { to: [{ iban: "\u202e1ED" }] } }],
  ["a reversed member name in params", "params", { type: "x_bank", params: { to: [{ "\u2066iban": 1 }] } }],
  ["a line break in params", "params", { type: "x_bank", params: ["a\nb"] }],
];

const showing: [string, Record<string, unknown>][] = [
  ["a resource in any script", { type: "resource_path", resource_id: "订单 4711/é", path_prefix: "/ä b/" }],
  [
    "an extension's nested parameters",
    { type: "x_bank", params: { to: ["", "DE1 2", { iban: null }], n: 1, "": true } },
  ],
];

let known: { person: Person; platform: TestPlatform } | undefined;

async function ready(): Promise<{ person: Person; platform: TestPlatform }> {
  if (known !== undefined) return known;
  const person = await api.person();
  const platform = await registerPlatform(person);
  await createAgent(api.client(), platform);
  known = { person, platform };
  return known;
}

/** Ways in which a person can add a second constraint to a certificate. */
const ways: [string, (constraint: unknown) => Promise<HttpAnswer>][] = [
  [
    "asks for",
    async (constraint) => {
      const { person, platform } = await ready();
      return person.client.post("/v1/service/delegations/self-request", {
        connection_id: platform.connectionId,
        constraints: [{ type: "max_speed_mps", max_mps: 1 }, constraint],
      });
    },
  ],
  [
    "adds on approval",
    async (constraint) => {
      const { person, platform } = await ready();
      const constraints = [{ type: "max_speed_mps", max_mps: 1 }];
      const request = await selfRequest(person, platform.connectionId, { constraints });
      return approve(person, request, ["data:read"], { constraints: [constraint] });
    },
  ],
];

describe.each(ways)("a constraint that a person %s", (_, send) => {
  test.each(hiding)("must not hide text: %s", async (_, member, constraint) => {
    const { status, body } = await send(constraint);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({
      code: "invalid_constraints",
      message: expect.stringMatching(new RegExp(`^constraints\\.1: ${member}: `)),
    });
    expect((body.error as { message: string }).message).toMatch(/^[ -~]*$/);
  });

  test.each(showing)("may contain %s", async (_, constraint) => {
    expect((await send(constraint)).status).toBeLessThan(300);
  });
});

test("constraints that a manifest declares must not hide text either", async () => {
  const declare = await declaring(api);
  for (const [, member, constraint] of hiding) {
    const { status, body } = await declare(constraint);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({
      code: "invalid_constraints",
      message: expect.stringMatching(new RegExp(`^constraints\\.0: ${member}: `)),
    });
  }
  for (const [, constraint] of showing) expect((await declare(constraint)).status).toBe(200);
});

test("a request that hides text cannot be approved, even if it was filed before the rule against hidden text", async () => {
  const { person, platform } = await ready();
  const request = await selfRequest(person, platform.connectionId);
  const constraints = JSON.stringify([{ type: "resource_path", resource_id: "\u202e1174-redro" }]);
  await api
    .db("delegation_requests")
    .where({ request_id: request })
    .update({
      constraints: constraints as unknown as unknown[],
    });
  const { status, body } = await approve(person, request, ["data:read"]);
  expect([status, body.error]).toMatchObject([400, { code: "invalid_constraints" }]);
});

test.each([
  ["a time zone", { type: "time_window", start: "09:00", end: "10:00", tz: "Mars/\u202eOlympus" }],
  ["a member's name", { type: "max_speed_mps", max_mps: 1, "Olympus\u202e": 1 }],
  ["a resource id", { type: "resource_path", resource_id: `\u202eOlympus${"x".repeat(512)}` }],
])("the error about hidden text in %s does not repeat this text", async (_, constraint) => {
  const { person, platform } = await ready();
  const { status, body } = await person.client.post("/v1/service/delegations/self-request", {
    connection_id: platform.connectionId,
    constraints: [constraint],
  });
  expect([status, body.error]).toMatchObject([400, { code: "invalid_constraints" }]);
  const { message } = body.error as { message: string };
  expect(message).toMatch(/^[ -~]*$/);
  expect(message).not.toContain("Olympus");
});
