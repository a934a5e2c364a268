import { hash } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { isRefusal } from "../../../keyvault/errors.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { follow, type Listed } from "../../../keyvault/sign/revocation_list.ts";
import {
  type RevocationList,
  revocationListSignBytes,
  verifyRevocationList,
} from "../../../src/protocol/statements/revocation_list.ts";
import { startVault, type TestVault } from "../fixture.ts";

/* The holder of the API's certificate cannot get a list signed that undoes a revocation. */

let vault: TestVault;
let root: CreatedKey;

const TOLERANCE = 60;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());
beforeEach(async () => {
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
});

const now = () => vault.now();
type Answered = RevocationList & { error?: { code: string; message: string } };

/** Signs a list of these certificates and their expiry times, one second later than the previous list. */
async function list(ends: Record<string, number>, changed: object = {}, key = root): Promise<Answered> {
  vault.clock.move(1);
  const contents = { revoked_certs: Object.keys(ends), expires_at: Object.values(ends) };
  const body = { tenant: "acc-1", updated_at: now(), ...contents, ...changed };
  return (await vault.post(`/v1/keys/${key.key_id}/sign/revocation-list`, body)).body as never;
}
const code = async (answer: Promise<{ error?: { code: string } }>) => (await answer).error?.code;

test("a revocation list names its key, is signed by this key, and is never older than the previous list", async () => {
  const first = await list({ "cert-1": 0 });
  expect(first).toMatchObject({ issuer_id: root.key_id, updated_at: now(), revoked_certs: ["cert-1"] });
  expect(first).not.toHaveProperty("expires_at");
  expect(await verifyRevocationList(first, root.public_key)).toBeUndefined();
  const at = (offset: number) => list({ "cert-1": 0, "cert-2": 0 }, { updated_at: now() + 1 + offset });
  expect(await code(at(-2))).toBe("policy_violation");
  expect(await code(at(TOLERANCE + 1))).toBe("policy_violation");
  expect(await code(at(TOLERANCE))).toBeUndefined();
  expect(await code(at(0))).toBe("policy_violation");
  expect(await code(list({}, { issuer_id: root.key_id }))).toBe("invalid_request");
  expect(await code(list({}, { tenant: "acc-2" }))).toBe("key_not_found");
  const agent = await vault.makeAgent("acc-1");
  expect(await code(list({}, {}, agent))).toBe("purpose_mismatch");
});

test("the last list is signed again while its time is allowed, but no other list with the same time is signed", async () => {
  const first = await list({ "cert-1": 0 });
  const again = { updated_at: first.updated_at };
  expect(await verifyRevocationList(await list({ "cert-1": 0 }, again), root.public_key)).toBeUndefined();
  expect(await code(list({ "cert-1": 0, "cert-2": 0 }, again))).toBe("policy_violation");
  vault.clock.move(TOLERANCE);
  expect(await code(list({ "cert-1": 0 }, again))).toBe("policy_violation");
});

test("a certificate leaves the list only after it has expired, and never if it has no expiry", async () => {
  const end = now() + 100;
  await list({ forever: 0, soon: end, later: end + 1_000 });
  const refused = await list({ forever: 0, later: end + 1_000 });
  expect(refused.error).toMatchObject({
    code: "policy_violation",
    message: "The list lacks soon, which is on the last list and has not expired",
  });
  expect(await code(list({}))).toBe("policy_violation");
  vault.clock.move(end + TOLERANCE - now() - 1);
  expect(now()).toBe(end + TOLERANCE - 1);
  expect(await code(list({ forever: 0, later: end + 1_000 })), "at its end and the tolerance").toBe(
    "policy_violation",
  );
  expect(await code(list({ forever: 0, later: end + 1_000 })), "a second later").toBeUndefined();
  expect(await code(list({ forever: 0 }))).toBe("policy_violation");
  expect(await code(list({ later: end + 1_000 }))).toBe("policy_violation");
  vault.clock.move(5_000);
  expect(await code(list({}))).toBe("policy_violation");
  expect(await code(list({ forever: 0 }))).toBeUndefined();
});

test("listing a certificate again cannot make its expiry earlier, even if it is listed twice", async () => {
  const end = now() + 1_000;
  await list({ forever: 0, later: end });
  expect(await code(list({ forever: 1, later: 1 }))).toBeUndefined();
  expect(await code(list({ forever: 1 }))).toBe("policy_violation");
  expect(await code(list({ later: 1 }))).toBe("policy_violation");
  const twice = { revoked_certs: ["forever", "later", "later"], expires_at: [1, end + 500, 1] };
  expect(await code(list({}, twice))).toBeUndefined();
  vault.clock.move(end + TOLERANCE + 1 - now());
  expect(await code(list({ forever: 1 }))).toBe("policy_violation");
  vault.clock.move(500);
  expect(await code(list({ forever: 1 }))).toBeUndefined();
});

test("each root key has its own revocation list, and a refused list does not change it", async () => {
  const other = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "other" });
  await list({ "cert-1": 0 });
  expect(await code(list({ "cert-2": 0 }, {}, other))).toBeUndefined();
  expect(await code(list({ "cert-3": 0 }))).toBe("policy_violation");
  expect(await code(list({ "cert-1": 0 }))).toBeUndefined();
});

test("only one of several concurrent revocation lists is signed, and the next list is compared with it", async () => {
  const racing = await Promise.all(["a", "b", "c", "d"].map((certificate) => list({ [certificate]: 0 })));
  const signed = racing.filter(({ error }) => error === undefined);
  expect(signed).toHaveLength(1);
  expect(await code(list({ [signed[0]!.revoked_certs[0]!]: 0, e: 0 }))).toBeUndefined();
});

test("only the entries of the last signed list are stored", async () => {
  const end = now() + 5;
  for (const ends of [{ "cert-1": end }, { "cert-1": end, "cert-2": 0 }, {}]) await list(ends);
  vault.clock.move(100);
  await list({ "cert-2": 0 });
  const kept = await vault.home.sql("select listed from listed_certificates where key_id = $1", [
    root.key_id,
  ]);
  expect(kept).toEqual([{ listed: '{"certificates":["cert-2"],"expires_at":[0]}' }]);
});

test("a revocation list is recorded with the digest of its signed bytes, and is known after a restart", async () => {
  const first = await list({ "cert-1": 0 });
  vault = await vault.restart();
  const [row] = await vault.home.sql<{ digest: Buffer }>(
    "select digest from audit where key_id = $1 and statement = 'revocation_list'",
    [root.key_id],
  );
  expect(row?.digest).toEqual(hash("sha256", revocationListSignBytes(first), "buffer"));
  vault.clock.at = new Date((first.updated_at + 1) * 1_000);
  expect(await code(list({ "cert-2": 0 }))).toBe("policy_violation");
  expect(await code(list({ "cert-1": 0, "cert-2": 0 }))).toBeUndefined();
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test.each([
  [
    "altered",
    "update listed_certificates set listed = replace(listed, 'cert-1', 'cert-9') where key_id = $1",
  ],
  [
    "emptied",
    `update listed_certificates set listed = '{"certificates":[],"expires_at":[]}' where key_id = $1`,
  ],
  ["not JSON", "update listed_certificates set listed = '' where key_id = $1"],
  ["deleted", "delete from listed_certificates where key_id = $1"],
])(
  "if a stored list was %s in the database, its key signs no further list, and the failure is recorded",
  async (_, lie) => {
    await list({ "cert-1": 0 });
    const [kept] = await vault.home.sql("select * from listed_certificates where key_id = $1", [root.key_id]);
    await vault.home.sql(lie, [root.key_id]);
    expect(await code(list({}))).toBe("key_damaged");
    expect(await vault.recordsAfter(vault.head() - 1)).toEqual([
      { statement: "revocation_list", outcome: "failed" },
    ]);
    await vault.home.sql(
      `insert into listed_certificates (key_id, digest, listed) values ($1, $2, $3)
       on conflict (key_id, digest) do update set listed = excluded.listed`,
      [root.key_id, kept!.digest, kept!.listed],
    );
    expect(await code(list({}))).toBe("policy_violation");
    expect(await code(list({ "cert-1": 0 }))).toBeUndefined();
  },
);

const AT = 1_000;

/** Lists with few names, so that names repeat and lists overlap. */
const lists = fc
  .array(fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.constantFrom(0, 1, 900, 939, 940, 1_000, 2_000)), {
    maxLength: 6,
  })
  .map(
    (items): Listed => ({
      certificates: items.map(([name]) => name),
      expiresAt: items.map(([, end]) => end),
    }),
  );

/** Returns the latest expiry of each certificate in a list. A certificate without an expiry never expires. */
function endsOf({ certificates, expiresAt }: Listed): Map<string, number> {
  const ends = new Map<string, number>();
  for (const [index, name] of certificates.entries()) {
    ends.set(name, Math.max(expiresAt[index] || Number.POSITIVE_INFINITY, ends.get(name) ?? 0));
  }
  return ends;
}

test("follow() refuses to drop a certificate that may not have expired, and keeps the later expiry times", () => {
  let followed = 0;
  fc.assert(
    fc.property(lists, lists, (last, next) => {
      const [before, asked] = [endsOf(last), endsOf(next)];
      const missing = [...before].filter(([name, end]) => !asked.has(name) && end >= AT - TOLERANCE);
      const result = follow(last, next, AT);
      expect(isRefusal(result)).toBe(missing.length > 0);
      if (isRefusal(result)) return;
      followed += 1;
      expect(result.certificates).toEqual(next.certificates);
      const expected = [...asked].map(([name, end]) => [name, Math.max(end, before.get(name) ?? 0)]);
      expect([...endsOf(result)]).toEqual(expected);
    }),
    { numRuns: 5_000 },
  );
  expect(followed).toBeGreaterThan(500);
});
