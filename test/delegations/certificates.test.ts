import { describe, expect, test } from "vitest";
import { type Person, runningApi } from "../support/api.ts";
import { approve, createAgent, delegated, errorCode, selfRequest } from "../support/platform_world.ts";

const api = runningApi();

const revoke = ({ client }: Person, certId: string, body?: unknown) =>
  client.post(`/v1/service/delegations/${certId}/revoke`, body);

async function countWaiting(): Promise<number> {
  const { rows } = await api.db.raw(
    "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  );
  return rows.length;
}

describe("revoking a certificate", () => {
  test("returns the status revoked each time, keeps the first reason, and sends one event", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    const answers = [
      await revoke(person, certId, { reason: "done" }),
      await revoke(person, certId, { reason: "again" }),
      await revoke(person, certId),
    ];
    for (const { status, body } of answers) {
      expect([status, body]).toEqual([200, { cert_id: certId, status: "revoked" }]);
    }
    const shown = await person.client.get(`/v1/service/delegations/${certId}`);
    expect(shown.body).toMatchObject({
      status: "revoked",
      revoke_reason: "done",
      revoked_at: api.clock.now().toISOString(),
    });
    expect((await api.events(platform.connectionId)).slice(2)).toEqual([
      {
        event: "delegation.revoked",
        cert_id: certId,
        agent_id: agentId,
        connection_id: platform.connectionId,
        org_id: person.accountId,
        reason: "done",
      },
    ]);
  });

  test("needs no reason", async () => {
    const { person, platform, certId } = await delegated(api);
    expect((await revoke(person, certId)).status).toBe(200);
    expect(await api.events(platform.connectionId)).toContainEqual(
      expect.objectContaining({ event: "delegation.revoked", reason: null }),
    );
  });

  test.each([2, 16])("sends one event if %i calls race", async (count) => {
    for (let round = 0; round < 3; round += 1) {
      const { person, platform, certId } = await delegated(api);
      const answers = await Promise.all(
        Array.from({ length: count }, (_, n) => revoke(person, certId, { reason: `r${n}` })),
      );
      for (const { body } of answers) expect(body).toEqual({ cert_id: certId, status: "revoked" });
      const reported = (await api.events(platform.connectionId)).filter(
        ({ event }) => event === "delegation.revoked",
      );
      expect(reported).toHaveLength(1);
      const shown = await person.client.get(`/v1/service/delegations/${certId}`);
      expect(shown.body.revoke_reason).toBe(reported[0]!.reason);
    }
  });

  test("succeeds after the connection was removed and after the certificate expired", async () => {
    const { person, platform, requestId, certId } = await delegated(api);
    await person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
    expect((await revoke(person, certId)).body).toEqual({ cert_id: certId, status: "revoked" });
    expect(errorCode(await approve(person, requestId, ["data:read"]))).toBe("request_not_pending");

    const next = await delegated(api);
    const request = await selfRequest(next.person, next.platform.connectionId, { expires_in: 1 });
    const short = String((await approve(next.person, request, ["data:read"])).body.cert_id);
    api.clock.advance(5);
    expect((await revoke(next.person, short)).body.status).toBe("revoked");
  });

  test("waits for a running decision that has read the certificate", async () => {
    const { person, certId } = await delegated(api);
    const order: string[] = [];
    let revoking: Promise<unknown> | undefined;
    await api.db.transaction(async (tx) => {
      await tx("certificates").where({ cert_id: certId }).forShare();
      revoking = revoke(person, certId).then(() => order.push("revoked"));
      await expect.poll(countWaiting).toBeGreaterThan(0);
      order.push("decided");
    });
    await revoking;
    expect(order).toEqual(["decided", "revoked"]);
  });

  test("leaves the agent's other certificates unchanged", async () => {
    const { person, platform, certId } = await delegated(api);
    const request = await selfRequest(person, platform.connectionId);
    const other = String((await approve(person, request, ["data:share"])).body.cert_id);
    await revoke(person, certId);
    expect((await person.client.get(`/v1/service/delegations/${other}`)).body.status).toBe("approved");
  });
});

describe("a call for a different account's certificate", () => {
  test("fails with not_found, and leaves the certificate approved", async () => {
    const { person, certId } = await delegated(api);
    const stranger = await api.person();
    for (const id of [certId, `cert-${crypto.randomUUID()}`, "nonsense", "cert-%00"]) {
      const answers = [
        await stranger.client.get(`/v1/service/delegations/${id}`),
        await revoke(stranger, id, {}),
      ];
      for (const answer of answers) {
        expect([id, answer.status, errorCode(answer)]).toEqual([id, 404, "not_found"]);
      }
    }
    expect((await person.client.get(`/v1/service/delegations/${certId}`)).body.status).toBe("approved");
    expect((await stranger.client.get("/v1/service/delegations")).body.items).toEqual([]);
  });
});

describe("reading certificates", () => {
  test("returns who approved what, when and where, and the certificate itself", async () => {
    const { person, platform, agentId, requestId, certId, answer } = await delegated(api);
    const { status, body } = await person.client.get(`/v1/service/delegations/${certId}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      cert_id: certId,
      request_id: requestId,
      linked_cert_id: null,
      scope_descriptions: {},
      connection_id: platform.connectionId,
      agent_id: agentId,
      approved_scope: ["data:read"],
      status: "approved",
      issued_at: answer.body.issued_at,
      expires_at: null,
      approved_by: person.email,
      approval_channel: "session",
      revoked_at: null,
      revoke_reason: null,
      revoked_by: null,
      agent: {
        name: "shop-bot",
        key_fingerprint: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        custody_mode: "custodial",
      },
      platform: { platform_id: platform.platformId, name: "Shop" },
      declared_by: null,
      cert_json: expect.objectContaining({
        cert_id: certId,
        scope: ["data:read"],
        signature: expect.anything(),
      }),
    });
    const listed = await person.client.get("/v1/service/delegations");
    expect(listed.body).toEqual({ items: [body], next_cursor: null });
  });

  test("returns filtered pages of certificates, newest first, even if they were approved in the same second", async () => {
    const { person, platform, agentId, certId } = await delegated(api);
    const ids = [certId];
    for (let n = 0; n < 4; n += 1) {
      if (n === 2) api.clock.advance(1);
      const request = await selfRequest(person, platform.connectionId);
      ids.unshift(String((await approve(person, request, ["data:read"])).body.cert_id));
    }
    const list = (query: string) => person.client.get(`/v1/service/delegations?${query}`);
    const idsOf = (body: Record<string, unknown>) =>
      (body.items as { cert_id: string }[]).map(({ cert_id }) => cert_id);
    const first = await list("limit=2");
    const second = await list(`limit=2&cursor=${String(first.body.next_cursor)}`);
    const third = await list(`limit=2&cursor=${String(second.body.next_cursor)}`);
    expect([first, second, third].flatMap(({ body }) => idsOf(body))).toEqual(ids);
    expect(third.body.next_cursor).toBeNull();
    await revoke(person, ids[1]!);
    expect(idsOf((await list("status=revoked")).body)).toEqual([ids[1]]);
    const other = await createAgent(api.client(), platform);
    expect(idsOf((await list(`agent_id=${agentId}`)).body)).toEqual(ids);
    expect(idsOf((await list(`agent_id=${other}`)).body)).toEqual([]);
    expect(idsOf((await list(`connection_id=${platform.connectionId}`)).body)).toEqual(ids);
    for (const wrong of ["status=pending", "connection_id=x", "limit=0", "limit=101", "cursor=x"]) {
      expect(errorCode(await list(wrong))).toBe("invalid_request");
    }
  });
});

test("changes to many certificates never deadlock with decisions about these certificates", async () => {
  const { person, platform, certId } = await delegated(api);
  const ids = [certId];
  for (let n = 0; n < 9; n += 1) {
    const request = await selfRequest(person, platform.connectionId);
    ids.push(String((await approve(person, request, ["data:read", "data:share"])).body.cert_id));
  }
  const decide = (from: number) =>
    api.db.raw(
      `select c.cert_id, pg_sleep(0.002) from certificates c
       where (c.account_id, c.cert_id) in (select ?::uuid, unnest(?::text[]))
       order by c.account_id, c.cert_id for share`,
      [person.accountId, ids.slice(from)],
    );
  const decisions = Promise.all(
    Array.from({ length: 4 }, async (_, n) => {
      for (let round = 0; round < 25; round += 1) await decide(n);
    }),
  );
  const path = `/v1/service/platforms/${platform.platformId}`;
  for (const scopes of [["data:read", "data:share"], ["data:read"]]) {
    const shrunk = await person.client.call("PATCH", path, { body: { default_allowed_scopes: scopes } });
    expect(shrunk.status).toBe(200);
  }
  const removed = await person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
  expect(removed.status).toBe(200);
  await decisions;
});
