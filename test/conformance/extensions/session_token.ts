import { createHmac, hash, timingSafeEqual } from "node:crypto";
import { type DelegationFields, delegationSignBytes } from "../../../src/protocol/documents/certificate.ts";
import { decodeBase64, encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { canonicalBytes, compareUtf8 } from "../../../src/protocol/encoding/canonical.ts";
import {
  BINDING_BYTES,
  MAX_SCOPE_LENGTH_BYTES,
  PROTOCOL_VERSION,
} from "../../../src/protocol/encoding/constants.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import {
  base64,
  type Decoder,
  identifier,
  integer,
  list,
  object,
  text,
  timestamp,
} from "../../../src/protocol/encoding/fields.ts";
import { parseJson } from "../../../src/protocol/encoding/json.ts";
import { type HybridPublicKey, publicKey } from "../../../src/protocol/keys/hybrid.ts";

/** A verifier's own record that it verified a chain, for later turns of a session (wire format §4). */
export type SessionToken = {
  version: number;
  session_id: string;
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  human_id: string;
  /** Sorted by code point. */
  granted_scope: string[];
  /** The first valid second, in Unix seconds. */
  issued_at: number;
  /** The last valid second, in Unix seconds. */
  valid_until: number;
  /** Base64 of the SHA-256 of the chain's concatenated signed bytes. */
  chain_hash: string;
  /** Base64 of the HMAC-SHA256 under the verifier's secret. */
  mac: string;
};

export type SessionTokenFields = Omit<SessionToken, "mac">;

export const MIN_SESSION_SECRET_BYTES = 32;

const decodeFields: Decoder<SessionToken> = object({
  version: integer(),
  session_id: identifier,
  agent_id: identifier,
  agent_pub_key: publicKey,
  human_id: identifier,
  granted_scope: list(text(MAX_SCOPE_LENGTH_BYTES)),
  issued_at: timestamp,
  valid_until: timestamp,
  chain_hash: base64(BINDING_BYTES),
  mac: base64(BINDING_BYTES),
});

/** Parses and decodes an untrusted token strictly (wire format §5). Throws `ProtocolError`. */
export function decodeSessionToken(bytes: Uint8Array): SessionToken {
  return decodeFields(parseJson(bytes));
}

/** Returns the bytes that the MAC covers: canonical JSON of all fields except `mac`. */
export function sessionTokenSignBytes(fields: SessionTokenFields): Uint8Array {
  return canonicalBytes({
    agent_id: fields.agent_id,
    agent_pub_key: fields.agent_pub_key,
    chain_hash: fields.chain_hash,
    granted_scope: fields.granted_scope,
    human_id: fields.human_id,
    issued_at: fields.issued_at,
    session_id: fields.session_id,
    valid_until: fields.valid_until,
    version: fields.version,
  });
}

/** Returns the HMAC-SHA256 of a token under the verifier's secret, 32 bytes. */
export function sessionTokenMac(fields: SessionTokenFields, secret: Uint8Array): Uint8Array {
  return createHmac("sha256", secret).update(sessionTokenSignBytes(fields)).digest();
}

/** The content of a new token: the verified parties, their chain, and the validity period. */
export type SessionGrant = {
  session_id: string;
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  /** The verified chain, leaf first. Its root issuer is the human. */
  chain: readonly DelegationFields[];
  granted_scope: readonly string[];
  issued_at: number;
  valid_until: number;
};

/**
 * Issues a token for a chain that was just verified. Only a verifier with the same secret can check it.
 * Throws `ProtocolError` `empty_chain`, `invalid_validity` for a period that does not fit the chain, or
 * `wrong_length` for a secret under 32 bytes.
 */
export function issueSessionToken(grant: SessionGrant, secret: Uint8Array): SessionToken {
  const { session_id, agent_id, agent_pub_key, chain, issued_at, valid_until } = grant;
  const root = chain.at(-1);
  if (root === undefined) throw new ProtocolError("empty_chain", "no certificate");
  if (valid_until < issued_at || chain.some(({ expires_at }) => valid_until > expires_at)) {
    throw new ProtocolError(
      "invalid_validity",
      "valid_until must lie between issued_at and every expires_at",
    );
  }
  if (secret.length < MIN_SESSION_SECRET_BYTES) {
    throw new ProtocolError(
      "wrong_length",
      `a session secret has at least ${MIN_SESSION_SECRET_BYTES} bytes`,
    );
  }
  const fields: SessionTokenFields = {
    version: PROTOCOL_VERSION,
    session_id,
    agent_id,
    agent_pub_key,
    human_id: root.issuer_id,
    granted_scope: [...grant.granted_scope].sort(compareUtf8),
    issued_at,
    valid_until,
    chain_hash: encodeBase64(chainHash(chain)),
  };
  return { ...fields, mac: encodeBase64(sessionTokenMac(fields, secret)) };
}

/**
 * Returns why a token is not valid at `now` (Unix seconds), or `undefined` if it is valid. The MAC is checked
 * first and in constant time.
 */
export function sessionTokenViolation(
  token: SessionToken,
  secret: Uint8Array,
  now: number,
): string | undefined {
  if (!hasMac(token, secret)) return "session_token MAC invalid";
  if (token.version !== PROTOCOL_VERSION) return "session_token version unknown";
  if (!(now <= token.valid_until)) return "session_token expired";
  return now >= token.issued_at ? undefined : "session_token not yet valid";
}

function hasMac(token: SessionToken, secret: Uint8Array): boolean {
  try {
    return timingSafeEqual(decodeBase64(token.mac, BINDING_BYTES), sessionTokenMac(token, secret));
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

/** Returns the 32-byte SHA-256 of the chain's concatenated signed bytes, leaf first (wire format §4). */
export function chainHash(chain: readonly DelegationFields[]): Uint8Array {
  return hash("sha256", Buffer.concat(chain.map(delegationSignBytes)), "buffer");
}
