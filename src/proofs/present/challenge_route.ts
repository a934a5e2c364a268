import { z } from "zod";
import { type Clock, unixSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { isUuid } from "../../ids.ts";
import { idText } from "../../input/schemas.ts";
import { encodeBase64 } from "../../protocol/encoding/base64.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";
import { type ApiKeyCaller, type Route, route } from "../../route.ts";
import { type ChallengeKeys, challengeDay, issueChallenge, readChallenge } from "./challenge.ts";

const answer = z.object({
  challenge: z.string().describe("32 bytes in base64, single use"),
  expires_at: z.iso.datetime(),
  expires_at_unix: z
    .int()
    .describe("The same moment in Unix seconds, under the name that the protocol's libraries use"),
  ttl_seconds: z.literal(CHALLENGE_WINDOW_SECONDS),
});

const query = z.object({
  verifier_connection_id: idText
    .optional()
    .describe("Who may verify with it; default: the key's own connection"),
});

/** Dependencies of `createChallenge`. */
export type ChallengeDeps = { keys: ChallengeKeys; clock: Clock };

/** Creates a single-use challenge for the caller's connection. Stores nothing. */
export async function createChallenge(
  { keys, clock }: ChallengeDeps,
  { connectionId }: Pick<ApiKeyCaller, "connectionId">,
): Promise<z.infer<typeof answer>> {
  const now = clock.now();
  const challenge = issueChallenge(await keys.forIssuing(challengeDay(now), now), connectionId, now);
  const expiresAt = readChallenge(challenge)?.expiresAt ?? now;
  return {
    challenge: encodeBase64(challenge),
    expires_at: expiresAt.toISOString(),
    expires_at_unix: unixSeconds(expiresAt),
    ttl_seconds: CHALLENGE_WINDOW_SECONDS,
  };
}

/** `POST /v1/service/challenge`: creates a single-use challenge. */
export function challengeRoute(deps: ChallengeDeps & { db: Database }): Route {
  return route({
    id: "create_challenge",
    method: "POST",
    path: "/v1/service/challenge",
    summary: "Get a single-use challenge",
    access: "api_key",
    keyRoles: ["agent", "verify"],
    query,
    answer: {
      status: 200,
      schema: answer,
      description:
        "A challenge that only this connection can verify with. The guard of an application also adds one to its refusal if the request has `X-Service-Challenge: wanted`",
    },
    errors: ["not_found"],
    async handle({ caller, query }) {
      return { body: await createChallenge(deps, await verifierOf(deps.db, caller, query)) };
    },
  });
}

/** Returns the connection that the call names. Throws `invalid_request` if an agent key names none. */
async function verifierOf(
  db: Database,
  caller: ApiKeyCaller,
  { verifier_connection_id: named }: z.infer<typeof query>,
): Promise<Pick<ApiKeyCaller, "connectionId">> {
  if (named === undefined) {
    if (caller.role !== "agent") return caller;
    throw new ApiError(
      "invalid_request",
      "query.verifier_connection_id: an agent key must name the verifier",
    );
  }
  if (named === caller.connectionId) return caller;
  // A customer connection and its agents prove nothing to other connections, and none of these to it.
  if (!isUuid(named) || caller.isCustomer) throw new ApiError("not_found");
  const found = await db("connections")
    .where({ connection_id: named })
    .whereNull("removed_at")
    .whereNotNull("platform_id")
    .first();
  if (found === undefined) throw new ApiError("not_found");
  return { connectionId: named };
}
