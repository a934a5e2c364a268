import { createHash } from "node:crypto";
import { BINDING_BYTES } from "../encoding/constants.ts";
import { ProtocolError } from "../encoding/errors.ts";

const OPERATION_TAG = "ratify/operation-context/v1";
const SESSION_TAG = "ratify/session-context/v1";

/** The operation that a proof is bound to. An absent field counts as empty (wire format §4). */
export type OperationContext = {
  required_scope?: string | undefined;
  operation?: string | undefined;
  resource_id?: string | undefined;
  requested_path?: string | undefined;
  /** 32 bytes, or empty. */
  payload_digest?: Uint8Array | undefined;
};

/** The session that a proof is bound to. An absent field counts as empty (wire format §4). */
export type SessionContext = {
  verifier_id?: string | undefined;
  workspace_id?: string | undefined;
  agent_id?: string | undefined;
  session_id?: string | undefined;
  invocation_id?: string | undefined;
  /** The 32 bytes of {@link requestHash}, or empty. */
  request_hash?: Uint8Array | undefined;
};

/**
 * Returns the SHA-256 hash of the operation's fields, each preceded by its length (wire format §4). Throws
 * `ProtocolError` `invalid_utf8` for a lone surrogate, and `wrong_length` for a digest that is not 32 bytes.
 */
export function requestHash(context: OperationContext): Uint8Array {
  const { required_scope, operation, resource_id, requested_path, payload_digest } = context;
  return taggedHash(OPERATION_TAG, [
    required_scope,
    operation,
    resource_id,
    requested_path,
    digestOrEmpty(payload_digest),
  ]);
}

/**
 * Returns the SHA-256 hash of the session's fields, each preceded by its length. This is a bundle's
 * `session_context`. Throws the same errors as {@link requestHash}.
 */
export function sessionContext(context: SessionContext): Uint8Array {
  const { verifier_id, workspace_id, agent_id, session_id, invocation_id, request_hash } = context;
  return taggedHash(SESSION_TAG, [
    verifier_id,
    workspace_id,
    agent_id,
    session_id,
    invocation_id,
    digestOrEmpty(request_hash),
  ]);
}

function taggedHash(tag: string, fields: readonly (string | Uint8Array | undefined)[]): Uint8Array {
  const hash = createHash("sha256").update(tag, "utf8");
  for (const field of fields) {
    const bytes = typeof field === "string" ? encodeText(field) : (field ?? new Uint8Array());
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(bytes.length));
    hash.update(length).update(bytes);
  }
  return hash.digest();
}

function encodeText(text: string): Uint8Array {
  if (!text.isWellFormed()) throw new ProtocolError("invalid_utf8", "text with a lone surrogate");
  return Buffer.from(text, "utf8");
}

function digestOrEmpty(digest: Uint8Array | undefined): Uint8Array {
  const bytes = digest ?? new Uint8Array();
  if (bytes.length !== 0 && bytes.length !== BINDING_BYTES) {
    throw new ProtocolError("wrong_length", `a digest must be ${BINDING_BYTES} bytes, not ${bytes.length}`);
  }
  return bytes;
}
