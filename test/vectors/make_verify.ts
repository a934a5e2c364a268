import {
  type DelegationCert,
  type DelegationFields,
  delegationSignBytes,
} from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { type Actor, actor, entity } from "./actors.ts";
import { NOW, type VerifyCase } from "./verify_cases.ts";

const ROOT = actor("human_root", 1);
const AGENT = actor("agent", 2);
const MIDDLE = actor("intermediate", 3);
/** Statuses with which a result names the human and the agent (wire format §8). */
const NAMES_PARTIES = ["authorized_agent", "expired", "revoked"];

/**
 * Returns one verify vector in the published format. The expected result comes from the case, not from this
 * program's verification.
 */
export function verifyVector(vectorCase: VerifyCase): object {
  const { name, description, options = {}, context, status, code, sentence, granted } = vectorCase;
  const signed = prove(vectorCase);
  const bundle = vectorCase.tamper?.(signed) ?? signed;
  const actors = bundle.delegations.length > 1 ? [ROOT, MIDDLE, AGENT] : [ROOT, AGENT];
  return {
    name,
    description,
    protocol_version: 1,
    kind: "verify",
    entities: actors.map(entity),
    timestamps: { challenge_at: bundle.challenge_at, verifier_now: NOW },
    bundle,
    ...(context === undefined ? {} : { verifier_context: context }),
    expected: {
      delegation_sign_bytes_hex: bundle.delegations.map((certificate) =>
        hex(delegationSignBytes(certificate)),
      ),
      challenge_sign_bytes_hex: hex(challengeSignBytes(bundle)),
      verify_options: { now: NOW, ...options },
      verify_result: {
        valid: code === undefined,
        identity_status: status,
        ...(NAMES_PARTIES.includes(status) && { human_id: ROOT.id, agent_id: AGENT.id }),
        ...(code === undefined ? { granted_scope: granted } : { error_reason: sentence ?? `${code}: ` }),
      },
    },
  };
}

/**
 * Returns the proof for a case. It uses the test keys 1 (human), 3 (intermediate, if there are two
 * certificates) and 2 (agent).
 */
export function prove({ chain = [{}], binding = {} }: Pick<VerifyCase, "chain" | "binding">): ProofBundle {
  const line = chain.length > 1 ? [AGENT, MIDDLE, ROOT] : [AGENT, ROOT];
  const delegations = chain.map((change, index) =>
    certify(line[index + 1] ?? ROOT, line[index] ?? AGENT, index, change),
  );
  const bound = { challenge: Buffer.alloc(32, 7).toString("base64"), challenge_at: NOW, ...binding };
  const challenge_sig = AGENT.sign(challengeSignBytes(bound));
  return { agent_id: AGENT.id, agent_pub_key: AGENT.publicKey, delegations, ...bound, challenge_sig };
}

function certify(
  issuer: Actor,
  subject: Actor,
  index: number,
  change: Partial<DelegationFields>,
): DelegationCert {
  const fields: DelegationFields = {
    cert_id: `00000000-0000-4000-8000-00000000000${index}`,
    version: 1,
    issuer_id: issuer.id,
    issuer_pub_key: issuer.publicKey,
    subject_id: subject.id,
    subject_pub_key: subject.publicKey,
    scope: index === 0 ? ["meeting:attend"] : ["meeting:attend", "identity:delegate"],
    constraints: [],
    issued_at: NOW - 3600,
    expires_at: NOW + 86_400,
    ...change,
  };
  return { ...fields, signature: issuer.sign(delegationSignBytes(fields)) };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
