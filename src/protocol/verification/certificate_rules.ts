import { invalidScopes } from "../documents/scopes.ts";
import { PROTOCOL_VERSION } from "../encoding/constants.ts";
import { equalPublicKeys, isIdOf } from "../keys/hybrid.ts";
import { type CertificateRule, violation } from "./rules.ts";

/** The scope that a certificate must list by name so that its subject may issue (wire format §8 step 6). */
export const DELEGATE_SCOPE = "identity:delegate";

/** The certificate has the supported protocol version. */
export const VERSION_RULE: CertificateRule = {
  name: "version",
  kind: "evidence",
  check: (_, { certificate: { version }, index }) =>
    version === PROTOCOL_VERSION
      ? undefined
      : violation("version_mismatch", `cert ${index} has version ${version}`, index),
};

/** Every scope of the certificate is in the vocabulary. */
export const VOCABULARY_RULE: CertificateRule = {
  name: "vocabulary",
  kind: "evidence",
  check: (_, { certificate: { scope }, index }) => {
    const [invalid] = invalidScopes(scope);
    return invalid === undefined
      ? undefined
      : violation("invalid_scope", `cert ${index}: unknown scope ${JSON.stringify(invalid)}`, index);
  },
};

/** The certificate has not expired. It is still valid in its last second. */
export const NOT_EXPIRED_RULE: CertificateRule = {
  name: "not_expired",
  kind: "permission",
  check: ({ options: { now } }, { certificate: { expires_at }, index }) =>
    now <= expires_at ? undefined : violation("expired", "delegation certificate has expired", index),
};

/** The certificate is already valid. It is valid from its first second on. */
export const ALREADY_VALID_RULE: CertificateRule = {
  name: "already_valid",
  kind: "permission",
  check: ({ options: { now } }, { certificate: { issued_at }, index }) =>
    now >= issued_at ? undefined : violation("not_yet_valid", `cert ${index} is not yet valid`, index),
};

/** The certificate is not revoked. A failed revocation lookup also violates this rule. */
export const NOT_REVOKED_RULE: CertificateRule = { name: "not_revoked", kind: "permission" };

/** The issuer's key signed the certificate. */
export const SIGNATURE_RULE: CertificateRule = { name: "signature", kind: "evidence" };

/** All constraints of the certificate hold. */
export const CONSTRAINTS_RULE: CertificateRule = { name: "constraints", kind: "permission" };

/**
 * The issuer's id and key equal the subject's id and key in the next certificate towards the root. The root
 * certificate's issuer id must be derived from its key.
 */
export const LINK_RULE: CertificateRule = {
  name: "link",
  kind: "evidence",
  check: (_, { certificate, parent, index }) => {
    if (parent === undefined) {
      return isIdOf(certificate.issuer_id, certificate.issuer_pub_key)
        ? undefined
        : violation("broken_chain", `cert ${index} has an issuer id that is not its key's`, index);
    }
    if (certificate.issuer_id !== parent.subject_id) {
      return violation(
        "broken_chain",
        `cert ${index} was not issued by the subject of cert ${index + 1}`,
        index,
      );
    }
    return equalPublicKeys(certificate.issuer_pub_key, parent.subject_pub_key)
      ? undefined
      : violation(
          "broken_chain_keys",
          `cert ${index} has another issuer key than cert ${index + 1} has a subject key`,
          index,
        );
  },
};

/** The next certificate towards the root lists {@link DELEGATE_SCOPE}, so its subject may delegate. */
export const DELEGATION_RIGHT_RULE: CertificateRule = {
  name: "delegation_right",
  kind: "permission",
  check: (_, { parent, index }) =>
    parent === undefined || parent.scope.includes(DELEGATE_SCOPE)
      ? undefined
      : violation(
          "delegation_not_authorized",
          `cert ${index + 1} does not grant ${DELEGATE_SCOPE}`,
          index + 1,
        ),
};
