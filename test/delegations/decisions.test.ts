import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { runningApi } from "../support/api.ts";
import { approve, errorCode, requested, selfRequest } from "../support/platform_world.ts";

const api = runningApi();

const statusOf = async (requestId: string) =>
  (await api.db("delegation_requests").where({ request_id: requestId }).first())!.status;

describe("a request on which decisions race", () => {
  test.each([2, 16])("results in one certificate if %i approvals race", async (count) => {
    for (let round = 0; round < 3; round += 1) {
      const { person, platform, requestId } = await requested(api);
      const answers = await Promise.all(
        Array.from({ length: count }, () => approve(person, requestId, ["data:read"])),
      );
      const granted = answers.filter(({ status }) => status === 200);
      expect(granted).toHaveLength(1);
      expect(answers.filter((answer) => errorCode(answer) === "request_not_pending")).toHaveLength(count - 1);
      const rows = await api.db("certificates").where({ request_id: requestId });
      expect(rows.map(({ cert_id }) => cert_id)).toEqual([granted[0]!.body.cert_id]);
      expect((await api.events(platform.connectionId)).map(({ event }) => event)).toEqual([
        "connection.created",
        "delegation.approved",
      ]);
    }
  });

  test("results in one certificate even if the vault signed for every approval", async () => {
    const { person, requestId } = await requested(api);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    let signed = 0;
    const sign = api.vault.signDelegation;
    api.vault.signDelegation = async (...call) => {
      const certificate = await sign(...call);
      signed += 1;
      if (signed === 4) release();
      await held;
      return certificate;
    };
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => approve(person, requestId, ["data:read"])),
    );
    api.vault.signDelegation = sign;
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    expect(await api.db("certificates").where({ request_id: requestId })).toHaveLength(1);
  });

  test("cannot be approved if it expires while the vault signs", async () => {
    const { person, requestId } = await requested(api);
    const row = await api.db("delegation_requests").where({ request_id: requestId }).first();
    const sign = api.vault.signDelegation;
    const signAt = (time: Date) => {
      api.vault.signDelegation = async (...call) => {
        api.clock.set(time);
        return sign(...call);
      };
    };
    api.clock.set(addSeconds(row!.expires_at, -60));
    await person.client.signIn(person.email);
    signAt(row!.expires_at);
    const late = await approve(person, requestId, ["data:read"]);
    api.vault.signDelegation = sign;
    expect([late.status, errorCode(late)]).toEqual([409, "request_not_pending"]);
    expect(await api.db("certificates").where({ request_id: requestId })).toEqual([]);
  });

  test("accepts only one of several approvals and denials", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { person, platform, requestId } = await requested(api);
      const deny = () => person.client.post(`/v1/service/delegations/requests/${requestId}/deny`, {});
      const answers = await Promise.all([
        approve(person, requestId, ["data:read"]),
        deny(),
        approve(person, requestId, ["data:read"]),
        deny(),
      ]);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
      expect(await api.events(platform.connectionId)).toHaveLength(2);
      const certificates = await api.db("certificates").where({ request_id: requestId });
      expect(certificates).toHaveLength((await statusOf(requestId)) === "approved" ? 1 : 0);
    }
  });
});

describe("denying a request", () => {
  test("closes the request with a reason, and sends one event", async () => {
    const { person, platform, agentId, requestId } = await requested(api);
    const path = `/v1/service/delegations/requests/${requestId}/deny`;
    const { status, body } = await person.client.post(path, { reason: "not now" });
    expect([status, body]).toEqual([200, { request_id: requestId, status: "denied" }]);
    const shown = await person.client.get(`/v1/service/delegations/requests/${requestId}`);
    expect(shown.body).toMatchObject({
      status: "denied",
      reason: "not now",
      decided_by: person.email,
      decided_at: api.clock.now().toISOString(),
    });
    const again = await person.client.post(path, {});
    expect([again.status, errorCode(again)]).toEqual([409, "request_not_pending"]);
    expect(errorCode(await approve(person, requestId, ["data:read"]))).toBe("request_not_pending");
    expect((await api.events(platform.connectionId)).slice(1)).toEqual([
      {
        event: "delegation.denied",
        request_id: requestId,
        connection_id: platform.connectionId,
        org_id: person.accountId,
        agent_id: agentId,
      },
    ]);
  });

  test("needs no body, and accepts a reason of at most 500 characters", async () => {
    const { person, platform, requestId } = await requested(api);
    expect((await person.client.post(`/v1/service/delegations/requests/${requestId}/deny`)).status).toBe(200);
    const other = await selfRequest(person, platform.connectionId);
    const deny = (reason: unknown) =>
      person.client.post(`/v1/service/delegations/requests/${other}/deny`, { reason });
    for (const reason of ["r".repeat(501), 1, "a\u0007b"]) {
      expect(errorCode(await deny(reason))).toBe("invalid_request");
    }
    expect((await deny("r".repeat(500))).status).toBe(200);
  });

  test("succeeds in the last millisecond before the request expires, but not afterwards", async () => {
    const { person, requestId } = await requested(api);
    const row = await api.db("delegation_requests").where({ request_id: requestId }).first();
    const other = await requested(api);
    const deny = (at: Date, { person, requestId }: Pick<typeof other, "person" | "requestId">) => {
      api.clock.set(at);
      return person.client.post(`/v1/service/delegations/requests/${requestId}/deny`, {});
    };
    api.clock.set(addSeconds(row!.expires_at, -60));
    await person.client.signIn(person.email);
    await other.person.client.signIn(other.person.email);
    expect((await deny(addSeconds(row!.expires_at, -0.001), other)).status).toBe(200);
    const late = await deny(row!.expires_at, { person, requestId });
    expect([late.status, errorCode(late)]).toEqual([409, "request_not_pending"]);
    expect(await statusOf(requestId)).toBe("pending");
  });
});

describe("a call to decide on a request", () => {
  test("fails with not_found at a different account, and leaves the request pending", async () => {
    const { requestId } = await requested(api);
    const stranger = await api.person();
    for (const id of [requestId, `req-${crypto.randomUUID()}`, "nonsense"]) {
      const answers = [
        await approve(stranger, id, ["data:read"]),
        await stranger.client.post(`/v1/service/delegations/requests/${id}/deny`, {}),
      ];
      for (const answer of answers) expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
    expect(await statusOf(requestId)).toBe("pending");
  });

  test("fails without the CSRF header, and leaves the request pending", async () => {
    const { person, requestId } = await requested(api);
    const answer = await person.client.post(
      `/v1/service/delegations/requests/${requestId}/approve`,
      { approved_scope: ["data:read"] },
      { csrf: false },
    );
    expect([answer.status, errorCode(answer)]).toEqual([403, "csrf_failed"]);
    expect(await statusOf(requestId)).toBe("pending");
  });
});
