import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { decodeConstraint } from "../../src/protocol/constraints/decoding.ts";
import { evaluateConstraints } from "../../src/protocol/constraints/evaluate_constraints.ts";
import {
  checkIssuable,
  decodeDelegationCert,
  delegationSignBytes,
} from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import {
  bundleHash,
  decodeProofBundle,
  type ProofBundle,
} from "../../src/protocol/documents/proof_bundle.ts";
import { PROTOCOL_ERROR_CODES } from "../../src/protocol/encoding/errors.ts";
import { list } from "../../src/protocol/encoding/fields.ts";
import { parseJson } from "../../src/protocol/encoding/json.ts";
import {
  createCertificateMemory,
  type Verification,
  type VerifyOptions,
  verifyBundle,
} from "../../src/protocol/verification/verify_bundle.ts";
import { listed } from "../support/answers.ts";
import { AGENT, encode, fields, NOW, ROOT } from "../support/chains.ts";
import { CONTEXT } from "../support/proof_arbitraries.ts";
import type { Target } from "./loop.ts";
import { decode, demand, signatureTexts } from "./oracles.ts";
import { CONSTRAINTS, type Genuine } from "./seeds.ts";

/** Inputs, out of 256, that the reference implementation also verifies, which is fifty times slower. */
const COMPARED = 8;
const SIGNATURE = {
  ed25519: Buffer.alloc(64).toString("base64"),
  ml_dsa_65: Buffer.alloc(3309).toString("base64"),
};

/**
 * Returns targets for bundles and for constraints. All bundle inputs share one certificate memory.
 * Constraints have their own target, because it needs no valid signature.
 */
export function verifyTargets(genuine: Genuine): Target[] {
  return [bundleTarget(genuine.bundle), constraintTarget()];
}

/**
 * Returns a target for bundles. It checks:
 * - An accepted bundle has only certificates, challenge answers and signatures of the seeds, though perhaps
 *  in other combinations.
 * - Only a genuine bundle consumes its challenge.
 * - With a certificate memory, without it and with the other implementation, the parsed document and the
 *  answer are the same.
 */
function bundleTarget(seeds: readonly Uint8Array[]): Target {
  const bundles = seeds.map((seed) => decodeProofBundle(seed));
  const signed = new Set(bundles.flatMap(signedParts));
  const signatures = new Set(bundles.flatMap(signatureTexts));
  const certificateMemory = createCertificateMemory();
  return {
    name: "bundle",
    seeds,
    run: async (input) => {
      const decoded = decode((bytes) => decodeProofBundle(bytes), input);
      const known = decode((bytes) => decodeProofBundle(bytes, certificateMemory.recent), input);
      demand(isDeepStrictEqual(known, decoded), "known certificates make a difference to what is read");
      if (typeof known === "string") return known;
      const bundle = known.object;
      demand(bundleHash(bundle).length === 32, "a bundle has no hash");
      const answer = await verifyOnce(bundle, { certificateMemory });
      if ((hash("sha256", input, "buffer")[0] ?? 0) < COMPARED) {
        const others = await Promise.all([
          verifyOnce(bundle, {}),
          verifyOnce(bundle, { backend: "reference" }),
        ]);
        demand(
          others.every((other) => isDeepStrictEqual(listed(other), listed(answer))),
          "two verifications differ",
        );
      }
      if (!answer.genuine) return answer.violation?.code ?? "valid without being genuine";
      demand(
        signedParts(bundle).every((part) => signed.has(part)) &&
          signatureTexts(bundle).every((text) => signatures.has(text)),
        "a bundle is genuine that nobody signed",
      );
      return `genuine ${answer.violation?.code}`;
    },
  };
}

async function verifyOnce(bundle: ProofBundle, changes: Partial<VerifyOptions>): Promise<Verification> {
  let spent = 0;
  const { session_context, stream_id, stream_seq = 1 } = bundle;
  const answer = await verifyBundle(bundle, {
    now: NOW,
    required_scope: "files:read",
    context: CONTEXT,
    session_context,
    stream: stream_id === undefined ? undefined : { stream_id, last_seen_seq: stream_seq - 1 },
    revocation: ({ cert_id }) => cert_id === "revoked",
    challengeStore: {
      isKnown: () => true,
      spend: () => {
        spent += 1;
        return true;
      },
    },
    ...changes,
  });
  demand(
    spent === (answer.genuine ? 1 : 0),
    "a challenge is spent although the proof is not genuine, or the reverse",
  );
  demand(answer.genuine || !answer.valid, "a bundle is valid that is not genuine");
  demand(answer.valid === (answer.violation === undefined), "an answer contradicts itself");
  return answer;
}

function signedParts(bundle: ProofBundle): string[] {
  return [...bundle.delegations.map(delegationSignBytes), challengeSignBytes(bundle)].map((bytes) =>
    hash("sha256", bytes),
  );
}

/**
 * Checks that issuable constraints can be decoded, and that each evaluation of a decoded constraint gives the
 * same code, which is one of the closed set.
 */
function constraintTarget(): Target {
  const decodeAll = list(decodeConstraint);
  return {
    name: "constraints",
    seeds: [encode(CONSTRAINTS), ...CONSTRAINTS.map((constraint) => encode([constraint]))],
    run: async (input) => {
      const decoded = decode((bytes) => decodeAll(parseJson(bytes)), input);
      if (typeof decoded === "string") return decoded;
      const certificate = fields(ROOT, AGENT, { constraints: decoded.object });
      const unissuable = checkIssuable(certificate);
      if (unissuable === undefined) {
        decodeDelegationCert(encode({ ...certificate, signature: SIGNATURE }));
      } else {
        demand(PROTOCOL_ERROR_CODES.includes(unissuable.code), "an unknown code");
      }
      const context = { certId: "cert", now: NOW, context: CONTEXT };
      const refusal = await evaluateConstraints(certificate.constraints, context);
      demand(
        unissuable === undefined || !MEANINGLESS.includes(unissuable.code) || refusal !== undefined,
        "a constraint holds that can never hold",
      );
      const which = refusal?.detail.replaceAll(/\d+|".*"/g, "#").slice(0, 60);
      return `${unissuable?.code} ${refusal?.code} ${which}`;
    },
  };
}

const MEANINGLESS = ["invalid_constraint", "unsatisfiable_constraints"];
