import type { HybridSignature } from "../../src/protocol/hybrid.ts";
import { type RevocationList, revocationListSignBytes } from "../../src/protocol/revocation_list.ts";
import { type RevocationPush, revocationPushSignBytes } from "../../src/protocol/revocation_push.ts";
import { CHAIN_START } from "../../src/protocol/statements.ts";
import {
  canonicalReceipt,
  type VerificationReceipt,
  type VerificationReceiptFields,
  verificationReceiptSignBytes,
} from "../../src/protocol/verification_receipt.ts";
import type { Caller } from "../audit/record.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { VAULT_TENANT } from "../keys/disable.ts";
import { follows, signSequenced } from "./sequenced.ts";
import { CLOCK_TOLERANCE_SECONDS, type SigningParts } from "./statement.ts";

/** A tree's head as a C2SP checkpoint: `body` is what is signed, three lines made of the other fields. */
export type Checkpoint = {
  origin: string;
  size: number;
  root: string;
  body: string;
  signature: HybridSignature;
};

/** Statements that follow one another. Each names its key as issuer; nothing a caller gives is signed but in its field. */
export type SequenceSigning = {
  /** All certificates that an account has revoked. `updated_at` never goes back and is within 60 s of the vault's clock. */
  revocationList(
    caller: Caller,
    keyId: string,
    request: { tenant: string; updated_at: number; revoked_certs: string[] },
  ): Promise<RevocationList | Refusal>;
  /** Certificates revoked since the last push. `seq_no` is 1, then one more each time. */
  revocationPush(
    caller: Caller,
    keyId: string,
    request: { tenant: string; seq_no: number; entries: string[]; pushed_at: number },
  ): Promise<RevocationPush | Refusal>;
  /** What was decided about a bundle. `prev_hash` is that of the verifier's receipt before, zeros in the first. */
  receipt(
    caller: Caller,
    keyId: string,
    request: Omit<VerificationReceiptFields, "version" | "verifier_pub">,
  ): Promise<VerificationReceipt | Refusal>;
  /** A log's head. The log of an origin never shrinks, and has one root for each size. */
  checkpoint(
    caller: Caller,
    keyId: string,
    request: { origin: string; size: number; root: string },
  ): Promise<Checkpoint | Refusal>;
};

/** Signing sequences on these parts. */
export function createSequenceSigning(parts: SigningParts): SequenceSigning {
  return {
    async revocationList(caller, keyId, { tenant, ...request }) {
      const fields = { issuer_id: keyId, ...request };
      const call = {
        caller,
        keyId,
        tenant,
        statement: "revocation_list",
        purposes: ["account_root"],
      } as const;
      const detail = { certificates: String(fields.revoked_certs.length) };
      const signed = await signSequenced(parts, { ...call, stream: "", detail }, (_, last, now) => {
        const next = { bytes: revocationListSignBytes(fields), place: fields.updated_at };
        return tooFar(fields.updated_at, now) ?? follows(last, next, (place) => fields.updated_at > place);
      });
      return isRefusal(signed) ? signed : { ...fields, signature: signed.signature };
    },

    async revocationPush(caller, keyId, { tenant, ...request }) {
      const fields = { issuer_id: keyId, ...request };
      const call = {
        caller,
        keyId,
        tenant,
        statement: "revocation_push",
        purposes: ["account_root"],
      } as const;
      const detail = { certificates: String(fields.entries.length) };
      const signed = await signSequenced(parts, { ...call, stream: "", detail }, (_, last, now) => {
        const next = { bytes: revocationPushSignBytes(fields), place: fields.seq_no };
        if (last === undefined && fields.seq_no !== 1)
          return refuse("policy_violation", "The first push has number 1");
        return tooFar(fields.pushed_at, now) ?? follows(last, next, (place) => fields.seq_no === place + 1);
      });
      return isRefusal(signed) ? signed : { ...fields, signature: signed.signature };
    },

    async receipt(caller, keyId, request) {
      const call = {
        caller,
        keyId,
        tenant: VAULT_TENANT,
        statement: "receipt",
        purposes: ["service"],
      } as const;
      const detail = { decision: request.decision };
      const signed = await signSequenced(
        parts,
        { ...call, stream: request.verifier_id, detail },
        (key, last, now) => {
          const fields = { version: 1, ...request, verifier_pub: key.publicKey };
          const next = { bytes: verificationReceiptSignBytes(fields), place: (last?.place ?? 0) + 1 };
          const link = last?.digest.toString("base64") ?? CHAIN_START;
          const again = last && follows(last, { ...next, place: last.place }, () => false);
          if (again !== undefined && !isRefusal(again)) return again;
          if (request.prev_hash !== link)
            return refuse("policy_violation", "prev_hash is not that of the verifier's last receipt");
          return tooFar(request.verified_at, now) ?? next;
        },
      );
      if (isRefusal(signed)) return signed;
      const fields = canonicalReceipt({ version: 1, ...request, verifier_pub: signed.key.publicKey });
      return { ...fields, signature: signed.signature };
    },

    async checkpoint(caller, keyId, request) {
      const { origin, size, root } = request;
      const body = `${origin}\n${size}\n${root}\n`;
      const call = {
        caller,
        keyId,
        tenant: VAULT_TENANT,
        statement: "checkpoint",
        purposes: ["service"],
      } as const;
      const signed = await signSequenced(parts, { ...call, stream: origin, detail: {} }, (_, last) =>
        follows(last, { bytes: Buffer.from(body), place: size }, (place) => size > place),
      );
      return isRefusal(signed) ? signed : { origin, size, root, body, signature: signed.signature };
    },
  };
}

function tooFar(time: number, now: number): Refusal | undefined {
  if (Math.abs(now - time) <= CLOCK_TOLERANCE_SECONDS) return undefined;
  return refuse(
    "policy_violation",
    `The time is more than ${CLOCK_TOLERANCE_SECONDS} s away from the vault's clock`,
  );
}
