import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type Application, errorOf, proofApi } from "../proofs/application.ts";
import { fillAcceptedPrincipals } from "../support/accepted_principals.ts";

const world = proofApi();
const REFUND = "custom:orders:refund";

const pathOf = ({ platform }: Application, humanId = "") =>
  `/v1/service/platforms/${platform.platformId}/accepted-principals${humanId && `/${humanId}`}`;

const accept = (shop: Application, humanId: string, body: object = { scopes: ["data:read"] }) =>
  shop.person.client.call("PUT", pathOf(shop, humanId), { body });

const replace = (shop: Application, accepted: object[]) =>
  shop.person.client.call("PUT", pathOf(shop), { body: { accepted_principals: accepted } });

const listed = async (shop: Application, query = "") =>
  (await shop.person.client.get(`${pathOf(shop)}${query}`)).body;

/** Gets a challenge from the shop, has the stranger's agent answer it, and returns the shop's decision. */
async function show(shop: Application, stranger: Application, scope: string) {
  const { challenge } = (await shop.post("/v1/service/challenge")).body;
  const verifier = { verifier_connection_id: shop.platform.connectionId };
  const { body } = await stranger.present({ challenge, required_scope: scope, ...verifier });
  return shop.verify(body.proof_bundle, { required_scope: scope });
}

describe("a user who does not belong to the shop's account", () => {
  test("cannot act at a shop on their own authority with any scope, and sees the attempt in the history", async () => {
    const shop = await world.application(["data:read"]);
    const stranger = await world.application(["data:read", REFUND]);
    for (const scope of ["data:read", REFUND]) {
      const { body } = await show(shop, stranger, scope);
      expect(body).toMatchObject({
        decision: "deny",
        decision_reason: "principal_not_accepted",
        valid: false,
        human_id: stranger.person.humanId,
        granted_scope: [],
      });
    }
    const { events } = (await stranger.person.client.get("/v1/service/audit/personal")).body;
    const [newest] = events as { details: object }[];
    expect(newest).toMatchObject({
      event_type: "proof.rejected",
      connection_id: shop.platform.connectionId,
      agent_id: stranger.agentId,
      cert_id: stranger.certId,
      details: {
        decision: "deny",
        decision_reason: "principal_not_accepted",
        required_scope: REFUND,
        verifier: { platform_name: "Shop", organization_name: null },
      },
    });
    expect(newest?.details).not.toHaveProperty("receipt_id");
  });

  test("sees the verifier's names as of the time of the decision", async () => {
    const owner = await world.api.person({ organization_name: "Shops" });
    const shop = await world.application(["data:read"], owner);
    const stranger = await world.application(["data:read"]);
    await show(shop, stranger, "data:read");
    const path = `/v1/service/platforms/${shop.platform.platformId}`;
    expect((await owner.client.call("PATCH", path, { body: { name: "Bank" } })).status).toBe(200);
    await world.api
      .db("accounts")
      .where({ account_id: owner.accountId })
      .update({ organization_name: "Banks" });
    const verifierOf = async () => {
      const { events } = (await stranger.person.client.get("/v1/service/audit/personal?limit=1")).body;
      return (events as { details: { verifier?: object } }[])[0]?.details.verifier;
    };
    expect(await verifierOf()).toEqual({ platform_name: "Shop", organization_name: "Shops" });
    await show(shop, stranger, "data:read");
    expect(await verifierOf()).toEqual({ platform_name: "Bank", organization_name: "Banks" });
  });

  test("cannot read the receipt of a decision on their authority, because the receipt belongs to the verifier", async () => {
    const [shop, stranger] = [await world.application(), await world.application()];
    const { body } = await show(shop, stranger, "data:read");
    const { receipt_id: id } = body.receipt as { receipt_id: string };
    expect((await shop.person.client.get(`/v1/service/receipts/${id}`)).status).toBe(200);
    expect(errorOf(await stranger.person.client.get(`/v1/service/receipts/${id}`))).toBe("404 not_found");
  });

  test("gets an allow as soon as the shop accepts them, and a denial as soon as the acceptance ends", async () => {
    const [shop, stranger] = [await world.application(), await world.application(["data:read", REFUND])];
    const { humanId } = stranger.person;
    expect((await accept(shop, humanId, { scopes: [REFUND] })).status).toBe(200);
    const { body } = await show(shop, stranger, REFUND);
    expect(body).toMatchObject({ decision: "allow", human_id: humanId, granted_scope: [REFUND] });
    expect((await show(shop, stranger, "data:read")).body.decision).toBe("deny");
    const ended = await shop.person.client.call("DELETE", pathOf(shop, humanId));
    expect(ended.body).toEqual({ human_id: humanId, accepted: false });
    expect((await show(shop, stranger, REFUND)).body.decision_reason).toBe("principal_not_accepted");
  });

  test("cannot accept themselves at the shop or read its accepted principals, not even with an API key", async () => {
    const [shop, stranger] = [await world.application(), await world.application()];
    const { client, humanId } = stranger.person;
    const body = { scopes: ["data:read"] };
    for (const [method, path, sent] of [
      ["PUT", pathOf(shop, humanId), body],
      ["PUT", pathOf(shop), { accepted_principals: [{ human_id: humanId, ...body }] }],
      ["GET", pathOf(shop), undefined],
      ["DELETE", pathOf(shop, humanId), undefined],
    ] as const) {
      expect(errorOf(await client.call(method, path, { body: sent }))).toBe("404 not_found");
      const headers = { "x-service-api-key": shop.platform.apiKey };
      const byKey = await world.api.client().call(method, path, { body: sent, headers });
      expect(errorOf(byKey)).toBe("401 auth_required");
    }
  });
});

describe("agents of one account", () => {
  test("may act at each of that account's platforms", async () => {
    const person = await world.api.person({ organization_name: "Shops" });
    const [one, other] = [
      await world.application(["data:read"], person),
      await world.application(["data:read"], person),
    ];
    expect((await show(one, other, "data:read")).body).toMatchObject({ decision: "allow" });
    const { events } = (await person.client.get("/v1/service/audit/personal?event_type=proof.verified")).body;
    expect(events).toHaveLength(1);
  });
});

describe("the routes for accepted principals", () => {
  test("list principals newest first, in pages, with their scopes and expiry", async () => {
    const [shop, one, other] = [
      await world.application([]),
      await world.api.person(),
      await world.api.person(),
    ];
    const end = new Date(world.api.clock.now().getTime() + 60_000).toISOString();
    const first = await accept(shop, one.humanId, { scopes: ["data:*", REFUND], accepted_until: end });
    expect(first.body).toEqual({
      human_id: one.humanId,
      scopes: ["data:*", REFUND],
      accepted_until: end,
      created_at: world.api.clock.now().toISOString(),
    });
    world.api.clock.advance(1);
    await accept(shop, other.humanId);
    const page = await listed(shop, "?limit=1");
    expect(page.items).toMatchObject([{ human_id: other.humanId, accepted_until: null }]);
    const rest = await listed(shop, `?limit=1&cursor=${page.next_cursor}`);
    expect(rest).toMatchObject({ items: [{ human_id: one.humanId }], next_cursor: null });
  });

  test("change one principal in place, and replace either all principals or none", async () => {
    const [shop, one, other] = [
      await world.application([]),
      await world.api.person(),
      await world.api.person(),
    ];
    await accept(shop, one.humanId);
    expect((await accept(shop, one.humanId, { scopes: ["data:share"] })).body).toMatchObject({
      scopes: ["data:share"],
      accepted_until: null,
    });
    const both = [one, other].map(({ humanId }) => ({ human_id: humanId, scopes: ["data:read"] }));
    expect((await replace(shop, both)).body).toEqual({ platform_id: shop.platform.platformId, accepted: 2 });
    const bad = [both[0] as object, { human_id: randomUUID().replaceAll("-", ""), scopes: ["data:read"] }];
    expect(errorOf(await replace(shop, bad))).toBe("400 invalid_principal");
    expect((await listed(shop)).items).toHaveLength(2);
    const end = world.api.clock.now().toISOString();
    const ended = [both[0] as object, { ...both[1], accepted_until: end }];
    expect((await replace(shop, ended)).body).toMatchObject({ accepted: 1 });
    await replace(shop, both.slice(1));
    expect((await listed(shop)).items).toMatchObject([{ human_id: other.humanId }]);
    await replace(shop, []);
    expect((await listed(shop)).items).toEqual([]);
    expect(errorOf(await shop.person.client.call("DELETE", pathOf(shop, one.humanId)))).toBe("404 not_found");
  });

  test.each([
    [
      "a wildcard over another account's custom scopes",
      { scopes: ["custom:orders:*"] },
      "400 invalid_scopes",
    ],
    ["the wildcard for all scopes", { scopes: ["*"] }, "400 invalid_scopes"],
    ["no scope", { scopes: [] }, "400 invalid_request"],
    ["an unknown scope", { scopes: ["data:reed"] }, "400 invalid_scopes"],
    [
      "an end in the past",
      { scopes: ["data:read"], accepted_until: "2001-01-01T00:00:00Z" },
      "400 invalid_expiry",
    ],
  ])("refuse %s", async (_, body, expected) => {
    const [shop, stranger] = [await world.application([]), await world.api.person()];
    expect(errorOf(await accept(shop, stranger.humanId, body))).toBe(expected);
    expect((await listed(shop)).items).toEqual([]);
  });

  test("accept only people in the registry, each listed once, and not the account's own owner", async () => {
    const [shop, stranger] = [await world.application([]), await world.api.person()];
    const scopes = ["data:read"];
    expect(errorOf(await accept(shop, "0".repeat(32)))).toBe("404 not_found");
    expect(errorOf(await accept(shop, "anybody"))).toBe("404 not_found");
    const unknown = { human_id: "0".repeat(32), scopes };
    expect(errorOf(await replace(shop, [unknown]))).toBe("400 invalid_principal");
    expect(errorOf(await accept(shop, shop.person.humanId))).toBe("400 invalid_principal");
    const twice = { human_id: stranger.humanId, scopes };
    expect(errorOf(await replace(shop, [twice, twice]))).toBe("400 invalid_principal");
    expect(errorOf(await replace(shop, [{ human_id: "*", scopes }]))).toBe("400 invalid_request");
  });

  test("accept at most 1,000 principals", async () => {
    const [shop, stranger] = [await world.application([]), await world.api.person()];
    await fillAcceptedPrincipals(world.api, shop);
    expect(errorOf(await accept(shop, stranger.humanId))).toBe("409 principal_limit");
    const { items } = await listed(shop, "?limit=1");
    const [kept] = items as { human_id: string }[];
    expect((await accept(shop, kept?.human_id ?? "", { scopes: ["data:share"] })).status).toBe(200);
    await shop.person.client.call("DELETE", pathOf(shop, kept?.human_id));
    expect((await accept(shop, stranger.humanId)).status).toBe(200);
  });
});
