import { describe, expect, test } from "vitest";
import { runningApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { approve, errorCode, requested } from "../../support/platform_world.ts";

const api = runningApi();

const EURO = (max_amount: number) => ({ type: "max_amount", max_amount, currency: "EUR" });
const pathOf = (requestId: string, asked: Record<string, string> = {}) =>
  `/v1/service/delegations/requests/${requestId}/preview?${new URLSearchParams(asked)}`;

describe("the preview of an approval", () => {
  test("returns the content of the certificate that the approval would create, and stores nothing", async () => {
    const { person, requestId } = await requested(api, {
      requested_scope: ["data:read", "payments:send"],
      constraints: [EURO(100)],
      expires_in: 3600,
    });
    const asked = {
      approved_scope: "data:read",
      constraints: JSON.stringify([EURO(50)]),
      expires_in: "600",
    };
    const { status, body } = await person.client.get(pathOf(requestId, asked));
    expect(status).toBe(200);
    expect(body).toMatchObject({ approved_scope: ["data:read"], constraints: [EURO(100), EURO(50)] });
    expect((await api.db("delegation_requests").where({ request_id: requestId }).first())?.status).toBe(
      "pending",
    );
    expect(await api.db("certificates").where({ request_id: requestId })).toEqual([]);
    const approved = await approve(person, requestId, ["data:read"], {
      constraints: [EURO(50)],
      expires_in: 600,
    });
    const shown = await person.client.get(`/v1/service/delegations/${approved.body.cert_id}`);
    const { cert_id, signature, ...signedFields } = shown.body.cert_json as Record<string, unknown>;
    expect(body.certificate).toEqual(signedFields);
    expect(body.expires_at).toBe(approved.body.expires_at);
    expect((await person.client.get(pathOf(requestId))).status).toBe(409);
  });

  test("covers everything that was requested if the call has no parameters", async () => {
    const { person, requestId } = await requested(api, { requested_scope: ["data:read", "payments:send"] });
    const { body } = await person.client.get(pathOf(requestId));
    expect(body).toMatchObject({
      approved_scope: ["data:read", "payments:send"],
      constraints: [],
      expires_at: null,
    });
  });

  test.each([
    ["a currency with &", { type: "max_amount", max_amount: 1, currency: "A&B" }, ["go"]],
    ["a resource with <", { type: "resource_path", resource_id: "a<b" }, ["go"]],
    ["a path with >", { type: "resource_path", resource_id: "a", path_prefix: "/a>b" }, ["go"]],
    ["an unknown type with & in a name", { type: "acme", params: { "a&b": [{ c: 1 }] } }, ["go"]],
    ["a longitude near zero", { type: "geo_circle", lat: 50, lon: -0.00001, radius_m: 5 }, ["python"]],
    ["a very small amount", { type: "max_amount", max_amount: 1e-7, currency: "BTC" }, ["python"]],
    ["both", { type: "max_amount", max_amount: 0.00009, currency: "<>" }, ["go", "python"]],
    ["neither", { type: "geo_circle", lat: 0, lon: 0.0001, radius_m: 9007199254740991 }, []],
  ])("warns, as the approval does, about SDKs that cannot rebuild %s", async (_, constraint, sdks) => {
    const speed = { type: "max_speed_mps", max_mps: 9 };
    const { person, requestId } = await requested(api, { constraints: [speed] });
    const preview = await person.client.get(pathOf(requestId, { constraints: JSON.stringify([constraint]) }));
    const approved = await approve(person, requestId, ["data:read"], { constraints: [constraint] });
    expect([preview.status, approved.status]).toEqual([200, 200]);
    const warnings = sdks.map((sdk) => ({ sdk, constraint: 1, message: expect.any(String) }));
    expect(preview.body.warnings).toEqual(warnings);
    expect(approved.body.warnings).toEqual(sdks.length === 0 ? undefined : warnings);
  });

  test.each([
    ["scope_not_requested", { approved_scope: "" }],
    ["scope_not_requested", { approved_scope: "data:read data:share" }],
    ["invalid_expiry", { expires_in: "7200" }],
    ["invalid_expiry", { expires_in: "60", expires_at: "2100-01-01T00:00:00Z" }],
    ["invalid_constraints", { constraints: '[{"type":"max_rate","count":0,"window_s":1}]' }],
    ["constraint_widened", { constraints: JSON.stringify([EURO(101)]) }],
    ["invalid_request", { constraints: "[" }],
    ["invalid_request", { constraints: '[{"type":"max_rate","count":9007199254740993,"window_s":1}]' }],
    ["invalid_request", { constraints: '[{"type":"max_rate","count":1,"count":1,"window_s":1}]' }],
    ["invalid_request", { expires_in: "soon" }],
  ])("gives the same error as the approval: %s for %j", async (code, asked) => {
    const { person, requestId } = await requested(api, {
      requested_scope: ["data:read"],
      constraints: [EURO(100)],
      expires_in: 3600,
    });
    expect(errorCode(await person.client.get(pathOf(requestId, asked)))).toBe(code);
  });

  test("can be read by every role of the organization, but not by other accounts", async () => {
    const { person, requestId } = await requested(api);
    const other = await api.person();
    expect((await other.client.get(pathOf(requestId))).status).toBe(404);
    const { client } = await addMember(api, person.accountId, "auditor");
    const headers = { "x-service-account": person.accountId };
    expect((await client.get(pathOf(requestId), { headers })).status).toBe(200);
  });
});

test("an approval is refused if an added constraint allows more than a requested constraint", async () => {
  const { person, requestId } = await requested(api, { constraints: [EURO(100)] });
  const wider = await approve(person, requestId, ["data:read"], { constraints: [EURO(10), EURO(101)] });
  expect([wider.status, errorCode(wider)]).toEqual([400, "constraint_widened"]);
  expect(wider.text).toContain("constraints.2: max_amount");
  const same = await approve(person, requestId, ["data:read"], { constraints: [EURO(100)] });
  expect(same.status).toBe(200);
});
