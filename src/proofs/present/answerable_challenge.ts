import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { isUuid } from "../../ids.ts";
import { decodeBase64 } from "../../protocol/encoding/base64.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { Operation } from "../operation.ts";
import { CHALLENGE_BYTES, type ChallengeKeys, checkIssued, isIssuedHere } from "./challenge.ts";

/** Dependencies of `readAnswerable`. */
export type AnswerableDeps = { db: Database; keys: ChallengeKeys; clock: Clock };

type Asked = {
  challenge: string;
  verifier_connection_id?: string | undefined;
  operation?: Operation | undefined;
};

/** A challenge that the agent may answer. `expiresAt` is unknown for a challenge of an outside verifier. */
export type AnswerableChallenge = { expiresAt: Date | undefined };

/** Connections of one account can share a verifier name. A challenge of any of the oldest 100 is accepted. */
const MAX_NAMESAKES = 100;

/**
 * Checks that the agent may answer a challenge, so that nobody can relay the challenge of another verifier.
 * The challenge must come from the caller's own connection, or from the verifier that the call names with
 * `verifier_connection_id` or with `verifier_id` and `workspace_id` of its operation. A challenge of another
 * service is accepted only for an operation whose `verifier_id` the connection lists in `outside_verifiers`.
 * Throws the same `invalid_challenge` for every other challenge.
 */
export async function readAnswerable(
  deps: AnswerableDeps,
  { connectionId }: Pick<ApiKeyCaller, "connectionId">,
  { challenge, verifier_connection_id: named, operation }: Asked,
): Promise<AnswerableChallenge> {
  const bytes = decode(challenge);
  const now = deps.clock.now();
  const known = await checkIssued(deps.keys, bytes, [named ?? connectionId], now);
  if (known !== undefined) return known;
  if (named !== undefined || operation === undefined) throw refusal();
  const verifiers = await connectionsNamed(deps.db, operation);
  const theirs = await checkIssued(deps.keys, bytes, verifiers, now);
  if (theirs !== undefined) return theirs;
  if (bytes.length !== CHALLENGE_BYTES || (await isIssuedHere(deps.keys, bytes, now))) throw refusal();
  if (!(await listsOutside(deps.db, connectionId, operation.verifier_id))) throw refusal();
  return { expiresAt: undefined };
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

/** Returns the connections that an operation names. A verifier name alone is not unique. */
async function connectionsNamed(
  db: Database,
  { verifier_id, workspace_id }: Operation,
): Promise<readonly string[]> {
  if (!isUuid(workspace_id)) return [];
  const rows = await db("connections")
    .where({ account_id: workspace_id, verifier_id })
    .whereNull("removed_at")
    .orderBy("created_at")
    .limit(MAX_NAMESAKES)
    .select("connection_id");
  return rows.map(({ connection_id }) => connection_id);
}

async function listsOutside(db: Database, connectionId: string, verifierId: string): Promise<boolean> {
  const row = await db("connections").where({ connection_id: connectionId }).first("outside_verifiers");
  return row?.outside_verifiers.includes(verifierId) ?? false;
}
