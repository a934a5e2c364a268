import { z } from "zod";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { endFormerKeys, type RetireDeps } from "../api_keys/rotate_key.ts";
import { platformAnswer, showDeclaredBy } from "../platform_answers.ts";
import { findConnection } from "../platform_record.ts";

const SHOWN_SECONDS = 7 * 24 * 3600;
const MAX_KEYS = 100;

const path = "/v1/service/connections/{connection_id}";
const params = z.object({ connection_id: idText });

const answer = platformAnswer
  .pick({
    connection_id: true,
    verifier_id: true,
    registry_answers: true,
    callback_url: true,
    callback_state: true,
    declared_by: true,
    created_at: true,
  })
  .extend({
    outside_verifiers: z.array(z.string()),
    platform: z.object({ platform_id: z.string(), name: z.string() }),
    api_keys: z
      .array(
        z.object({
          api_key_prefix: z.string(),
          created_at: isoTime,
          valid_until: isoTime
            .nullable()
            .describe("When the key stops being valid; null for the current one"),
        }),
      )
      .describe(
        "The current key, then the others, newest first: valid ones, and those that ended within the last 7 days",
      ),
  });
/** A connection, as the API returns it. */
export type ConnectionAnswer = z.infer<typeof answer>;

/** `GET /v1/service/connections/{connection_id}`: a connection, with each API key's prefix and expiry. */
export function getConnectionRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "get_connection",
    method: "GET",
    path,
    summary: "Read a connection, and until when its API keys are valid",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: answer, description: "The connection, without secrets" },
    errors: ["not_found"],
    async handle({ caller, params: { connection_id } }) {
      const record = await findConnection(db, caller.accountId, connection_id);
      const shownSince = addSeconds(clock.now(), -SHOWN_SECONDS);
      const keys = await db("api_keys")
        .where({ connection_id })
        .andWhere((key) => key.whereNull("retires_at").orWhere("retires_at", ">", shownSince))
        .orderByRaw("retires_at is not null, created_at desc, key_prefix")
        .limit(MAX_KEYS)
        .select("key_prefix", "created_at", "retires_at");
      return {
        body: {
          connection_id,
          platform: { platform_id: record.platform_id, name: record.name },
          verifier_id: record.verifier_id,
          registry_answers: record.registry_answers,
          outside_verifiers: record.outside_verifiers,
          callback_url: record.callback_url,
          callback_state: record.callback_state,
          created_at: record.created_at.toISOString(),
          declared_by: showDeclaredBy(record),
          api_keys: keys.map((key) => ({
            api_key_prefix: key.key_prefix,
            created_at: key.created_at.toISOString(),
            valid_until: key.retires_at?.toISOString() ?? null,
          })),
        },
      };
    },
  });
}

/** `POST /v1/service/connections/{connection_id}/end-former-keys`: ends the replaced API keys immediately. */
export function endFormerKeysRoute(deps: Omit<RetireDeps, "secretBox">): Route {
  return route({
    id: "end_former_api_keys",
    method: "POST",
    path: `${path}/end-former-keys`,
    summary: "End a connection's replaced API keys before their grace is over",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: z.object({ connection_id: z.string(), ended: z.array(z.string()) }),
      description: "Prefixes of the keys that were valid until now; the current one remains",
    },
    errors: ["not_found"],
    async handle({ caller, params: { connection_id } }) {
      const ended = await endFormerKeys(deps, caller.accountId, connection_id);
      return { body: { connection_id, ended: ended.sort() } };
    },
  });
}
