import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { runningApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";
import { type Sending, sending } from "./delivery_calls.ts";

const api = runningApi();
const at = (seconds: number) => addSeconds(api.clock.now(), seconds);
const iso = (seconds: number) => at(seconds).toISOString();
const view = async ({ get }: Sending) => (await get("callback")).body;
const health = ({ connectionId }: Sending, columns: object) =>
  api.db("webhook_endpoints").where({ connection_id: connectionId }).update(columns);

describe("GET …/callback", () => {
  test("returns no times and zero counts before the first event", async () => {
    const own = await sending(api, { callback_url: null, name: "Shop" });
    const answer = await own.get("callback");
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        connection_id: own.connectionId,
        platform_id: own.platformId,
        platform_name: "Shop",
        callback_url: null,
        callback_state: "active",
        paused_at: null,
        suspended_at: null,
        suspend_reason: null,
        failing_since: null,
        left_alone_until: null,
        waiting: 0,
        held: 0,
        next_secret_waits: false,
        next_secret_at: null,
        former_secret_until: null,
        is_declared: false,
      },
    ]);
  });

  test("returns the time of the pause, and no time after the resume", async () => {
    const own = await sending(api);
    await own.post("callback/pause");
    const since = iso(0);
    api.clock.advance(60);
    await own.post("callback/pause");
    expect(await view(own)).toMatchObject({ callback_state: "paused", paused_at: since });
    await own.post("callback/resume");
    expect(await view(own)).toMatchObject({ callback_state: "active", paused_at: null });
    await own.post("callback/pause");
    expect(await view(own)).toMatchObject({ paused_at: iso(0) });
  });

  test("returns when the failures began, when sending continues, and the reason for a suspension", async () => {
    const own = await sending(api);
    await own.delivery();
    await health(own, { failing_since: at(-600), breaker_open_seconds: 60, breaker_open_until: at(30) });
    expect(await view(own)).toMatchObject({ failing_since: iso(-600), left_alone_until: iso(30) });
    api.clock.advance(30);
    expect(await view(own)).toMatchObject({ failing_since: iso(-630), left_alone_until: null });
    await health(own, { state: "suspended", suspended_at: at(-5), suspend_reason: "gone" });
    expect(await view(own)).toMatchObject({
      ...{ callback_state: "suspended", suspended_at: iso(-5), suspend_reason: "gone", paused_at: null },
    });
  });

  test("counts only the connection's own waiting and held deliveries", async () => {
    const [own, other] = [await sending(api), await sending(api)];
    for (const state of ["pending", "sending", "pending", "failed", "delivered"] as const) {
      await own.delivery({ state });
    }
    await own.delivery({ state: "held" });
    await other.delivery({ state: "held" });
    await other.delivery({ state: "pending" });
    expect(await view(own)).toMatchObject({ waiting: 3, held: 1 });
  });

  test("returns the phase of the rotation of the webhook secret", async () => {
    const own = await sending(api);
    await own.post("rotate-webhook-secret");
    const made = iso(0);
    api.clock.advance(10);
    expect(await view(own)).toMatchObject({ next_secret_waits: true, next_secret_at: made });
    await own.post("rotate-webhook-secret/promote", { grace_seconds: 60 });
    const promoted = { next_secret_waits: false, next_secret_at: null };
    expect(await view(own)).toMatchObject({ ...promoted, former_secret_until: iso(60) });
    api.clock.advance(60);
    expect(await view(own)).toMatchObject({ ...promoted, former_secret_until: null });
  });

  test("can be read by an organization's developers and auditors, but not by its approvers or by others", async () => {
    const organization = await api.person({ organization_name: "Analytical Engines" });
    const { connectionId } = await registerPlatform(organization, {}, "/v1/service/platforms");
    const path = `/v1/service/connections/${connectionId}/callback`;
    const asked = async (role: "owner" | "approver" | "developer" | "auditor") => {
      const member = await addMember(api, organization.accountId, role);
      return actingFor(member, organization.accountId).get(path);
    };
    expect((await asked("developer")).status).toBe(200);
    expect((await asked("auditor")).status).toBe(200);
    expect(errorCode(await asked("approver"))).toBe("forbidden");
    expect(errorCode(await (await api.person()).client.get(path))).toBe("not_found");
    expect(errorCode(await api.client().get(path))).toBe("auth_required");
  });
});
