import { hash } from "node:crypto";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import { NO_CONTROLS } from "../input/schemas.ts";
import { HIDDEN_DOT_SEGMENT, hidesDotSegment } from "../protocol/constraints/resource_path.ts";
import { requestHash, sessionContext } from "../protocol/documents/context_binding.ts";
import { canonicalJson } from "../protocol/encoding/canonical.ts";
import { BINDING_BYTES } from "../protocol/encoding/constants.ts";
import type { ApiKeyCaller } from "../route.ts";

const text = (max: number) =>
  z
    .string()
    .max(max)
    .regex(NO_CONTROLS, "must not contain control characters")
    .refine((value) => value.isWellFormed(), "must be well-formed text");
const name = (max: number) => text(max).min(1);

const digest = z
  .string()
  .regex(/^((sha256:)?[0-9a-f]{64}|[A-Za-z0-9+/]{43}=)$/, "must be sha256:<hex>, hex, or base64 of 32 bytes")
  .describe("SHA-256 as sha256:<hex>; plain hex and base64 are understood too");
const payloadDigest = z
  .string()
  .regex(
    /^((sha256:)?[0-9a-f]{64}|[A-Za-z0-9+/]{43}=)?$/,
    "must be sha256:<hex>, hex, base64 of 32 bytes, or empty",
  )
  .describe("SHA-256 of the payload, as request_hash is written; empty or left out: there is no payload");
const actionProfile = z
  .string()
  .regex(/^[\x21-\x7e]{0,128}$/, "must be visible ASCII, at most 128 characters")
  .describe(
    "What kind of action it is, in the application's words: kept on the receipt, no part of the binding",
  );

/** The application's own id for one action. It must fit into one path segment. */
export const invocationIdText = name(256).refine((id) => id !== "." && id !== "..", "must not be . or ..");

/** The one action that a proof is bound to (wire format §4, context binding). */
export const operationSchema = z.object({
  verifier_id: name(512).describe("The verifying connection's registered name; its id unless one was set"),
  workspace_id: name(512).describe("The account of the verifying connection"),
  agent_id: name(512),
  action: name(256).describe("What is done, in the application's words"),
  resource_id: text(512),
  requested_path: text(4096),
  session_id: text(512),
  invocation_id: invocationIdText.describe("The application's own id of this one action; decided once"),
  request_hash: digest.describe("Over required_scope, action, resource_id, requested_path, payload_digest"),
  payload_digest: payloadDigest.optional(),
  action_profile: actionProfile.optional(),
});

/** An operation, as callers send it. */
export type Operation = z.infer<typeof operationSchema>;

/**
 * Returns the 32 bytes that the proof's `session_context` must contain. If the scope is known, recomputes the
 * request hash. Throws `session_context_mismatch` if the operation contains a different hash.
 */
export function contextOf(operation: Operation, requiredScope: string | undefined): Uint8Array {
  const request = operationBytes(operation.request_hash);
  if (requiredScope !== undefined && !request.equals(rebuiltHash(operation, requiredScope))) {
    throw new ApiError("session_context_mismatch", "operation.request_hash: belongs to another operation");
  }
  const { verifier_id, workspace_id, agent_id, session_id, invocation_id } = operation;
  return sessionContext({
    verifier_id,
    workspace_id,
    agent_id,
    session_id,
    invocation_id,
    request_hash: request,
  });
}

function rebuiltHash(operation: Operation, requiredScope: string): Uint8Array {
  const { action, resource_id, requested_path, payload_digest } = operation;
  return requestHash({
    required_scope: requiredScope,
    operation: action,
    resource_id,
    requested_path,
    payload_digest: payload_digest ? operationBytes(payload_digest) : undefined,
  });
}

/** Returns the operation's request hash in the recorded form: `sha256:<hex>`. */
export function writtenRequestHash({ request_hash }: Operation): string {
  return `sha256:${operationBytes(request_hash).toString("hex")}`;
}

/** The members that name an action and its verifier. */
export type NamedAction = Pick<Operation, "verifier_id" | "workspace_id" | "request_hash">;

/** Returns the SHA-256 of an action with its verifier. An approval for one time is bound to this hash. */
export function namedActionHash({ verifier_id, workspace_id, request_hash }: NamedAction): Buffer {
  const named = { verifier_id, workspace_id, request_hash: operationBytes(request_hash).toString("hex") };
  return hash("sha256", canonicalJson(named), "buffer");
}

/** Throws `verifier_mismatch` unless the operation is meant for this caller. */
export function checkVerifier(operation: Operation, caller: ApiKeyCaller): void {
  if (operation.verifier_id !== caller.verifierId) {
    throw new ApiError("verifier_mismatch", "operation.verifier_id: names another verifier");
  }
  if (operation.workspace_id !== caller.accountId) {
    throw new ApiError("verifier_mismatch", "operation.workspace_id: names another account");
  }
}

/** The facts of a call that its operation determines. An empty text of the operation is an absent fact. */
export type Place = { resource_id?: string | undefined; path?: string | undefined };

/**
 * Returns the resource and the path with which constraints are compared: those of the operation, without the
 * path's query. Throws `invalid_request` if `given`, the call's context, contains other values, or if the
 * path hides a dot segment. `prefix` starts the names in the message.
 */
export function placeOf(operation: Operation, given: Place = {}, prefix = ""): Place {
  const { resource_id, requested_path } = operation;
  const [path = ""] = requested_path.split("?", 1);
  if (hidesDotSegment(path)) {
    throw new ApiError("invalid_request", `${prefix}operation.requested_path: ${HIDDEN_DOT_SEGMENT}`);
  }
  const differs = (value: string | undefined, ...own: string[]) =>
    value !== undefined && !own.includes(value);
  if (differs(given.resource_id, resource_id)) throw different(prefix, "resource_id", "resource_id");
  if (differs(given.path, path, requested_path)) throw different(prefix, "path", "requested_path");
  return { resource_id: resource_id || undefined, path: path || undefined };
}

function different(prefix: string, fact: string, member: string): ApiError {
  const [where, operation] = [
    `${prefix === "" ? "context." : prefix}${fact}`,
    `${prefix}operation.${member}`,
  ];
  return new ApiError("invalid_request", `${where}: differs from ${operation}; leave it out`);
}

/**
 * Returns the SHA-256 of an operation with its scope and context. Two calls with one invocation id are the
 * same operation if this hash is equal. The hash does not cover `action_profile`, the application's own name
 * for the kind of action, nor the context's resource and path, which the operation determines.
 */
export function operationHash(asked: {
  operation: Operation;
  requiredScope: string;
  context: Readonly<Record<string, string | number | undefined>> | undefined;
}): Buffer {
  const { operation, requiredScope } = asked;
  const { resource_id: _resource, path: _path, ...context } = asked.context ?? {};
  const { request_hash, payload_digest, action_profile: _, ...named } = operation;
  // Convert numbers to strings, because integers beyond 2^53 have no canonical form.
  const facts = Object.entries(context).map(([key, value]) => [key, String(value)]);
  const subject = {
    ...named,
    request_hash: operationBytes(request_hash).toString("hex"),
    payload_digest: payload_digest ? operationBytes(payload_digest).toString("hex") : undefined,
    required_scope: requiredScope,
    context: Object.fromEntries(facts),
  };
  return hash("sha256", canonicalJson(subject), "buffer");
}

const BASE64_LENGTH = 44;

/** Returns the 32 bytes of a hash in any of its written forms. */
export function operationBytes(written: string): Buffer {
  if (written.length === BASE64_LENGTH) return Buffer.from(written, "base64");
  return Buffer.from(written.slice(-2 * BINDING_BYTES), "hex");
}
