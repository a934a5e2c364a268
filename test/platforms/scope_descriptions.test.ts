import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { newIdAt } from "../../src/ids.ts";
import { checkDescriptions } from "../../src/platforms/scope_descriptions.ts";
import { runningApi } from "../support/api.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";
import { declaration, declarations } from "./declarations.ts";

const api = runningApi();
const { put, declared } = declarations(api);

const REFUND = "custom:shop:refund";
const RATE = "custom:shop:rate";
const CEILING = ["data:read", REFUND, RATE];
const words = (label: string, more: object = {}) => ({ label, description: "Pays money back", ...more });
const refund = { ...words("Refund an order"), sensitive: true };

async function shop(fields: object = {}) {
  const person = await api.person();
  const platform = await registerPlatform(person, { default_allowed_scopes: CEILING, ...fields });
  const path = `/v1/service/platforms/${platform.platformId}`;
  return {
    person,
    platform,
    change: (scope_descriptions: unknown, more: object = {}) =>
      person.client.call("PATCH", path, { body: { scope_descriptions, ...more } }),
    shown: async () => (await person.client.get(path)).body.scope_descriptions,
  };
}

test("checkDescriptions accepts words of 16,384 bytes in JSON, and refuses one byte more", () => {
  const scopes = Array.from({ length: 40 }, (_, n) => `custom:orders:${"a".repeat(200)}${n}`);
  const of = (length: number) =>
    Object.fromEntries(
      scopes.map((scope, n) => [
        scope,
        {
          label: `Do ${"x".repeat(n + 1)}`,
          description: "é".repeat(n === 0 ? length : 50),
          sensitive: false,
        },
      ]),
    );
  const room = (16_384 - Buffer.byteLength(JSON.stringify(of(0)))) / 2;
  expect(() => checkDescriptions(scopes, of(Math.floor(room)))).not.toThrow();
  expect(() => checkDescriptions(scopes, of(Math.floor(room) + 1))).toThrow("must not exceed 16384 bytes");
});

describe("scope_descriptions", () => {
  test("keeps the words from the registration, and replaces them with a PATCH", async () => {
    const { change, shown } = await shop({ scope_descriptions: { [REFUND]: refund } });
    expect(await shown()).toEqual({ [REFUND]: refund });
    const changed = await change({ [RATE]: words("  Rate an order ") });
    expect(changed.body.scope_descriptions).toEqual({
      [RATE]: { ...words("Rate an order"), sensitive: false },
    });
    expect((await change({})).body.scope_descriptions).toEqual({});
  });

  test("keeps the words when a PATCH omits them, and drops those of scopes that leave the ceiling", async () => {
    const both = { [REFUND]: refund, [RATE]: { ...words("Rate an order"), sensitive: false } };
    const { change, shown } = await shop({ scope_descriptions: both });
    await change(undefined, { name: "Other" });
    expect(await shown()).toEqual(both);
    await change(undefined, { default_allowed_scopes: ["data:read", REFUND] });
    expect(await shown()).toEqual({ [REFUND]: refund });
  });

  test.each([
    ["data:read", "a scope of the vocabulary"],
    ["custom:other:do", "a custom scope of another platform"],
    ["constructor", "a name that no scope has"],
  ])("refuses words for %s, %s", async (scope) => {
    const { change, shown } = await shop();
    const answer = await change(JSON.parse(JSON.stringify({ [scope]: words("Do it") })));
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_scopes"]);
    expect(await shown()).toEqual({});
  });

  test("refuses words for a scope that the same PATCH removes", async () => {
    const { change } = await shop();
    const answer = await change({ [RATE]: words("Rate it") }, { default_allowed_scopes: ["data:read"] });
    expect(errorCode(answer)).toBe("invalid_scopes");
  });

  test.each([
    ["", "an empty label"],
    ["x".repeat(61), "a label of 61 characters"],
    ["two\nlines", "a label of two lines"],
    ["turn\u202ed", "a change of direction"],
    ["hid\u200bden", "a hidden character"],
    ["p\u0430y back", "letters of two scripts"],
    ["Read data", "the words of a scope of the vocabulary"],
    ["  read   DATA. ", "those words in another form"],
    ["Réad däta", "those words with accents"],
    ["Send e-mai1", "those words with a digit for a letter"],
    ["Read data \u0308", "those words with an accent at their end"],
    ["Read data ✅", "those words with a picture"],
    ["data:read", "the name of a scope of the vocabulary"],
  ])("refuses the label %j, %s", async (label) => {
    const { change } = await shop();
    const answer = await change({ [RATE]: words(label) });
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
  });

  test.each([
    ["पढ़ना", "पढ़ाना"],
    ["✅", "❌"],
  ])("accepts the labels %j and %j, which differ", async (first, second) => {
    const { change } = await shop();
    expect((await change({ [RATE]: words(first), [REFUND]: words(second) })).status).toBe(200);
  });

  test("refuses descriptions over 200 characters, members that are missing, and two labels that look the same", async () => {
    const { change } = await shop();
    const refused = [
      { [RATE]: words("Rate it", { description: "x".repeat(201) }) },
      { [RATE]: words("Rate it", { description: "" }) },
      { [RATE]: { label: "Rate it" } },
      { [RATE]: words("Rate it", { sensitive: "no" }) },
      { [RATE]: words("Rate it"), [REFUND]: words("rate-it") },
      [words("Rate it")],
    ];
    for (const each of refused) expect(errorCode(await change(each))).toBe("invalid_request");
    const longest = { [RATE]: words("x".repeat(60), { description: "y".repeat(200) }) };
    expect((await change(longest)).status).toBe(200);
  });

  test("keeps the words from the time of a request in the request, its certificate and the history", async () => {
    const { person, platform, change } = await shop({ scope_descriptions: { [REFUND]: refund } });
    const keyed = { headers: { "x-service-api-key": platform.apiKey }, csrf: false };
    const agents = `/v1/service/connections/${platform.connectionId}/agents`;
    const agent = await api.client().post(agents, { name: "bot", agent_type: "api_agent" }, keyed);
    const event = (seconds: number, cert_id: string) => {
      const occurred_at = addSeconds(api.clock.now(), seconds);
      return {
        ...{ account_id: person.accountId, occurred_at, event_id: newIdAt(occurred_at), cert_id },
        ...{ event_type: "proof.verified" as const, connection_id: platform.connectionId },
        ...{ agent_id: String(agent.body.agent_id), human_id: person.humanId, required_scope: REFUND },
        ...{ decision: "allow" as const, decision_reason: "authorized" },
      };
    };
    const ask = async () => {
      const asked = { connection_id: platform.connectionId, requested_scope: ["data:read", REFUND] };
      const { body } = await person.client.post("/v1/service/delegations/self-request", asked);
      return `/v1/service/delegations/requests/${String(body.request_id)}`;
    };
    const path = await ask();
    await change({ [REFUND]: words("See an order") });
    expect((await person.client.get(path)).body.scope_descriptions).toEqual({ [REFUND]: refund });
    const approved = await person.client.post(`${path}/approve`, { approved_scope: [REFUND] });
    const certificate = await person.client.get(`/v1/service/delegations/${String(approved.body.cert_id)}`);
    expect(certificate.body.scope_descriptions).toEqual({ [REFUND]: refund });
    await api.db("audit_events").insert([event(1, String(approved.body.cert_id)), event(0, "cert-unknown")]);
    const { body } = await person.client.get("/v1/service/audit/personal/export");
    expect(body.events).toMatchObject([{ scope_label: "Refund an order" }, { scope_label: "See an order" }]);
    const later = { [REFUND]: { ...words("See an order"), sensitive: false } };
    expect((await person.client.get(await ask())).body.scope_descriptions).toEqual(later);
  });

  test("an object sets, changes and removes the words, and keeps them if the operator omits them", async () => {
    const scope_descriptions = { [REFUND]: refund };
    const { person, id, answer } = await declared({ default_allowed_scopes: CEILING, scope_descriptions });
    const path = `/v1/service/platforms/${String(answer.body.platform_id)}`;
    const shown = async () => (await person.client.get(path)).body.scope_descriptions;
    const again = (more: object) =>
      put(id, declaration(person, { default_allowed_scopes: CEILING, ...more }));
    expect(await shown()).toEqual(scope_descriptions);
    await again({});
    expect(await shown()).toEqual(scope_descriptions);
    expect(errorCode(await again({ scope_descriptions: { "data:read": refund } }))).toBe("invalid_scopes");
    await again({ scope_descriptions: {} });
    expect(await shown()).toEqual({});
  });
});

describe("explanation_values", () => {
  test("has the registered value, and an object changes it only if it names one", async () => {
    const { person, platform } = await shop({ explanation_values: "hashed" });
    const registered = await person.client.get(`/v1/service/platforms/${platform.platformId}`);
    expect(registered.body.explanation_values).toBe("hashed");
    const { person: owner, id, answer } = await declared({ explanation_values: "full" });
    const path = `/v1/service/platforms/${String(answer.body.platform_id)}`;
    const shown = async () => (await owner.client.get(path)).body.explanation_values;
    expect(await shown()).toBe("full");
    await put(id, declaration(owner, {}));
    expect(await shown()).toBe("full");
    await put(id, declaration(owner, { explanation_values: "rounded" }));
    expect(await shown()).toBe("rounded");
    expect((await put(id, declaration(owner, { explanation_values: "none" }))).status).toBe(400);
  });
});
