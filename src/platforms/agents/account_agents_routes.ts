import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { containsText, type Database, lastSecond, platformOf } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { isKeyId } from "../../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { idText, searchText } from "../../input/schemas.ts";
import { fingerprintOfKey } from "../../protocol/keys/hybrid.ts";
import { type Route, route } from "../../route.ts";
import { agentAnswer, declaredBy, showAgent, showDeclaredBy } from "../platform_answers.ts";

const accountAgent = agentAnswer.extend({
  key_fingerprint: z.string().describe("sha256 and the hash of the public key's canonical JSON"),
  platform: z.object({ platform_id: z.string(), name: z.string() }),
  declared_by: declaredBy,
  active_delegations: z.int().describe("Number of its certificates that are active now"),
});

/** An agent, with its platform and the object that declares it. */
export type AccountAgentAnswer = z.infer<typeof accountAgent>;

type AgentRecord = AgentRow & {
  platform_id: string;
  platform_name: string;
  object_namespace: string | null;
  active: number;
};

type Deps = { db: Database; clock: Clock };

const newestFirst: PageOrder = { time: "g.created_at", id: "g.agent_id", isId: isKeyId };

const query = pageQuery.extend({
  q: searchText.optional().describe("Part of the agent's or the platform's name, or a whole agent_id"),
  platform_id: z.guid().optional(),
  connection_id: z.guid().optional(),
  state: z.enum(["live", "deleted"]).default("live"),
});

/** `GET /v1/service/agents`: lists the agents of all of the account's connections, newest first. */
export function listAccountAgentsRoute({ db, clock }: Deps): Route {
  return route({
    id: "list_account_agents",
    method: "GET",
    path: "/v1/service/agents",
    summary: "List and search the agents of all of the account's connections",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: { status: 200, schema: pageOf(accountAgent), description: "A page of agents, newest first" },
    errors: [],
    async handle({ caller, query: { q, state, platform_id, connection_id, ...page } }) {
      const found = selectAgents(db, clock.now()).where({ "g.account_id": caller.accountId });
      found.whereRaw(`${DISABLED_AT} is ${state === "live" ? "null" : "not null"}`);
      if (platform_id !== undefined) found.where({ "p.platform_id": platform_id });
      if (connection_id !== undefined) found.where({ "g.connection_id": connection_id });
      if (q !== undefined) {
        found.where((either) =>
          either
            .where({ "g.agent_id": q })
            .orWhere(containsText(db, "g.name", q))
            .orWhere(containsText(db, "p.name", q)),
        );
      }
      const { rows, next_cursor } = await readPage<AgentRecord>(found, newestFirst, page);
      return { body: { items: rows.map(showAccountAgent), next_cursor } };
    },
  });
}

/** `GET /v1/service/agents/{agent_id}`: returns an agent. If it is deleted, `disabled_at` is the time. */
export function getAccountAgentRoute({ db, clock }: Deps): Route {
  return route({
    id: "get_account_agent",
    method: "GET",
    path: "/v1/service/agents/{agent_id}",
    summary: "Read an agent of any of the account's connections",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ agent_id: idText }),
    answer: { status: 200, schema: accountAgent, description: "The agent" },
    errors: ["not_found"],
    async handle({ caller, params: { agent_id } }) {
      if (!isKeyId(agent_id)) throw new ApiError("not_found");
      const own = { "g.agent_id": agent_id, "g.account_id": caller.accountId };
      const [record] = await selectAgents(db, clock.now()).where(own).limit(1);
      if (record === undefined) throw new ApiError("not_found");
      return { body: showAccountAgent(record) };
    },
  });
}

/** An agent of a removed connection can do nothing, also before the worker has deleted it. */
const DISABLED_AT = "coalesce(g.disabled_at, c.removed_at)";

function selectAgents(db: Database, now: Date) {
  const active = db("certificates as t")
    .whereRaw("t.agent_id = g.agent_id and t.status = 'approved' and c.removed_at is null")
    .whereRaw("(t.expires_at is null or t.expires_at >= ?)", [lastSecond(now)])
    .select(db.raw("count(*)::int"));
  return db("agents as g")
    .join("connections as c", "c.connection_id", "g.connection_id")
    .join("platforms as p", "p.platform_id", db.raw(platformOf("c")))
    .select<AgentRecord[]>(
      "g.*",
      db.raw(`${DISABLED_AT} as disabled_at`),
      "p.platform_id",
      "p.name as platform_name",
      "p.object_namespace",
      active.as("active"),
    );
}

function showAccountAgent(record: AgentRecord): AccountAgentAnswer {
  return {
    ...showAgent(record),
    key_fingerprint: fingerprintOfKey(record.public_key),
    platform: { platform_id: record.platform_id, name: record.platform_name },
    declared_by: showDeclaredBy(record),
    active_delegations: record.active,
  };
}
