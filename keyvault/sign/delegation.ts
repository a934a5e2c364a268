import {
  checkIssuable,
  type DelegationCert,
  type DelegationFields,
  delegationSignBytes,
} from "../../src/protocol/documents/certificate.ts";
import { beyondCeiling, coversScopes } from "../../src/protocol/documents/scopes.ts";
import { equalPublicKeys } from "../../src/protocol/keys/hybrid.ts";
import type { Caller } from "../audit/record.ts";
import type { DelegationPolicy } from "../config.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Key } from "../keys/store.ts";
import { clockRefusal, type SigningParts, signStatement } from "./statement.ts";

/** The certificate without the issuer's public key and the signature, which the vault adds. */
export type DelegationRequest = Omit<DelegationFields, "issuer_pub_key">;

/** A user's approval, as the caller reports it. The vault signs nothing outside `ceiling`. */
export type Approval = {
  ceiling: string[];
  request_id: string;
  approved_by: string;
  /** True if this vault does not store the subject's key, which then has no ceiling of its own. */
  external_subject?: boolean;
};

/** Signs a delegation certificate with an account's root key and returns the whole certificate. */
export type SignDelegation = (
  caller: Caller,
  keyId: string,
  request: { tenant: string; certificate: DelegationRequest; approval: Approval },
) => Promise<DelegationCert | Refusal>;

type DelegationInput = {
  policy: DelegationPolicy;
  fields: DelegationFields;
  approval: Approval;
  issuer: Key;
  subject: Key | undefined;
};

/** Creates the operation that signs delegations within the policy. */
export function createDelegationSigning(parts: SigningParts & { policy: DelegationPolicy }): SignDelegation {
  return async (caller, keyId, { tenant, certificate, approval }) => {
    const detail = {
      cert_id: certificate.cert_id,
      subject_id: certificate.subject_id,
      request_id: approval.request_id,
      approved_by: approval.approved_by,
    };
    const call = { caller, keyId, tenant, purpose: "account_root", statement: "delegation", detail } as const;
    const signed = await signStatement(parts, call, async (issuer, now, reading) => {
      const fields = { ...certificate, issuer_pub_key: issuer.publicKey };
      const subject = await reading.find(certificate.subject_id);
      const input = { policy: parts.policy, fields, approval, issuer, subject };
      return (
        RULES.map((rule) => rule(input, now)).find((violated) => violated !== undefined) ??
        delegationSignBytes(fields)
      );
    });
    if (isRefusal(signed)) return signed;
    return { ...certificate, issuer_pub_key: signed.key.publicKey, signature: signed.signature };
  };
}

type Rule = (input: DelegationInput, now: number) => Refusal | undefined;

const violation = (message: string): Refusal => refuse("policy_violation", message);

const RULES: readonly Rule[] = [
  function isIssuedByThisKey({ fields, issuer }) {
    return fields.issuer_id === issuer.keyId ? undefined : violation("The issuer is another key");
  },
  function isWellFormed({ fields }) {
    const error = checkIssuable(fields);
    return error && refuse("invalid_request", `certificate: ${error.message}`);
  },
  function hasKnownSubject({ subject, approval, issuer, policy }) {
    if (subject?.tenant === issuer.tenant) return undefined;
    if (approval.external_subject !== true) return violation("The subject is not a key of this tenant");
    if (!policy.externalSubjects) {
      return violation("This vault delegates to its own keys only: see KEYVAULT_EXTERNAL_SUBJECTS");
    }
    return subject && violation("The subject is another tenant's key");
  },
  function hasAgentSubject({ subject, fields }) {
    if (subject === undefined) return undefined;
    if (subject.purpose !== "agent") return violation("The subject is not an agent's key");
    if (subject.state !== "active") return refuse("key_disabled", "The subject's key is disabled");
    return equalPublicKeys(subject.publicKey, fields.subject_pub_key)
      ? undefined
      : violation("The subject has another public key");
  },
  function isIssuedNow({ fields }, now) {
    return clockRefusal("issued_at", fields.issued_at, now);
  },
  function isNotExpired({ fields }, now) {
    return now <= fields.expires_at ? undefined : violation("expires_at is past");
  },
  function isApproved({ fields, approval }) {
    return refuseWider(coversScopes(approval.ceiling, fields.scope), "approval's ceiling");
  },
  function isWithinPolicy({ fields, policy }) {
    return policy.ceiling && refuseWider(beyondCeiling(policy.ceiling, fields.scope), "vault's ceiling");
  },
  function isWithinIssuerCeiling({ fields, issuer }) {
    return issuer.ceiling === null
      ? undefined
      : refuseWider(beyondCeiling(issuer.ceiling, fields.scope), "issuer's ceiling");
  },
  function isWithinSubjectCeiling({ fields, subject }) {
    return subject?.ceiling
      ? refuseWider(coversScopes(subject.ceiling, fields.scope), "subject's ceiling")
      : undefined;
  },
];

function refuseWider(wider: readonly string[], name: string): Refusal | undefined {
  return wider.length === 0
    ? undefined
    : violation(`The ${name} does not grant ${wider.slice(0, 3).join(", ")}`);
}
