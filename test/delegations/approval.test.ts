import { afterEach, describe, expect, test } from "vitest";
import { addSeconds, signingSeconds, unixSeconds } from "../../src/clock.ts";
import { decodeDelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { NO_EXPIRY_SENTINEL } from "../../src/protocol/encoding/constants.ts";
import { keyId, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { VaultRefused, VaultUnavailable } from "../../src/vault/client.ts";
import { runningApi } from "../support/api.ts";
import { approve, delegated, errorCode, requested } from "../support/platform_world.ts";

const api = runningApi();
afterEach(() => {
  api.vault.failure = undefined;
  api.vault.pause = undefined;
});

const statusOf = async (requestId: string) =>
  (await api.db("delegation_requests").where({ request_id: requestId }).first())!.status;

describe("approving a request", () => {
  test("returns the certificate as specified", async () => {
    const { person, requestId } = await requested(api);
    const { status, body } = await approve(person, requestId, ["data:read"]);
    expect(status).toBe(200);
    expect(body).toEqual({
      approved_scope: ["data:read"],
      cert_id: expect.stringMatching(/^cert-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
      expires_at: null,
      issued_at: new Date(signingSeconds(api.clock.now()) * 1000).toISOString(),
      status: "approved",
    });
  });

  test("creates a certificate for exactly what was approved, signed by the owner's root key", async () => {
    const constraints = [{ type: "max_amount", max_amount: 5, currency: "EUR" }];
    const { person, agentId, requestId } = await requested(api, { constraints });
    const { body } = await approve(person, requestId, ["payments:send", "data:read"]);
    const shown = await person.client.get(`/v1/service/delegations/${String(body.cert_id)}`);
    const certificate = decodeDelegationCert(Buffer.from(JSON.stringify(shown.body.cert_json)));
    expect(certificate).toMatchObject({
      cert_id: body.cert_id,
      issuer_id: person.humanId,
      subject_id: agentId,
      scope: ["payments:send", "data:read"],
      constraints,
      issued_at: signingSeconds(api.clock.now()),
      expires_at: NO_EXPIRY_SENTINEL,
    });
    expect(keyId(certificate.issuer_pub_key)).toBe(person.humanId);
    expect(
      await verifyHybrid(certificate.issuer_pub_key, delegationSignBytes(certificate), certificate.signature),
    ).toBe(true);
  });

  test("emits delegation.approved once, with the certificate and the attestation of the agent's key", async () => {
    const { person, platform, agentId, requestId } = await requested(api);
    const { body } = await approve(person, requestId, ["data:read"]);
    const row = await api
      .db("certificates")
      .where({ cert_id: String(body.cert_id) })
      .first();
    expect((await api.events(platform.connectionId)).slice(1)).toEqual([
      {
        event: "delegation.approved",
        request_id: requestId,
        connection_id: platform.connectionId,
        org_id: person.accountId,
        agent_id: agentId,
        approved_scope: ["data:read"],
        cert_json: JSON.parse(row!.cert_json),
        delegation_key_statement: expect.objectContaining({ key_id: agentId }),
      },
    ]);
  });

  test("records the approval in the request's state", async () => {
    const { person, requestId } = await requested(api);
    const { body } = await approve(person, requestId, ["data:read"]);
    const shown = await person.client.get(`/v1/service/delegations/requests/${requestId}`);
    expect(shown.body).toMatchObject({
      status: "approved",
      approved_scope: ["data:read"],
      cert_id: body.cert_id,
      decided_by: person.email,
      decided_at: api.clock.now().toISOString(),
    });
  });

  test.each([
    ["all requested scopes", ["data:read", "data:share", "payments:send", "custom:orders:refund"]],
    ["some of the requested scopes in another order", ["payments:send", "data:read"]],
    ["a wildcard if its scopes were requested by name", ["data:*"]],
    ["a scope twice", ["data:read", "data:read"]],
  ])("may grant %s", async (_, scope) => {
    const { person, requestId } = await requested(api);
    const { body } = await approve(person, requestId, scope);
    expect(body.approved_scope).toEqual([...new Set(scope)]);
  });

  test.each([
    ["nothing", []],
    ["more than was requested", ["data:read", "data:write"]],
    ["an unknown scope", ["nope"]],
    ["a wildcard that covers more", ["payments:*"]],
  ])("may not grant %s", async (_, scope) => {
    const { person, requestId } = await requested(api);
    const answer = await approve(person, requestId, scope);
    expect([answer.status, errorCode(answer)]).toEqual([400, "scope_not_requested"]);
    expect(await statusOf(requestId)).toBe("pending");
  });

  test("may not grant a scope that was not requested, even within the ceiling", async () => {
    const { person, requestId } = await requested(api, { requested_scope: ["data:read"] });
    expect(errorCode(await approve(person, requestId, ["data:share"]))).toBe("scope_not_requested");
  });

  test("respects the current ceiling", async () => {
    const { person, platform, requestId } = await requested(api);
    await person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
      body: { default_allowed_scopes: ["data:read"] },
    });
    const answer = await approve(person, requestId, ["data:read", "data:share"]);
    expect([answer.status, errorCode(answer)]).toEqual([400, "ceiling_exceeded"]);
    expect(await statusOf(requestId)).toBe("pending");
    expect((await approve(person, requestId, ["data:read"])).status).toBe(200);
  });

  test("leaves the request pending if the vault is unavailable or refuses, so the approval can be repeated", async () => {
    const { person, platform, requestId } = await requested(api);
    for (const failure of [
      new VaultUnavailable("unreachable", "away"),
      new VaultUnavailable("audit_unavailable", "no audit"),
      new VaultRefused("key_disabled", "disabled", 409),
    ]) {
      api.vault.failure = failure;
      const answer = await approve(person, requestId, ["data:read"]);
      expect([answer.status, errorCode(answer)]).toEqual([503, "vault_unavailable"]);
    }
    expect(await statusOf(requestId)).toBe("pending");
    expect(await api.events(platform.connectionId)).toHaveLength(1);
    api.vault.failure = undefined;
    expect((await approve(person, requestId, ["data:read"])).status).toBe(200);
  });

  test("rejects a certificate from the vault that differs from the requested certificate", async () => {
    const { person, requestId } = await requested(api);
    const sign = api.vault.signDelegation;
    api.vault.signDelegation = async (key, certificate, approval) =>
      sign(key, { ...certificate, scope: ["data:share"] }, approval);
    const answer = await approve(person, requestId, ["data:read"]);
    api.vault.signDelegation = sign;
    expect([answer.status, errorCode(answer)]).toEqual([500, "internal"]);
    expect(await statusOf(requestId)).toBe("pending");
  });

  test("adds the approver's constraints to the requested constraints, without duplicates", async () => {
    const speed = { type: "max_speed_mps", max_mps: 3 };
    const rate = { type: "max_rate", count: 1, window_s: 60 };
    const { person, requestId } = await requested(api, { constraints: [speed] });
    const { body } = await approve(person, requestId, ["data:read"], { constraints: [speed, rate] });
    const { body: shown } = await person.client.get(`/v1/service/delegations/${String(body.cert_id)}`);
    expect((shown.cert_json as { constraints: unknown }).constraints).toEqual([speed, rate]);
  });

  test.each([
    [{ min_alt_m: 0, max_alt_m: 0 }, {}],
    [{ max_alt_m: 120 }, { min_alt_m: 0, max_alt_m: 120 }],
    [
      { min_alt_m: -3.5, max_alt_m: 0 },
      { min_alt_m: -3.5, max_alt_m: 0 },
    ],
  ])(
    "signs a geo_bbox constraint with the requested altitudes %j in the canonical form that every verifier expects",
    async (given, signed) => {
      const corners = { type: "geo_bbox", min_lat: 0, min_lon: 0, max_lat: 1, max_lon: 1 };
      const { person, requestId } = await requested(api, { constraints: [{ ...corners, ...given }] });
      const { body } = await approve(person, requestId, ["data:read"]);
      const { body: shown } = await person.client.get(`/v1/service/delegations/${String(body.cert_id)}`);
      expect((shown.cert_json as { constraints: unknown }).constraints).toEqual([{ ...corners, ...signed }]);
    },
  );

  test("refuses a geo_bbox constraint with min_alt_m 5 and no max_alt_m, because a missing altitude means 0", async () => {
    const constraints = [{ type: "geo_bbox", min_lat: 0, min_lon: 0, max_lat: 1, max_lon: 1, min_alt_m: 5 }];
    const { person, requestId } = await requested(api);
    const answer = await approve(person, requestId, ["data:read"], { constraints });
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_constraints"]);
  });

  test("refuses the approver's constraints if they are malformed or contradict the requested ones", async () => {
    const { person, requestId } = await requested(api, {
      constraints: [{ type: "resource_path", resource_id: "a" }],
    });
    for (const constraints of [[{}], [{ type: "resource_path", resource_id: "b" }]]) {
      const answer = await approve(person, requestId, ["data:read"], { constraints });
      expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_constraints"]);
    }
    expect(await statusOf(requestId)).toBe("pending");
  });
});

describe("the expiry of a certificate", () => {
  const hour = 3600;
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  const nowSeconds = () => unixSeconds(api.clock.now());

  test("comes the requested number of seconds after the approval", async () => {
    const { person, requestId } = await requested(api, { expires_in: hour });
    api.clock.advance(60);
    const { body } = await approve(person, requestId, ["data:read"]);
    expect(body.expires_at).toBe(iso(nowSeconds() + hour));
    const row = await api
      .db("certificates")
      .where({ cert_id: String(body.cert_id) })
      .first();
    expect(JSON.parse(row!.cert_json).expires_at).toBe(nowSeconds() + hour);
    expect(row!.expires_at).toEqual(new Date((nowSeconds() + hour) * 1000));
  });

  test("equals the requested time, to the second", async () => {
    const end = nowSeconds() + hour;
    const { person, requestId } = await requested(api, {
      expires_at: new Date(end * 1000 + 999).toISOString(),
    });
    expect((await approve(person, requestId, ["data:read"])).body.expires_at).toBe(iso(end));
  });

  test("can be requested with any time offset", async () => {
    const end = nowSeconds() + hour;
    const offset = iso(end + 2 * hour).replace(".000Z", "+02:00");
    const { person, requestId } = await requested(api, { expires_at: offset });
    expect((await approve(person, requestId, ["data:read"])).body.expires_at).toBe(iso(end));
  });

  test("may be set by the approver to the requested time or an earlier time, but not to a later time", async () => {
    for (const [asked, granted, expected] of [
      [{ expires_in: hour }, { expires_in: hour }, hour],
      [{ expires_in: hour }, { expires_in: 1 }, 1],
      [{ expires_in: hour }, { expires_in: hour + 1 }, "invalid_expiry"],
      [{ expires_at: iso(nowSeconds() + hour) }, { expires_at: iso(nowSeconds() + hour) }, hour],
      [{ expires_at: iso(nowSeconds() + hour) }, { expires_in: hour + 1 }, "invalid_expiry"],
      [{}, { expires_in: hour }, hour],
      [{}, { expires_at: iso(nowSeconds()) }, "invalid_expiry"],
      [{}, { expires_in: 1, expires_at: iso(nowSeconds() + 1) }, "invalid_expiry"],
    ] as const) {
      const { person, requestId } = await requested(api, asked);
      const answer = await approve(person, requestId, ["data:read"], granted);
      if (typeof expected === "string") {
        expect([answer.status, errorCode(answer)]).toEqual([400, expected]);
        expect(await statusOf(requestId)).toBe("pending");
      } else {
        expect(answer.body.expires_at).toBe(iso(nowSeconds() + expected));
      }
    }
  });

  test("cannot be approved after it has passed", async () => {
    const { person, requestId } = await requested(api, { expires_at: iso(nowSeconds() + 60) });
    api.clock.advance(60);
    expect(errorCode(await approve(person, requestId, ["data:read"]))).toBe("invalid_expiry");
  });
});

test("a certificate stays unchanged a week after its approval", async () => {
  const { person, certId } = await delegated(api);
  const before = await person.client.get(`/v1/service/delegations/${certId}`);
  api.clock.set(addSeconds(api.clock.now(), 8 * 24 * 3600));
  await person.client.signIn(person.email);
  expect((await person.client.get(`/v1/service/delegations/${certId}`)).body).toEqual(before.body);
});
