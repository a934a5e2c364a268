import { z } from "zod";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import { type KeyRole, narrowRoles, principalOf, type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { keyConnection, ownConnection } from "../platform_record.ts";
import { isKeyPrefix } from "./api_key.ts";
import type { ApiKeyFinder } from "./api_key_finder.ts";
import { createNarrowKey, endNarrowKey, KEPT_SECONDS, requireAgent } from "./narrow_keys.ts";

/** Dependencies of the routes of API keys. */
export type KeyDeps = {
  db: Database;
  secretBox: SecretBox;
  clock: Clock;
  apiKeys: Pick<ApiKeyFinder, "forget">;
  actionLimits: ActionLimits;
};

const path = "/v1/service/connections/{connection_id}/keys";
const params = z.object({ connection_id: idText });
const role = z.enum(["full", ...narrowRoles]);
const agentId = z.string().nullable();

const keyAnswer = z.object({
  api_key_prefix: z.string(),
  role,
  agent_id: agentId,
  made_with: z.string().nullable().describe("Prefix of the key that created it, or operator; null: a person"),
  created_at: isoTime,
  last_used_at: isoTime.nullable().describe("To within six minutes"),
  valid_until: isoTime.nullable(),
});

/** An API key in a list, without its secret. */
export type KeyAnswer = z.infer<typeof keyAnswer>;

const created = z.object({ api_key: z.string().describe("Shown once"), api_key_prefix: idText });

/** A new API key. */
export type CreatedKey = z.infer<typeof created>;

/** `POST …/connections/{connection_id}/keys`: creates an API key for one agent or for verifying. */
function createKeyRoute(deps: KeyDeps): Route {
  const { db, actionLimits } = deps;
  return route({
    id: "create_api_key",
    method: "POST",
    path,
    summary: "Create an agent key or a verify key",
    access: "account",
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    params,
    body: z.object({
      role: z.enum(narrowRoles),
      agent_id: idText.optional().describe("The agent of an agent key"),
    }),
    activityDetails: ({ role, agent_id }) => ({ role, ...(agent_id !== undefined && { agent_id }) }),
    answer: { status: 201, schema: created, description: "The new key" },
    errors: ["not_found", "agent_disabled", "key_limit", "action_limited"],
    async handle({ caller, params, body }) {
      const { role, agent_id = null } = body;
      if ((role === "agent") !== (agent_id !== null)) {
        throw new ApiError("invalid_request", "body.agent_id: an agent key needs one, other keys have none");
      }
      const connectionId = await ownConnection(db, caller, params.connection_id);
      if (agent_id !== null) await requireAgent(db, connectionId, agent_id);
      const { accountId, person, keyPrefix = null } = caller;
      const principalAccountId = principalOf(caller);
      const owners = { accountId, principalAccountId, connectionId };
      const key = { ...owners, role, agentId: agent_id, madeWith: keyPrefix };
      const maker = [connectionId, person?.accountId ?? "application"];
      const row = await actionLimits.within("create_key", maker, () => createNarrowKey(deps, key));
      return {
        body: { api_key: row.apiKey, api_key_prefix: row.key_prefix },
        activityDetails: { api_key_prefix: row.key_prefix },
      };
    },
  });
}

type ListedRow = {
  key_prefix: string;
  role: KeyRole;
  agent_id: string | null;
  made_with: string | null;
  created_at: Date;
  used_at: Date | null;
  ends_at: Date | null;
};

/**
 * Sorts keys without an end first, newest first, and then the others by their end, latest first. The order
 * does not depend on the time of the call. A key that ends between two calls only moves to a later page.
 */
const validFirst = (db: Database): PageOrder => ({
  time: db.raw("coalesce(k.ends_at, k.created_at + interval '8760000 hours')"),
  id: "k.key_prefix",
  isId: isKeyPrefix,
});

/** `GET …/connections/{connection_id}/keys`: lists a connection's API keys with their last use. */
function listKeysRoute({ db, clock }: KeyDeps): Route {
  return route({
    id: "list_api_keys",
    method: "GET",
    path,
    summary: "List a connection's API keys",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params,
    query: pageQuery,
    answer: { status: 200, schema: pageOf(keyAnswer), description: "A page of keys, valid ones first" },
    errors: ["not_found"],
    async handle({ caller, params, query }) {
      const { connection_id } = await keyConnection(db, caller, params.connection_id);
      const full = db("api_keys")
        .where({ connection_id })
        .select("key_prefix", "created_at", "retires_at as ends_at")
        .select(db.raw("'full' as role, null as agent_id, null as made_with"));
      const narrow = db("narrow_keys")
        .where({ connection_id })
        .select("key_prefix", "created_at", db.raw("least(ended_at, retires_at) as ends_at"))
        .select("role", "agent_id", "made_with");
      const since = addSeconds(clock.now(), -KEPT_SECONDS);
      const found = db
        .where((key) => key.whereNull("k.ends_at").orWhere("k.ends_at", ">", since))
        .from(db.raw("(? union all ?) as k", [full, narrow]))
        .leftJoin("key_uses as u", "u.key_prefix", "k.key_prefix")
        .select("k.*", "u.used_at");
      const { rows, next_cursor } = await readPage<ListedRow>(found, validFirst(db), query);
      return { body: { items: rows.map(showKey), next_cursor } };
    },
  });
}

function showKey({
  key_prefix,
  role,
  agent_id,
  made_with,
  created_at,
  used_at,
  ends_at,
}: ListedRow): KeyAnswer {
  return {
    api_key_prefix: key_prefix,
    role,
    agent_id,
    made_with,
    created_at: created_at.toISOString(),
    last_used_at: used_at?.toISOString() ?? null,
    valid_until: ends_at?.toISOString() ?? null,
  };
}

/** `DELETE …/connections/{connection_id}/keys/{api_key_prefix}`: ends an agent or verify key. */
function endKeyRoute(deps: KeyDeps): Route {
  return route({
    id: "end_api_key",
    method: "DELETE",
    path: `${path}/{api_key_prefix}`,
    summary: "End an agent or verify key",
    access: "account",
    roles: ["developer"],
    idempotent: true,
    params: params.extend({ api_key_prefix: idText }),
    answer: {
      status: 200,
      schema: z.object({ ended_at: isoTime }),
      description: "When it ended; a repeated call returns the same time",
    },
    errors: ["not_found"],
    async handle({ caller, params: { connection_id, api_key_prefix: key_prefix } }) {
      const { product_id } = await keyConnection(deps.db, caller, connection_id);
      const endedAt = await endNarrowKey(deps, { connection_id, key_prefix }, caller.keyPrefix ?? null);
      return {
        body: { ended_at: endedAt.toISOString() },
        ...(product_id !== null && { activityDetails: { platform_id: product_id } }),
      };
    },
  });
}

const self = z.object({
  api_key_prefix: z.string(),
  role,
  connection_id: z.string(),
  verifier_id: z.string(),
  workspace_id: z.string(),
  agent_id: agentId,
});

/** `GET /v1/service/keys/self`: describes the calling key, so that a client needs no other settings. */
function ownKeyRoute(): Route {
  return route({
    id: "get_own_api_key",
    method: "GET",
    path: "/v1/service/keys/self",
    summary: "Read what the calling API key is for",
    access: "api_key",
    keyRoles: narrowRoles,
    answer: { status: 200, schema: self, description: "The key's role, and the ids that it needs" },
    errors: [],
    async handle({ caller: { keyPrefix, role, connectionId, verifierId, accountId, agentId } }) {
      return {
        body: {
          api_key_prefix: keyPrefix,
          role,
          connection_id: connectionId,
          verifier_id: verifierId,
          workspace_id: accountId,
          agent_id: agentId,
        },
      };
    },
  });
}

/** Returns the routes that create, list, end and describe API keys. */
export function keyRoutes(deps: KeyDeps): Route[] {
  return [createKeyRoute(deps), listKeysRoute(deps), endKeyRoute(deps), ownKeyRoute()];
}
