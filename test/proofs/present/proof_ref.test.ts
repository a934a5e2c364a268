import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import type { Database } from "../../../src/db/database.ts";
import {
  createProofRefResolver,
  decodeProofRef,
  encodeProofRef,
  MAX_PROOF_REF_LENGTH,
  type ProofRef,
} from "../../../src/proofs/present/proof_ref.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import type { DelegationCert } from "../../../src/protocol/documents/certificate.ts";
import { bundleHash, type ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { AGENT, certify, ROOT } from "../../support/chains.ts";
import { type Application, errorOf, proofApi } from "../application.ts";

const world = proofApi();

const base64 = (bytes: number) => randomBytes(bytes).toString("base64");

function bundle(depth: number, withContext: boolean): ProofBundle {
  const delegations = Array.from({ length: depth }, () => ({
    cert_id: `cert-${crypto.randomUUID()}`,
  })) as DelegationCert[];
  return {
    agent_id: "a",
    agent_pub_key: { ed25519: "", ml_dsa_65: "" },
    delegations,
    challenge: base64(32),
    challenge_at: 1_763_725_550,
    challenge_sig: { ed25519: base64(64), ml_dsa_65: base64(3309) },
    ...(withContext ? { session_context: base64(32) } : {}),
  };
}

describe("the resolver of proof references", () => {
  test.each([
    ["reads certificates of usual size once", 0, 20],
    ["evicts certificates that need much memory", 9_000, 40],
  ])("%s", async (_, objects, reads) => {
    const own = await certify(ROOT, AGENT, {
      constraints: [
        {
          type: "custom",
          params: Array.from({ length: objects }, (_, n) => ({ [`k${n}`]: 0 })),
        } as Constraint,
      ],
    });
    const first = vi.fn(async () => ({ cert_json: JSON.stringify(own) }));
    const db = () => ({ select: () => ({ where: () => ({ first }) }) });
    const resolve = createProofRefResolver(db as unknown as Database);
    const refs = Array.from(
      { length: 20 },
      () => decodeProofRef(encodeProofRef(bundle(1, false))) as ProofRef,
    );
    for (const ref of [...refs, ...refs]) expect((await resolve(ref))?.delegations).toEqual([own]);
    expect(first).toHaveBeenCalledTimes(reads);
  });
});

describe("decodeProofRef", () => {
  test.each([
    [1, false, 4_576],
    [1, true, 4_619],
    [8, true, MAX_PROOF_REF_LENGTH],
  ])(
    "decodes what encodeProofRef encoded: depth %d, context %s, %d characters",
    (depth, withContext, length) => {
      const proof = bundle(depth, withContext);
      const text = encodeProofRef(proof);
      expect(text).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(text).toHaveLength(length);
      const { challenge, challenge_at, challenge_sig, session_context } = proof;
      expect(decodeProofRef(text)).toEqual({
        certIds: proof.delegations.map(({ cert_id }) => cert_id),
        signed: { challenge, challenge_at, challenge_sig, ...(withContext ? { session_context } : {}) },
      });
    },
  );

  test.each([0, 9])("rejects a reference to %d certificates, whatever its length", (depth) => {
    expect(decodeProofRef(encodeProofRef(bundle(depth, false)))).toBeUndefined();
  });

  test("rejects an unknown flag", () => {
    const bytes = Buffer.from(encodeProofRef(bundle(2, false)), "base64url");
    expect(decodeProofRef(bytes.toString("base64url"))).toBeDefined();
    bytes[1] = 2;
    expect(decodeProofRef(bytes.toString("base64url"))).toBeUndefined();
  });

  test("rejects a reference if any byte is missing, added or changed", () => {
    const bytes = Buffer.from(encodeProofRef(bundle(2, true)), "base64url");
    const changed = (at: number, value: number) => {
      const copy = Buffer.from(bytes);
      copy[at] = value;
      return copy.toString("base64url");
    };
    expect(decodeProofRef(changed(0, 1))).toBeDefined();
    for (const text of [
      "",
      "AQ",
      changed(0, 2),
      changed(1, 2),
      changed(1, 0),
      changed(2, 0),
      changed(2, 1),
      changed(2, 3),
      changed(2, 9),
      changed(35, 0xff),
      bytes.subarray(0, -1).toString("base64url"),
      `${bytes.toString("base64url")}A`,
      `${bytes.toString("base64url")}=`,
      ` ${bytes.toString("base64url")}`,
      bytes.toString("base64url").repeat(2),
    ]) {
      expect([text.slice(0, 8), decodeProofRef(text)]).toEqual([text.slice(0, 8), undefined]);
    }
  });

  test("returns undefined for random text, and never throws", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String({ maxLength: 6_000 })), (text) => {
        expect(decodeProofRef(text)).toBeUndefined();
      }),
    );
  });
});

describe("verify with a proof reference", () => {
  const byRef = (app: Application, ref: unknown, fields = {}) =>
    app.verify(undefined, { proof_ref: ref, ...fields });

  test("gives the same decision as with the whole bundle, and the same bundle hash in its receipt", async () => {
    const app = await world.application();
    const { body } = await app.present();
    const decided = await byRef(app, body.proof_ref);
    expect(decided.body).toMatchObject({ decision: "allow", agent_id: app.agentId, cert_id: app.certId });
    const hash = Buffer.from(bundleHash(body.proof_bundle as ProofBundle)).toString("hex");
    expect(decided.body.receipt).toMatchObject({ bundle_hash: hash });
    expect(errorOf(await app.verify(body.proof_bundle))).toBe("400 invalid_challenge");
    const other = (await app.present()).body;
    const whole = await app.verify(other.proof_bundle, { required_scope: "data:share" });
    const again = await byRef(app, (await app.present()).body.proof_ref, { required_scope: "data:share" });
    expect([whole.body.decision_reason, again.body.decision_reason]).toEqual([
      "not_delegated",
      "not_delegated",
    ]);
  });

  test("also reads the proof reference from the header", async () => {
    const app = await world.application();
    const { body } = await app.present();
    const answer = await world.api.client().post(
      "/v1/service/verify",
      { required_scope: "data:read" },
      {
        headers: { "x-service-api-key": app.platform.apiKey, "x-service-proof": String(body.proof_ref) },
        csrf: false,
      },
    );
    expect(answer.body.decision).toBe("allow");
  });

  test("denies a proof whose reference names a revoked certificate", async () => {
    const app = await world.application();
    const { body } = await app.present();
    await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
    expect((await byRef(app, body.proof_ref)).body).toMatchObject({
      decision: "deny",
      decision_reason: "delegation_revoked",
    });
  });

  test("answers invalid_proof to a reference that is malformed, forged or contains a wrong certificate, and spends nothing", async () => {
    const [app, other] = [await world.application(), await world.application()];
    const { body } = await app.present();
    const bytes = Buffer.from(String(body.proof_ref), "base64url");
    const flipped = (at: number) => {
      const copy = Buffer.from(bytes);
      copy[at] = (copy[at] ?? 0) ^ 1;
      return copy.toString("base64url");
    };
    const foreign = Buffer.concat([
      bytes.subarray(0, -16),
      Buffer.from(other.certId.slice(5).replaceAll("-", ""), "hex"),
    ]);
    const longer = Buffer.concat([bytes, randomBytes(16)]);
    longer[2] = 2;
    const refs = [
      longer.toString("base64url"),
      7,
      null,
      {},
      "",
      "x",
      flipped(43),
      flipped(107),
      flipped(bytes.length - 1),
      foreign.toString("base64url"),
    ];
    for (const ref of refs) expect([ref, errorOf(await byRef(app, ref))]).toEqual([ref, "400 invalid_proof"]);
    const both = await app.verify(body.proof_bundle, { proof_ref: body.proof_ref });
    expect(errorOf(both)).toBe("400 invalid_request");
    expect((await byRef(app, body.proof_ref)).body.decision).toBe("allow");
  });
});
