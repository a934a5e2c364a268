import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { VaultRefused, VaultUnavailable } from "../../../src/vault/client.ts";
import { addRevoked } from "../../support/mass_revocation.ts";
import { certify, errorOf, proofApi } from "../application.ts";

const world = proofApi();
const { application } = world;

describe("POST …/agents/{agent_id}/present", () => {
  test("answers 404 no_active_delegation without an approved delegation", async () => {
    const app = await application([]);
    expect(errorOf(await app.present())).toBe("404 no_active_delegation");
  });

  test("presents the newest certificate, the requested certificate, or the newest certificate that grants the scope", async () => {
    const app = await application(["data:read"]);
    world.api.clock.advance(1);
    const newest = await certify(app, ["payments:send"]);
    expect((await app.present()).body.cert_id).toBe(newest);
    expect((await app.present({ cert_id: app.certId })).body.cert_id).toBe(app.certId);
    expect((await app.present({ required_scope: "data:read" })).body.cert_id).toBe(app.certId);
    expect(errorOf(await app.present({ required_scope: "files:read" }))).toBe("404 no_active_delegation");
  });

  test("never presents a revoked certificate, even if its id is requested", async () => {
    const app = await application(["data:read"]);
    const path = `/v1/service/delegations/${app.certId}/revoke`;
    expect((await app.person.client.post(path)).status).toBe(200);
    for (const choice of [{}, { cert_id: app.certId }, { required_scope: "data:read" }]) {
      expect(errorOf(await app.present(choice))).toBe("404 no_active_delegation");
    }
  });

  test("returns a proof only after it is recorded", async () => {
    const app = await application(["data:read"]);
    const holder = await world.api.db.transaction();
    await holder.raw("lock table audit_events in share mode");
    const presenting = app.present();
    const first = await Promise.race([presenting, sleep(300, "not yet")]);
    await holder.commit();
    expect(first).toBe("not yet");
    expect((await presenting).status).toBe(200);
    const recorded = { account_id: app.person.accountId, event_type: "proof.presented" };
    expect(await world.api.db("audit_events").where(recorded)).toHaveLength(1);
  });

  test("finds the certificate that grants the scope among a hundred newer certificates, respecting wildcards and ceilings", async () => {
    const app = await application(["data:read"]);
    await addRevoked(world.api.db, app.certId, 100);
    const newer = {
      status: "approved" as const,
      approved_scope: ["payments:send"],
      issued_at: addSeconds(world.api.clock.now(), 1),
    };
    await world.api
      .db("certificates")
      .whereNot({ cert_id: app.certId })
      .andWhere({ agent_id: app.agentId })
      .update({ ...newer, revoked_at: null, revoke_reason: null });
    const present = async () => errorOf(await app.present({ required_scope: "data:read" }));
    const change = (columns: object) =>
      world.api.db("certificates").where({ cert_id: app.certId }).update(columns);
    expect((await app.present({ required_scope: "data:read" })).body.cert_id).toBe(app.certId);
    await change({ ceiling_scope: ["data:share"] });
    expect(await present()).toBe("404 no_active_delegation");
    await change({ ceiling_scope: null, approved_scope: ["data:*"] });
    expect((await app.present({ required_scope: "data:read" })).body.cert_id).toBe(app.certId);
  });

  test("lists the agent's other certificates, newest first, only if neither cert_id nor required_scope is given", async () => {
    const app = await application(["data:read"]);
    world.api.clock.advance(1);
    const middle = await certify(app, ["payments:send"], { expires_in: 60 });
    world.api.clock.advance(1);
    await certify(app, ["data:read", "data:share"]);
    const { body } = await app.present();
    expect(body.other_certificates).toEqual([
      { cert_id: middle, approved_scope: ["payments:send"], expires_at: expect.stringMatching(/Z$/) },
      { cert_id: app.certId, approved_scope: ["data:read"], expires_at: null },
    ]);
    expect((await app.present({ cert_id: middle })).body).not.toHaveProperty("other_certificates");
    expect((await app.present({ required_scope: "data:read" })).body).not.toHaveProperty(
      "other_certificates",
    );
    const alone = await application();
    expect((await alone.present()).body.other_certificates).toEqual([]);
  });

  test("answers 429 with Retry-After if the vault limits the key's rate, and records nothing", async () => {
    const app = await application();
    world.api.vault.failure = new VaultRefused("rate_limited", "too fast", 429, 7);
    const answer = await app.present();
    expect([errorOf(answer), answer.headers.get("retry-after")]).toEqual(["429 rate_limited", "7"]);
    world.api.vault.failure = undefined;
    expect(await world.api.db("audit_events").where({ account_id: app.person.accountId })).toHaveLength(0);
  });

  test("answers 400 invalid_challenge to a challenge with an unknown format and to an expired challenge", async () => {
    const app = await application();
    for (const challenge of ["", "AAAA", "not base64!", Buffer.alloc(32, 9).toString("base64")]) {
      expect(errorOf(await app.present({ challenge }))).toBe("400 invalid_challenge");
    }
    const { body } = await app.post("/v1/service/challenge");
    world.api.clock.advance(301);
    expect(errorOf(await app.present({ challenge: body.challenge }))).toBe("400 invalid_challenge");
  });

  test("answers 404 not_found for an agent of a different connection, and if the path names a different connection", async () => {
    const [one, other] = [await application(), await application()];
    const { body } = await one.post("/v1/service/challenge");
    const paths = [
      [one.platform.connectionId, other.agentId],
      [other.platform.connectionId, other.agentId],
      [one.platform.connectionId, "0".repeat(32)],
      ["nonsense", "nonsense"],
    ].map(([connection, agent]) => `/v1/service/connections/${connection}/agents/${agent}/present`);
    for (const path of paths) {
      expect(errorOf(await one.post(path, { challenge: body.challenge }))).toBe("404 not_found");
    }
  });

  test("answers 503 vault_unavailable without the vault, and records nothing", async () => {
    const app = await application();
    world.api.vault.failure = new VaultUnavailable("unreachable", "away");
    expect(errorOf(await app.present())).toBe("503 vault_unavailable");
    world.api.vault.failure = undefined;
    expect(await world.api.db("audit_events").where({ account_id: app.person.accountId })).toHaveLength(0);
    expect((await app.present()).status).toBe(200);
  });

  test("binds the proof to a session context, and refuses a context of 31 bytes", async () => {
    const app = await application();
    const context = Buffer.alloc(32, 7).toString("base64");
    expect((await app.present({ session_context: context })).body.proof_bundle).toMatchObject({
      session_context: context,
    });
    const short = Buffer.alloc(31, 7).toString("base64");
    expect(errorOf(await app.present({ session_context: short }))).toBe("400 invalid_request");
  });

  test("presents a certificate in its last second, but not after it expires", async () => {
    const app = await application([]);
    await certify(app, ["data:read"], { expires_in: 60 });
    const { expires_at } =
      (await world.api.db("certificates").where({ agent_id: app.agentId }).first()) ?? {};
    const end = expires_at as Date;
    world.api.clock.set(end);
    expect((await app.present()).status).toBe(200);
    world.api.clock.set(addSeconds(end, 1));
    expect(errorOf(await app.present())).toBe("404 no_active_delegation");
  });

  test("presents a proof that a process with a clock 2 s behind allows, also with a new certificate", async () => {
    const app = await application();
    const { proof_ref } = (await app.present()).body;
    world.api.clock.advance(-2);
    const asked = { proof_ref, required_scope: "data:read" };
    expect((await app.post("/v1/service/verify", asked)).body).toMatchObject({ decision: "allow" });
    world.api.clock.advance(2);
  });

  test("accepts a challenge in its last second, but not later", async () => {
    const app = await application();
    const { challenge, expires_at } = (await app.post("/v1/service/challenge")).body;
    const end = new Date(String(expires_at));
    world.api.clock.set(end);
    expect((await app.present({ challenge })).body).toMatchObject({ expires_at });
    world.api.clock.set(addSeconds(end, 0.001));
    expect(errorOf(await app.present({ challenge }))).toBe("400 invalid_challenge");
  });
});
