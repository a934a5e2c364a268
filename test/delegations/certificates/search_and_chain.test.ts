import { describe, expect, test } from "vitest";
import { fingerprintOfKey } from "../../../src/protocol/keys/hybrid.ts";
import { type Person, runningApi } from "../../support/api.ts";
import {
  approve,
  createAgent,
  delegated,
  errorCode,
  registerPlatform,
  selfRequest,
  type TestPlatform,
} from "../../support/platform_world.ts";

const api = runningApi();

type Listed = { items: { cert_id: string }[]; next_cursor: string | null };

async function found({ client }: Person, query: string): Promise<string[]> {
  const answer = await client.get(`/v1/service/delegations?${query}`);
  if (answer.status !== 200) throw new Error(answer.text);
  return (answer.body as unknown as Listed).items.map(({ cert_id }) => cert_id);
}

async function certificate(
  person: Person,
  platform: TestPlatform,
  { name, scope = "data:read", seconds }: { name: string; scope?: string; seconds?: number },
) {
  const agentId = await createAgent(api.client(), platform, { name });
  const request = await selfRequest(person, platform.connectionId, { agent_id: agentId });
  const answer = await approve(
    person,
    request,
    [scope],
    seconds === undefined ? {} : { expires_in: seconds },
  );
  if (answer.status !== 200) throw new Error(answer.text);
  return { certId: String(answer.body.cert_id), agentId };
}

describe("GET /v1/service/delegations", () => {
  test("searches names, scopes and whole ids, and does not interpret wildcards in the search string", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person, { name: "Corner Shop" });
    const clerk = await certificate(person, platform, { name: "Clerk 100%", scope: "custom:orders:refund" });
    const buyer = await certificate(person, platform, { name: "Buyer_1" });
    for (const q of ["clerk", "CLERK 1", "100%", "orders:ref", clerk.certId, clerk.agentId]) {
      expect([q, await found(person, `q=${encodeURIComponent(q)}`)]).toEqual([q, [clerk.certId]]);
    }
    for (const q of ["corner", "er"]) {
      expect([q, await found(person, `q=${q}`)]).toEqual([q, [buyer.certId, clerk.certId]]);
    }
    for (const q of ["C%k", "Buyer-1", "\\", "nobody", clerk.certId.slice(0, 20)]) {
      expect([q, await found(person, `q=${encodeURIComponent(q)}`)]).toEqual([q, []]);
    }
    expect(await found(await api.person(), "q=clerk")).toEqual([]);
    const wrong = await person.client.get("/v1/service/delegations?q=%00");
    expect(errorCode(wrong)).toBe("invalid_request");
  });

  test("filters active, expired and revoked certificates, precise to the second", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const forever = await certificate(person, platform, { name: "forever" });
    const short = await certificate(person, platform, { name: "short", seconds: 60 });
    const gone = await certificate(person, platform, { name: "gone", seconds: 60 });
    await person.client.post(`/v1/service/delegations/${gone.certId}/revoke`);
    api.clock.advance(60);
    expect(await found(person, "state=active")).toEqual([short.certId, forever.certId]);
    expect(await found(person, "state=expired")).toEqual([]);
    api.clock.advance(1);
    expect(await found(person, "state=active")).toEqual([forever.certId]);
    expect(await found(person, "state=expired")).toEqual([short.certId]);
    expect(await found(person, "state=revoked")).toEqual([gone.certId]);
    expect(await found(person, "status=approved")).toEqual([short.certId, forever.certId]);
  });

  test("sorts all pages by expiry, earliest first, with certificates that do not expire last", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const ids: string[] = [];
    for (const seconds of [undefined, 300, 100, 200, 100]) {
      ids.push((await certificate(person, platform, { name: "a", ...(seconds && { seconds }) })).certId);
    }
    const [forever, c, a, b, d] = ids as [string, string, string, string, string];
    const expected = [...[a, d].sort(), b, c, forever];
    const seen: string[] = [];
    for (let cursor = ""; seen.length === 0 || cursor !== ""; ) {
      const { body } = await person.client.get(
        `/v1/service/delegations?order=ending&limit=2${cursor && `&cursor=${cursor}`}`,
      );
      const page = body as unknown as Listed;
      seen.push(...page.items.map(({ cert_id }) => cert_id));
      cursor = page.next_cursor ?? "";
    }
    expect(seen).toEqual(expected);
    const before = new Date(api.clock.now().getTime() + 150_000).toISOString();
    expect(await found(person, `order=ending&expires_before=${before}`)).toEqual([a, d].sort());
    expect(await found(person, `platform_id=${platform.platformId}&limit=1`)).toEqual([d]);
    expect(await found(person, `platform_id=${crypto.randomUUID()}`)).toEqual([]);
  });
});

describe("GET /v1/service/delegations/{cert_id}/chain", () => {
  const chainOf = async ({ client }: Person, certId: string) =>
    (await client.get(`/v1/service/delegations/${certId}/chain`)).body;

  test("shows that a valid signature connects the account's root key to the agent's key", async () => {
    const { person, certId, agentId } = await delegated(api);
    const { client } = person;
    const { body } = await client.get(`/v1/service/delegations/${certId}`);
    const { issuer_pub_key, subject_pub_key } = body.cert_json as Record<string, unknown>;
    expect(await chainOf(person, certId)).toEqual({
      cert_id: certId,
      issuer: {
        human_id: person.humanId,
        key_fingerprint: fingerprintOfKey(issuer_pub_key),
        is_id_of_key: true,
        is_root_of_account: true,
      },
      signature: { holds: true, failed: null },
      agent: {
        agent_id: agentId,
        key_fingerprint: fingerprintOfKey(subject_pub_key),
        is_id_of_key: true,
        is_key_of_agent: true,
        disabled_at: null,
      },
      revocation_list: { human_id: person.humanId, listed: false },
    });
    expect((body.agent as { key_fingerprint: string }).key_fingerprint).toBe(
      fingerprintOfKey(subject_pub_key),
    );
  });

  test("reports which of a changed certificate's two signatures is invalid, and reports keys that are not registered", async () => {
    const { person, certId, agentId } = await delegated(api);
    const row = await api.db("certificates").where({ cert_id: certId }).first("cert_json");
    const original = row?.cert_json ?? "";
    const store = (cert_json: string) =>
      api.db("certificates").where({ cert_id: certId }).update({ cert_json });
    await store(original.replace('"data:read"', '"data:share"'));
    expect(await chainOf(person, certId)).toMatchObject({ signature: { holds: false, failed: "ed25519" } });
    await store(original);
    const other = await delegated(api);
    const { body } = await other.person.client.get(`/v1/service/delegations/${other.certId}`);
    await api
      .db("accounts")
      .where({ account_id: person.accountId })
      .update({
        root_public_key: (body.cert_json as { issuer_pub_key: { ed25519: string; ml_dsa_65: string } })
          .issuer_pub_key,
      });
    const otherAgent = await api.db("agents").where({ agent_id: other.agentId }).first("public_key");
    await api
      .db("agents")
      .where({ agent_id: agentId })
      .update({ public_key: otherAgent?.public_key ?? { ed25519: "", ml_dsa_65: "" } });
    expect(await chainOf(person, certId)).toMatchObject({
      signature: { holds: true },
      issuer: { is_root_of_account: false, is_id_of_key: true },
      agent: { is_key_of_agent: false, is_id_of_key: true },
    });
  });

  test("reports a revoked certificate as part of the revocation list until a day after the certificate expires", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    const { certId } = await certificate(person, platform, { name: "short", seconds: 60 });
    const headers = { "x-service-api-key": platform.apiKey };
    const shown = async () => {
      const { body } = await api.client().get(`/v1/service/delegations/${certId}/chain`, { headers });
      return (body.revocation_list as { listed: boolean }).listed;
    };
    expect(await shown()).toBe(false);
    await person.client.post(`/v1/service/delegations/${certId}/revoke`);
    for (const seconds of [0, 24 * 3_600 + 59]) {
      api.clock.advance(seconds);
      const list = await api.client().get(`/v1/service/revocations/${person.humanId}`);
      expect([seconds, await shown()]).toEqual([seconds, true]);
      expect(list.body.revoked_certs).toContain(certId);
    }
    api.clock.advance(1);
    expect(await shown()).toBe(false);
  });

  test("answers 404 to other accounts", async () => {
    const { certId } = await delegated(api);
    const stranger = await api.person();
    for (const part of ["chain", "use"]) {
      for (const id of [certId, "nonsense"]) {
        const answer = await stranger.client.get(`/v1/service/delegations/${id}/${part}`);
        expect([part, id, answer.status]).toEqual([part, id, 404]);
      }
    }
  });
});
