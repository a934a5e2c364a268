import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { LISTED_AFTER_END_SECONDS } from "../../src/delegations/revocation_lists/revocation_state.ts";
import { decodeRevocationList, verifyRevocationList } from "../../src/protocol/statements/revocation_list.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { approve, delegated, errorCode, selfRequest, type TestPlatform } from "../support/platform_world.ts";

let api: TestApi;
let replica: TestApi;
beforeAll(async () => {
  api = await startApi();
  replica = await startApi({ shares: api });
});
afterEach(() => {
  api.vault.failure = undefined;
  api.vault.pause = undefined;
});
afterAll(async () => {
  await replica.stop();
  await api.stop();
});

type List = { issuer_id: string; updated_at: number; revoked_certs: string[] };
const read = (humanId: string, from = api, headers: Record<string, string> = {}) =>
  from.client().get(`/v1/service/revocations/${humanId}`, { headers });
const listOf = async (humanId: string, from = api) => (await read(humanId, from)).body as unknown as List;
const signatures = () => api.vault.calls.filter((call) => call === "revocationList").length;
const revoke = ({ client }: Person, certId: string) =>
  client.post(`/v1/service/delegations/${certId}/revoke`, {});

async function another({ person, platform }: { person: Person; platform: TestPlatform }, fields = {}) {
  const requestId = await selfRequest(person, platform.connectionId, fields);
  return String((await approve(person, requestId, ["data:read"])).body.cert_id);
}

describe("a root identity's revocation list", () => {
  test("has a signature by the root key, and is empty before the first revocation", async () => {
    const { person } = await delegated(api);
    const answer = await read(person.humanId);
    expect([answer.status, answer.body]).toMatchObject([
      200,
      {
        issuer_id: person.humanId,
        updated_at: Math.floor(api.clock.now().getTime() / 1000),
        revoked_certs: [],
      },
    ]);
    const list = decodeRevocationList(Buffer.from(answer.text));
    const principal = await api.client().get(`/v1/registry/principals/${person.humanId}`);
    const key = principal.body.public_key as Parameters<typeof verifyRevocationList>[1];
    expect(await verifyRevocationList(list, key)).toBeUndefined();
    const other = { ...list, revoked_certs: ["cert-1"] };
    expect(await verifyRevocationList(other, key)).toMatchObject({ code: "bad_signature" });
  });

  test("contains every revoked certificate of the person, whatever caused the revocation, and no other certificate", async () => {
    const given = await delegated(api);
    const { person, platform, certId } = given;
    const kept = await another(given);
    const stranger = await delegated(api);
    await revoke(stranger.person, stranger.certId);
    await revoke(person, certId);
    expect((await listOf(person.humanId)).revoked_certs).toEqual([certId]);
    await person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
    expect((await listOf(person.humanId)).revoked_certs).toEqual([certId, kept].sort());
  });

  test("gets a new signature and a later time only after an additional revocation, even within the same second", async () => {
    const given = await delegated(api);
    const { humanId } = given.person;
    const before = signatures();
    const first = await read(humanId);
    api.clock.advance(600);
    expect((await read(humanId)).text).toBe(first.text);
    expect((await read(humanId, replica)).text).toBe(first.text);
    expect(signatures() - before).toBe(1);
    let last = Number(first.body.updated_at);
    for (const certId of [given.certId, await another(given), await another(given)]) {
      await revoke(given.person, certId);
      const list = await listOf(humanId, replica);
      expect(list.revoked_certs).toContain(certId);
      expect(list.updated_at).toBeGreaterThan(last);
      expect(await listOf(humanId)).toEqual(list);
      last = list.updated_at;
    }
    expect(signatures() - before).toBe(4);
  });

  test("gets only one signature for many concurrent calls on two replicas", async () => {
    const { person, certId } = await delegated(api);
    await revoke(person, certId);
    const before = signatures();
    let waiting = 0;
    api.vault.pause = async () => {
      waiting += 1;
      await new Promise((resolve) => setTimeout(resolve, 300));
    };
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, n) => read(person.humanId, n % 2 === 0 ? api : replica)),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect([waiting, signatures() - before]).toEqual([1, 1]);
  });

  test("contains a certificate that was revoked while the vault was signing the previous list", async () => {
    const given = await delegated(api);
    const second = await another(given);
    await revoke(given.person, given.certId);
    const held = Promise.withResolvers<void>();
    const signing = Promise.withResolvers<void>();
    api.vault.pause = () => {
      signing.resolve();
      return held.promise;
    };
    const early = read(given.person.humanId);
    await signing.promise;
    api.vault.pause = undefined;
    await revoke(given.person, second);
    const late = [read(given.person.humanId), read(given.person.humanId, replica)];
    setTimeout(held.resolve, 200);
    await early;
    for (const answer of await Promise.all(late)) {
      expect((answer.body as unknown as List).revoked_certs).toEqual([given.certId, second].sort());
    }
  });

  test("contains a revoked certificate until a day after it expires, and omits it in the next signed list", async () => {
    const given = await delegated(api);
    const ending = await another(given, { expires_in: 60 });
    await revoke(given.person, ending);
    const { humanId } = given.person;
    expect((await listOf(humanId)).revoked_certs).toEqual([ending]);
    api.clock.advance(60 + LISTED_AFTER_END_SECONDS - 1);
    const relogged = await relog(given.person);
    await revoke(relogged, given.certId);
    expect((await listOf(humanId)).revoked_certs).toEqual([ending, given.certId].sort());
    api.clock.advance(1);
    expect((await listOf(humanId)).revoked_certs).toHaveLength(2);
    await revoke(relogged, await another({ ...given, person: relogged }));
    expect((await listOf(humanId)).revoked_certs).not.toContain(ending);
  });

  test("may be cached for a minute, and is not sent again to a client that already has it", async () => {
    const { person, certId } = await delegated(api);
    const first = await read(person.humanId);
    expect(first.headers.get("cache-control")).toBe("public, max-age=60");
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
    const again = await read(person.humanId, replica, { "if-none-match": etag });
    expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", etag]);
    await revoke(person, certId);
    expect((await read(person.humanId, api, { "if-none-match": etag })).status).toBe(200);
  });

  test.each([
    "nonsense",
    "0".repeat(32),
    randomBytes(16).toString("hex").toUpperCase(),
    "%00",
    "a".repeat(5_000),
  ])("does not exist for %s", async (humanId) => {
    const answer = await read(humanId);
    expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
  });
});

describe("while the vault is unavailable", () => {
  const away = new VaultUnavailable("unreachable", "away");

  test("the last revocation list is returned if nothing was revoked since then", async () => {
    const { person } = await delegated(api);
    const first = await read(person.humanId);
    api.vault.failure = away;
    expect((await read(person.humanId, replica)).text).toBe(first.text);
  });

  test("an incomplete revocation list is not returned until the vault is back", async () => {
    const { person, certId } = await delegated(api);
    await read(person.humanId);
    await revoke(person, certId);
    api.vault.failure = away;
    for (const from of [api, replica]) {
      const answer = await read(person.humanId, from);
      expect([answer.status, errorCode(answer)]).toEqual([503, "vault_unavailable"]);
    }
    api.vault.failure = undefined;
    expect((await listOf(person.humanId)).revoked_certs).toEqual([certId]);
  });

  test("a first revocation list is not returned", async () => {
    const { person } = await delegated(api);
    api.vault.failure = away;
    expect(errorCode(await read(person.humanId))).toBe("vault_unavailable");
  });

  test("a process that died while the vault signed its list delays other processes by at most 10 seconds", async () => {
    const { person, certId } = await delegated(api);
    await revoke(person, certId);
    await api.db("revocation_lists").insert({
      account_id: person.accountId,
      run_id: "00000000-0000-7000-8000-000000000000",
      locked_until: new Date(api.clock.now().getTime() + 10_000),
    });
    api.clock.advance(10);
    expect((await listOf(person.humanId)).revoked_certs).toEqual([certId]);
  });
});

test("a revocation list from the vault is rejected if its content differs from the request", async () => {
  const { person, certId } = await delegated(api);
  await revoke(person, certId);
  const { revocationList } = api.vault.statements;
  api.vault.statements.revocationList = (key, order) => revocationList(key, { ...order, revoked: [] });
  expect(errorCode(await read(person.humanId))).toBe("internal");
  api.vault.statements.revocationList = revocationList;
  api.clock.advance(1);
  expect((await listOf(person.humanId)).revoked_certs).toEqual([certId]);
});

async function relog(person: Person): Promise<Person> {
  const client = api.client();
  await client.signIn(person.email);
  return { ...person, client };
}
