import { hash } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { DelegationRequestRow, RefusedOperation } from "../../db/tables.ts";
import { readExpiry } from "../../delegations/requested_end.ts";
import {
  createAskingRates,
  findSameRequest,
  refuseFourEyes,
} from "../../delegations/requests/agent_requests.ts";
import { requestDelegation } from "../../delegations/requests/request_delegation.ts";
import { ApiError } from "../../errors.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { expandScopes, intersectScopes } from "../../protocol/documents/scopes.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { findActiveCertificates } from "../active_certificate.ts";
import { contextOf, namedActionHash, type Operation, operationBytes } from "../operation.ts";
import { type FoundRefusal, findRefusal } from "./refusal.ts";

const MAX_PAYLOAD = 16_384;

/** Dependencies of asking. */
export type AskDeps = { db: Database; secretBox: SecretBox; clock: Clock };

/** A question of an agent. */
export type Asked = {
  agentId: string;
  evaluationId: string;
  scopes: readonly string[];
  until?: string | undefined;
  purpose: string;
  operation?: Operation | undefined;
  payload?: unknown;
};

/** Files an agent's request. */
export type Ask = (caller: ApiKeyCaller, asked: Asked) => Promise<DelegationRequestRow>;

/**
 * Creates the function that files an agent's own request for authority, about a refusal of this agent. It
 * returns the agent's pending request for the same scopes and action again. It throws `not_found` if the
 * service knows no such recent refusal of the agent, `session_context_mismatch` if the operation is not the
 * refused one, `already_delegated`, `four_eyes_required`, `rate_limited`, and what {@link requestDelegation}
 * throws.
 */
export function createAsk({ db, secretBox, clock }: AskDeps): Ask {
  const withinRates = createAskingRates(db);
  return async ({ principalAccountId: accountId, connectionId }, asked) => {
    const now = clock.now();
    const { agentId, scopes, purpose } = asked;
    const agent = await db("agents")
      .where({ agent_id: agentId, connection_id: connectionId })
      .first("agent_id");
    const refusal =
      agent && (await findRefusal({ db, secretBox }, { accountId, agentId }, asked.evaluationId, now));
    if (refusal === undefined) {
      throw new ApiError(
        "not_found",
        "denial.evaluation_id: names no refusal of this agent in the last hour",
      );
    }
    if (!scopes.includes(refusal.required_scope)) {
      throw new ApiError(
        "invalid_request",
        `requested_access.scopes: must contain the refused scope ${refusal.required_scope}`,
      );
    }
    const { action, ...kept } = refusal;
    const operation = readOperation(asked, refusal);
    const sought = { agentId, scopes, constraints: [], action, byAgent: true };
    const same = await findSameRequest(db, sought, now);
    if (same !== undefined) return same;
    if (await hasAuthority(db, asked, refusal, now)) throw new ApiError("already_delegated");
    await refuseFourEyes(db, connectionId);
    const owner = await findOwner(db, accountId);
    return withinRates({ agentId, connectionId }, () =>
      requestDelegation({ db, clock }, owner, {
        connectionId,
        agentId,
        scope: scopes,
        expiry: readExpiry({ expires_at: asked.until }),
        constraints: [],
        purpose,
        externalId: null,
        asked: { refusal: { ...kept, ...(operation && { operation }) }, action },
      }),
    );
  };
}

/**
 * Returns whether the agent can act with active certificates, so that it does not disturb a person. If a
 * limit refused the action, only a certificate for one time helps.
 */
async function hasAuthority(
  db: Database,
  { agentId, scopes }: Asked,
  { action, reason }: FoundRefusal,
  now: Date,
): Promise<boolean> {
  const isLimited = reason === "constraint_denied";
  const choice = { action: action ?? undefined, isForOneTime: isLimited };
  const held = await findActiveCertificates(db, agentId, choice, now);
  const granted = new Set(
    held.flatMap(({ approved_scope, ceiling_scope }) =>
      intersectScopes(approved_scope, ceiling_scope ?? approved_scope),
    ),
  );
  return expandScopes(scopes).every((scope) => granted.has(scope));
}

/**
 * Returns the operation that the person will read. Throws `session_context_mismatch` unless its hash is that
 * of the refused action, so that nobody approves another action than the one on the page.
 */
function readOperation(
  { operation, payload, agentId }: Asked,
  refusal: FoundRefusal,
): RefusedOperation | undefined {
  if (operation === undefined) {
    if (payload !== undefined) throw new ApiError("invalid_request", "context.payload: needs an operation");
    return undefined;
  }
  if (operation.agent_id !== agentId || refusal.action === null) throw differs();
  contextOf(operation, refusal.required_scope);
  if (!refusal.action.equals(namedActionHash(operation))) throw differs();
  const { action, resource_id, requested_path, payload_digest: digest = "" } = operation;
  const named = { action, resource_id, requested_path, with_payload: digest !== "" };
  return payload === undefined ? named : { ...named, payload: readPayload(payload, digest) };
}

function differs(what = "context.operation"): ApiError {
  return new ApiError("session_context_mismatch", `${what}: is not the refused action's`);
}

/** Returns the payload as canonical JSON. */
function readPayload(payload: unknown, digest: string): string {
  const text = canonical(payload);
  const isSame = digest !== "" && hash("sha256", text, "buffer").equals(operationBytes(digest));
  if (!isSame) throw differs("context.payload");
  if (Buffer.byteLength(text) > MAX_PAYLOAD) {
    throw new ApiError("invalid_request", `context.payload: larger than ${MAX_PAYLOAD} bytes; leave it out`);
  }
  return text;
}

function canonical(payload: unknown): string {
  try {
    return canonicalJson(payload);
  } catch (error) {
    if (error instanceof ProtocolError) throw differs("context.payload");
    throw error;
  }
}
