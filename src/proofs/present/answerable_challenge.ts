import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { isUuid } from "../../ids.ts";
import { decodeBase64 } from "../../protocol/encoding/base64.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { Operation } from "../operation.ts";
import { CHALLENGE_BYTES, type ChallengeKeys, checkIssued, isIssuedHere } from "./challenge.ts";
import { createChallenge } from "./challenge_route.ts";

/** Dependencies of `readAnswerable`. */
export type AnswerableDeps = { db: Database; keys: ChallengeKeys; clock: Clock };

type Asked = {
  challenge?: string | undefined;
  verifier_connection_id?: string | undefined;
  operation?: Operation | undefined;
};

/** A challenge that the agent may answer. `expiresAt` is unknown for a challenge of an outside verifier. */
export type AnswerableChallenge = { challenge: string; expiresAt: Date | undefined };

/** The challenge to sign. `isOutside`: its verifier is no connection of this service. */
export type Answerable = { isOutside: boolean; challengeOf(): Promise<AnswerableChallenge> };

/** Connections of one account can share a verifier name. A challenge of any of the oldest 100 is accepted. */
const MAX_NAMESAKES = 100;

/**
 * Checks that the agent may answer the call's challenge. For a call without a challenge, `challengeOf`
 * creates one for the verifier that the operation names. Throws `invalid_request` if the call has
 * neither.
 */
export async function readAnswerable(
  deps: AnswerableDeps,
  caller: ApiKeyCaller,
  { challenge, operation, verifier_connection_id: named }: Asked,
): Promise<Answerable> {
  if (challenge !== undefined) {
    const expiresAt = await checkAnswerable(deps, caller, { challenge, operation, named });
    return { isOutside: expiresAt === undefined, challengeOf: async () => ({ challenge, expiresAt }) };
  }
  if (operation === undefined) {
    throw new ApiError("invalid_request", "challenge: send one, or an operation that names the verifier");
  }
  return { isOutside: false, challengeOf: () => createNamed(deps, caller, { operation, named }) };
}

/**
 * Checks that the agent may answer a challenge, so that nobody can relay the challenge of another verifier.
 * The challenge must come from the caller's own connection, or from the verifier that the call names with
 * `verifier_connection_id` or with `verifier_id` and `workspace_id` of its operation. A challenge of another
 * service is accepted only for an operation whose `verifier_id` the connection lists in `outside_verifiers`.
 * An agent of a customer connection answers only challenges of its own connection.
 * Returns the challenge's expiry, if known. Throws the same `invalid_challenge` for every other challenge.
 */
async function checkAnswerable(
  deps: AnswerableDeps,
  { connectionId, isCustomer }: ApiKeyCaller,
  {
    challenge,
    named,
    operation,
  }: { challenge: string; named: string | undefined; operation: Operation | undefined },
): Promise<Date | undefined> {
  const bytes = decode(challenge);
  const now = deps.clock.now();
  if (isCustomer && (named ?? connectionId) !== connectionId) throw refusal();
  const known = await checkIssued(deps.keys, bytes, [named ?? connectionId], now);
  if (known !== undefined) return known.expiresAt;
  if (named !== undefined || operation === undefined || isCustomer) throw refusal();
  const verifiers = await connectionsNamed(deps.db, operation);
  const theirs = await checkIssued(deps.keys, bytes, verifiers, now);
  if (theirs !== undefined) return theirs.expiresAt;
  if (bytes.length !== CHALLENGE_BYTES || (await isIssuedHere(deps.keys, bytes, now))) throw refusal();
  if (!(await listsOutside(deps.db, connectionId, operation.verifier_id))) throw refusal();
  return undefined;
}

function refusal(): ApiError {
  return new ApiError(
    "invalid_challenge",
    "challenge: is expired or unknown, or comes from a verifier that the call does not name",
  );
}

function decode(challenge: string): Uint8Array {
  try {
    return decodeBase64(challenge);
  } catch (error) {
    if (error instanceof ProtocolError) throw refusal();
    throw error;
  }
}

type Named = { operation: Operation; named: string | undefined };

/**
 * Creates a challenge of the verifier that an operation names. The caller's own connection comes first, if it
 * has the operation's names. Throws `verifier_mismatch` if no connection of this service has these names, or
 * if `verifier_connection_id` has others. Throws `invalid_request` if `verifier_connection_id` must choose
 * one of several connections.
 */
async function createNamed(
  deps: AnswerableDeps,
  caller: ApiKeyCaller,
  asked: Named,
): Promise<AnswerableChallenge> {
  const connectionId = await connectionNamed(deps.db, caller, asked);
  const { challenge, expires_at } = await createChallenge(deps, { connectionId });
  return { challenge, expiresAt: new Date(expires_at) };
}

async function connectionNamed(
  db: Database,
  { connectionId, accountId, verifierId, isCustomer }: ApiKeyCaller,
  { named, operation }: Named,
): Promise<string> {
  const isOwn = operation.workspace_id === accountId && operation.verifier_id === verifierId;
  const isOwnName = verifierId === connectionId || !isUuid(verifierId);
  if (isOwn && isOwnName && (named ?? connectionId) === connectionId) return connectionId;
  if (isCustomer) {
    throw new ApiError(
      "verifier_mismatch",
      "operation: names another verifier than this customer connection",
    );
  }
  const [found, other] = await connectionsNamed(db, operation, named);
  if (found === undefined) {
    throw new ApiError(
      "verifier_mismatch",
      named === undefined
        ? "operation: names no verifier of this service. Send the challenge of an outside verifier"
        : "verifier_connection_id: is not the verifier that the operation names",
    );
  }
  if (other !== undefined) {
    throw new ApiError(
      "invalid_request",
      "verifier_connection_id: is required, because several connections have this name",
    );
  }
  return found;
}

/**
 * Returns the connections that an operation names, or only `id` of them. A verifier name is not unique, but a
 * connection's id names only this connection, even if another one has taken the id as its name.
 */
async function connectionsNamed(
  db: Database,
  { verifier_id, workspace_id }: Operation,
  id?: string,
): Promise<readonly string[]> {
  if (!isUuid(workspace_id) || (id !== undefined && !isUuid(id))) return [];
  const rows = await db("connections")
    .where({ account_id: workspace_id, verifier_id, ...(id !== undefined && { connection_id: id }) })
    .whereNull("removed_at")
    // Nobody but its own agents proves anything to a customer connection.
    .whereNotNull("platform_id")
    .orderBy("created_at")
    .limit(MAX_NAMESAKES)
    .select("connection_id");
  const ids = rows.map(({ connection_id }) => connection_id);
  return ids.includes(verifier_id) ? [verifier_id] : ids;
}

async function listsOutside(db: Database, connectionId: string, verifierId: string): Promise<boolean> {
  const row = await db("connections").where({ connection_id: connectionId }).first("outside_verifiers");
  return row?.outside_verifiers.includes(verifierId) ?? false;
}
