import { randomBytes } from "node:crypto";
import type { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds, unixSeconds } from "../../src/clock.ts";
import { type Database, openDatabase, openPool } from "../../src/db/connection.ts";
import { ApiError } from "../../src/errors.ts";
import { createBatcher } from "../../src/proofs/batch.ts";
import { challengeDay, issueChallenge } from "../../src/proofs/challenge.ts";
import { createChallengeKeys } from "../../src/proofs/challenge_keys.ts";
import { VERIFICATION_PRICE_MICRO_USD } from "../../src/proofs/decision.ts";
import { readVerifyCall } from "../../src/proofs/envelope.ts";
import { createCountedAllows } from "../../src/proofs/rates.ts";
import { createRootFinder } from "../../src/proofs/roots.ts";
import { type VerifyDeps, verifyProof } from "../../src/proofs/verify.ts";
import { createCertificateMemory } from "../../src/protocol/certificate_memory.ts";
import type { ProofBundle } from "../../src/protocol/proof_bundle.ts";
import { createSeal } from "../../src/seal.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { createProofWorld, type ProofWorld } from "../support/proof_world.ts";

let database: TestDatabase;
let db: Database;
let pools: Pool[];
let deps: VerifyDeps;
let world: ProofWorld;
let now = new Date("2026-05-01T10:00:00.250Z");

const seal = createSeal(randomBytes(32));
const onError = () => {};

beforeAll(async () => {
  database = await migratedDatabase();
  db = openDatabase({ url: database.url, name: "test", onError });
  pools = [
    openPool({ url: database.url, name: "test", onError }),
    openPool({ url: database.url, name: "rates", max: 2, onError }),
  ];
  deps = {
    keys: createChallengeKeys({ db, seal }),
    findRoot: createRootFinder(db),
    memory: createCertificateMemory(100),
    decide: createBatcher(pools[0] as Pool),
    withCountedAllows: createCountedAllows(pools[1] as Pool),
    clock: { now: () => now },
  };
  world = await createProofWorld(db, seal, { now });
});

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await db.destroy();
  await database.drop();
});

type Changes = { scope?: string; context?: Record<string, unknown>; as?: ProofWorld };

async function verify(bundle: unknown, { scope = "data:read", context, as = world }: Changes = {}) {
  const body = { proof_bundle: bundle, required_scope: scope, ...(context ? { context } : {}) };
  const call = readVerifyCall(Buffer.from(JSON.stringify(body)), undefined);
  const { accountId, connectionId } = as;
  return verifyProof(
    deps,
    { accountId, connectionId, keyPrefix: "dpz_test", verifierId: connectionId },
    call,
  );
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof ApiError) return error.code;
    throw error;
  }
  return "no error";
}

async function decisionOf(bundle: unknown, changes: Changes = {}): Promise<string> {
  const { decision, reason } = await verify(bundle, changes);
  return `${decision} ${reason}`;
}

async function decisionsOf({ accountId }: ProofWorld): Promise<number> {
  return (await db("audit_events").where({ account_id: accountId })).length;
}

describe("a proof", () => {
  test("is allowed once; again it is invalid_challenge", async () => {
    const bundle = await world.prove({ now });
    expect(await decisionOf(bundle)).toBe("allow authorized");
    expect(await codeOf(verify(bundle))).toBe("invalid_challenge");
  });

  test("of a scope that was not granted is denied, and spends its challenge", async () => {
    const bundle = await world.prove({ now });
    expect(await decisionOf(bundle, { scope: "files:read" })).toBe("deny not_delegated");
    expect(await codeOf(verify(bundle))).toBe("invalid_challenge");
  });

  test("of a certificate revoked meanwhile is denied", async () => {
    const revoked = await createProofWorld(db, seal, { now });
    const bundle = await revoked.prove({ now });
    await db("certificates").where({ cert_id: revoked.certificate.cert_id }).update({ status: "revoked" });
    expect(await decisionOf(bundle, { as: revoked })).toBe("deny delegation_revoked");
  });

  test("by a root that no account has is denied, whatever else is wrong with it", async () => {
    const stranger = await createProofWorld(db, seal, { now });
    const challenge = issueChallenge(
      await deps.keys.forIssuing(challengeDay(now), now),
      world.connectionId,
      now,
    );
    const bundle = await stranger.prove({ now, challenge });
    await db("accounts")
      .where({ account_id: stranger.accountId })
      .update({ human_id: randomBytes(16).toString("hex") });
    expect(await decisionOf(bundle, { scope: "files:read" })).toBe("deny untrusted_root");
  });

  test("of another account's delegation is decided for the connection that asked for the challenge, and paid by it", async () => {
    const other = await createProofWorld(db, seal, { now });
    const challenge = issueChallenge(
      await deps.keys.forIssuing(challengeDay(now), now),
      world.connectionId,
      now,
    );
    const before = await decisionsOf(world);
    expect(await decisionOf(await other.prove({ now, challenge }))).toBe("allow authorized");
    expect(await decisionsOf(world)).toBe(before + 1);
    expect(await decisionsOf(other)).toBe(0);
  });

  test("is invalid_challenge for a connection that did not ask for its challenge", async () => {
    const other = await createProofWorld(db, seal, { now });
    const bundle = await world.prove({ now });
    expect(await codeOf(verify(bundle, { as: other }))).toBe("invalid_challenge");
    expect(await decisionOf(bundle)).toBe("allow authorized");
  });

  test("without credit is credits_exhausted, and nothing is recorded", async () => {
    const poor = await createProofWorld(db, seal, { now, balanceMicroUsd: VERIFICATION_PRICE_MICRO_USD });
    expect(await decisionOf(await poor.prove({ now }), { as: poor })).toBe("allow authorized");
    expect(await codeOf(verify(await poor.prove({ now }), { as: poor }))).toBe("credits_exhausted");
    expect(await decisionsOf(poor)).toBe(1);
  });
});

describe("a challenge", () => {
  test("holds in its last second and not in the next", async () => {
    const [first, second] = [await world.prove({ now }), await world.prove({ now })];
    const issued = now;
    now = new Date((unixSeconds(issued) + 300) * 1000);
    expect(await decisionOf(first)).toBe("allow authorized");
    now = new Date(now.getTime() + 1);
    expect(await codeOf(verify(second))).toBe("invalid_challenge");
    now = issued;
  });

  test("that no key of ours made is invalid_challenge before any signature work", async () => {
    const challenge = issueChallenge(
      { day: challengeDay(now), secret: randomBytes(32) },
      world.connectionId,
      now,
    );
    expect(await codeOf(verify(await world.prove({ now, challenge })))).toBe("invalid_challenge");
    expect(await codeOf(verify(await world.prove({ now, challenge: randomBytes(32) })))).toBe(
      "invalid_challenge",
    );
  });

  test("from a day whose key is gone is invalid_challenge", async () => {
    const old = addSeconds(now, -86_400);
    const challenge = issueChallenge(
      { day: challengeDay(old), secret: randomBytes(32) },
      world.connectionId,
      old,
    );
    expect(await codeOf(verify(await world.prove({ now, challenge })))).toBe("invalid_challenge");
  });
});

describe("a forged bundle", () => {
  test("with any one of 200 random bits flipped is refused, and its challenge is not spent", async () => {
    const bundle = await world.prove({ now });
    const text = JSON.stringify(bundle);
    const before = await decisionsOf(world);
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(text);
      const at = Math.floor(Math.random() * bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (round % 8));
      const rawBody = Buffer.concat([
        Buffer.from('{"required_scope":"data:read","proof_bundle":'),
        bytes,
        Buffer.from("}"),
      ]);
      const { accountId, connectionId } = world;
      const caller = { accountId, connectionId, keyPrefix: "dpz_test", verifierId: connectionId };
      const attempt = (async () => verifyProof(deps, caller, readVerifyCall(rawBody, undefined)))();
      expect(["invalid_request", "invalid_proof", "invalid_challenge"]).toContain(await codeOf(attempt));
    }
    expect(await decisionsOf(world)).toBe(before);
    expect(await decisionOf(bundle)).toBe("allow authorized");
  });

  test("with a widened scope is invalid_proof also when the genuine certificate is remembered", async () => {
    await decisionOf(await world.prove({ now }));
    const bundle = await world.prove({ now });
    const [certificate] = bundle.delegations;
    const forged = { ...bundle, delegations: [{ ...certificate, scope: ["files:read"] }] };
    expect(await codeOf(verify(forged, { scope: "files:read" }))).toBe("invalid_proof");
  });
});

describe("a required scope", () => {
  test.each(["nonsense", "x-acme:read", "urn:read", "custom:", "data:*"])(
    "%s is invalid_scope",
    async (scope) => {
      expect(await codeOf(verify(await world.prove({ now }), { scope }))).toBe("invalid_scope");
    },
  );
});

describe("a rate", () => {
  test("of 5 an hour allows exactly 5 of 24 concurrent tries, and one more when the hour is over", async () => {
    const rated = await createProofWorld(db, seal, {
      now,
      constraints: [{ type: "max_rate", count: 5, window_s: 3600 }],
    });
    const bundles = await Promise.all(Array.from({ length: 24 }, () => rated.prove({ now })));
    const decisions = await Promise.all(bundles.map((bundle) => decisionOf(bundle, { as: rated })));
    expect(decisions.filter((decision) => decision === "allow authorized")).toHaveLength(5);
    expect(decisions.filter((decision) => decision === "deny constraint_denied")).toHaveLength(19);
    const start = now;
    now = addSeconds(start, 3600);
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("allow authorized");
    now = start;
  });
});

describe("a rate that others use", () => {
  const rate = (count: number, window_s: number) => [{ type: "max_rate" as const, count, window_s }];

  test("counts allows only: denials take nothing of it", async () => {
    const rated = await createProofWorld(db, seal, { now, constraints: rate(1, 3600) });
    expect(await decisionOf(await rated.prove({ now }), { as: rated, scope: "files:read" })).toBe(
      "deny not_delegated",
    );
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("allow authorized");
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("deny constraint_denied");
  });

  test("is exact for two processes as well", async () => {
    const rated = await createProofWorld(db, seal, { now, constraints: rate(5, 3600) });
    const other = openPool({ url: database.url, name: "rates", max: 4, onError });
    const second = { ...deps, withCountedAllows: createCountedAllows(other) };
    const { accountId, connectionId } = rated;
    const caller = { accountId, connectionId, keyPrefix: "dpz_test", verifierId: connectionId };
    const bundles = await Promise.all(Array.from({ length: 20 }, () => rated.prove({ now })));
    const decisions = await Promise.all(
      bundles.map(async (bundle, n) => {
        const body = Buffer.from(JSON.stringify({ proof_bundle: bundle, required_scope: "data:read" }));
        return verifyProof(n % 2 === 0 ? deps : second, caller, readVerifyCall(body, undefined));
      }),
    );
    expect(decisions.filter(({ decision }) => decision === "allow")).toHaveLength(5);
    await other.end();
  });

  test("over a window that began before 1970 is counted from then", async () => {
    const rated = await createProofWorld(db, seal, { now, constraints: rate(1, Number.MAX_SAFE_INTEGER) });
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("allow authorized");
    expect(await decisionOf(await rated.prove({ now }), { as: rated })).toBe("deny constraint_denied");
  });

  test("refuses the 65th call that waits, and decides the others", async () => {
    const rated = await createProofWorld(db, seal, { now, constraints: rate(1000, 3600) });
    const bundles = await Promise.all(Array.from({ length: 80 }, () => rated.prove({ now })));
    const codes = await Promise.all(bundles.map((bundle) => codeOf(verify(bundle, { as: rated }))));
    expect(new Set(codes)).toEqual(new Set(["no error", "rate_limited"]));
    expect(await decisionsOf(rated)).toBe(codes.filter((code) => code === "no error").length);
  });

  test("without credit spends the challenge, as every other certificate does", async () => {
    const rated = await createProofWorld(db, seal, { now, balanceMicroUsd: 0, constraints: rate(5, 3600) });
    const bundle = await rated.prove({ now });
    expect(await codeOf(verify(bundle, { as: rated }))).toBe("credits_exhausted");
    expect(await codeOf(verify(bundle, { as: rated }))).toBe("invalid_challenge");
  });
});

describe("constraints", () => {
  test("are held against the context of the call", async () => {
    const limited = await createProofWorld(db, seal, {
      now,
      constraints: [{ type: "max_amount", max_amount: 10.5, currency: "EUR" }],
    });
    const decide = async (context?: Record<string, unknown>) =>
      decisionOf(await limited.prove({ now }), { as: limited, ...(context ? { context } : {}) });
    expect(await decide({ amount: 10.5, currency: "EUR" })).toBe("allow authorized");
    expect(await decide({ amount: 10.51, currency: "EUR" })).toBe("deny constraint_denied");
    expect(await decide()).toBe("deny constraint_unverifiable");
  });
});

describe("the call itself", () => {
  const call = (body: string | Buffer, header?: string) => () => readVerifyCall(Buffer.from(body), header);

  function refusal(attempt: () => unknown): string {
    try {
      attempt();
    } catch (error) {
      if (error instanceof ApiError) return `${error.code} ${error.message.split(":")[0]}`;
      throw error;
    }
    return "accepted";
  }

  test.each([
    ["[]", "invalid_request body"],
    ["", "invalid_request body"],
    ["{", "invalid_request body"],
    ['{"required_scope":"data:read"}', "invalid_request proof_bundle"],
    ['{"required_scope":7,"proof_bundle":{}}', "invalid_request required_scope"],
    ['{"proof_bundle":{}}', "invalid_request required_scope"],
    ['{"required_scope":"data:read","required_scope":"data:read","proof_bundle":{}}', "invalid_request body"],
    ['{"required_scope":"data:read","proof_bundle":{}}', "invalid_proof proof_bundle"],
    ['{"required_scope":"data:read","proof_bundle":7}', "invalid_proof proof_bundle"],
    ['{"required_scope":"data:read","proof_bundle":"***"}', "invalid_proof proof_bundle"],
    [
      '{"required_scope":"data:read","proof_bundle":{},"context":{"amount":"7"}}',
      "invalid_request context.amount",
    ],
  ])("%s is %s", (body, expected) => {
    expect(refusal(call(body))).toBe(expected);
  });

  test("takes the bundle as object, base64, base64url or from the header, alike", async () => {
    const bundle: ProofBundle = await world.prove({ now });
    const text = JSON.stringify(bundle);
    const body = (proof: unknown) => JSON.stringify({ required_scope: "data:read", proof_bundle: proof });
    const readings = [
      call(body(bundle))(),
      call(body(Buffer.from(text).toString("base64")))(),
      call(body(Buffer.from(text).toString("base64url")))(),
      call('{"required_scope":"data:read"}', Buffer.from(text).toString("base64url"))(),
      call('{"required_scope":"data:read"}', text)(),
    ];
    for (const reading of readings) expect(reading.bundle).toEqual(bundle);
  });

  test("a bundle of 131072 bytes is read and one byte more is invalid_proof, in every form", async () => {
    const bundle = await world.prove({ now });
    const [certificate] = bundle.delegations;
    const sized = (bytes: number) => {
      const padded = {
        ...bundle,
        delegations: [{ ...certificate, constraints: [{ type: "x", params: [""] }] }],
      };
      const missing = bytes - JSON.stringify(padded).length;
      padded.delegations[0]?.constraints[0]?.params.splice(0, 1, "p".repeat(missing));
      return JSON.stringify(padded);
    };
    const forms = (text: string) => [
      call(`{"required_scope":"data:read","proof_bundle":${text}}`),
      call(
        JSON.stringify({ required_scope: "data:read", proof_bundle: Buffer.from(text).toString("base64") }),
      ),
    ];
    for (const attempt of forms(sized(131_072))) expect(refusal(attempt)).toBe("accepted");
    for (const attempt of forms(sized(131_073))) expect(refusal(attempt)).toBe("invalid_proof proof_bundle");
  });

  test("a bundle's bytes count and not its characters, and a fraction counts as it is written", async () => {
    const bundle = await world.prove({ now });
    const sized = (constraint: object, filler: string, bytes: number) => {
      const text = (length: number) => {
        const padding = { type: "x", params: filler.repeat(length >> 1) + "p".repeat(length & 1) };
        const [certificate] = bundle.delegations;
        return JSON.stringify({
          ...bundle,
          delegations: [{ ...certificate, constraints: [constraint, padding] }],
        });
      };
      return text(bytes - Buffer.byteLength(text(0)));
    };
    const read = (text: string) => refusal(call(`{"required_scope":"data:read","proof_bundle":${text}}`));
    const fraction = { type: "max_speed_mps", max_mps: 1.5 };
    for (const filler of ["é", "pp"]) {
      expect(read(sized(fraction, filler, 131_072))).toBe("accepted");
      expect(read(sized(fraction, filler, 131_073))).toBe("invalid_proof proof_bundle");
    }
  });
});
