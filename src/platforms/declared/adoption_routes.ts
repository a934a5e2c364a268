import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { AdoptionRow } from "../../db/cluster_tables.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { clusterId, objectPlace } from "../../input/cluster_fields.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { findAgent } from "../agents/agents.ts";
import { findConnection, findPlatform } from "../platform_record.ts";
import { type Adopted, confirmAdoption, findConfirmation, withdrawAdoption } from "./adoption.ts";

type Deps = { db: Database; clock: Clock };

const platformPath = "/v1/service/platforms/{platform_id}/adoption";
const platformParams = z.object({ platform_id: idText });
const agentPath = "/v1/service/connections/{connection_id}/agents/{agent_id}/adoption";
const agentParams = z.object({ connection_id: idText, agent_id: idText });

const confirmation = objectPlace.extend({ cluster: clusterId });
const confirmed = z.object({
  cluster: z.string(),
  namespace: z.string(),
  name: z.string(),
  confirmed_at: isoTime,
});
const waiting = z.object({ adoption: confirmed.nullable() });
/** The object that may take something over. */
export type AdoptionAnswer = z.infer<typeof waiting>;
const withdrawn = { status: 200, schema: z.object({ confirmed: z.literal(false) }) } as const;

/** What objects of clusters may take over, as the account's owner says. */
export function adoptionRoutes(deps: Deps): Route[] {
  return [
    getPlatformRoute(deps),
    getAgentRoute(deps),
    confirmPlatformRoute(deps),
    withdrawPlatformRoute(deps),
    confirmAgentRoute(deps),
    withdrawAgentRoute(deps),
  ];
}

const looked = {
  method: "GET",
  access: "session",
  roles: ["approver", "developer", "auditor"],
  answer: { status: 200, schema: waiting, description: "The object that may, once; null when none may" },
} as const;

function getPlatformRoute({ db }: Deps): Route {
  return route({
    ...looked,
    id: "get_platform_adoption",
    path: platformPath,
    summary: "Read which object may take over this platform",
    params: platformParams,
    errors: ["not_found"],
    handle: async ({ caller, params }) =>
      showWaiting(db, await ownPlatform(db, caller.accountId, params.platform_id)),
  });
}

function getAgentRoute({ db }: Deps): Route {
  return route({
    ...looked,
    id: "get_agent_adoption",
    path: agentPath,
    summary: "Read which object may take over this agent",
    params: agentParams,
    errors: ["not_found"],
    handle: async ({ caller, params }) => showWaiting(db, await ownAgent(db, caller.accountId, params)),
  });
}

async function showWaiting(db: Database, adopted: Adopted): Promise<{ body: AdoptionAnswer }> {
  const row = await findConfirmation(db, adopted);
  return { body: { adoption: row === undefined ? null : show(row) } };
}

function confirmPlatformRoute(deps: Deps): Route {
  return route({
    id: "confirm_platform_adoption",
    method: "PUT",
    path: platformPath,
    summary: "Let a Platform of a cluster take over this platform, with its secrets",
    access: "session",
    idempotent: true,
    params: platformParams,
    body: confirmation,
    answer: { status: 200, schema: confirmed, description: "The object that may, once" },
    errors: ["not_found"],
    async handle({ caller, params, body: { cluster, ...object } }) {
      const adopted = await ownPlatform(deps.db, caller.accountId, params.platform_id);
      return { body: show(await confirmAdoption(deps, adopted, { clusterId: cluster, object })) };
    },
  });
}

function withdrawPlatformRoute({ db }: Deps): Route {
  return route({
    id: "withdraw_platform_adoption",
    method: "DELETE",
    path: platformPath,
    summary: "Let no object take over this platform; one that has keeps it",
    access: "session",
    idempotent: true,
    params: platformParams,
    answer: { ...withdrawn, description: "No object may" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      await withdrawAdoption(db, await ownPlatform(db, caller.accountId, params.platform_id));
      return { body: { confirmed: false as const } };
    },
  });
}

function confirmAgentRoute(deps: Deps): Route {
  return route({
    id: "confirm_agent_adoption",
    method: "PUT",
    path: agentPath,
    summary: "Let an Agent of a cluster take over this agent",
    access: "session",
    idempotent: true,
    params: agentParams,
    body: confirmation,
    answer: { status: 200, schema: confirmed, description: "The object that may, once" },
    errors: ["not_found"],
    async handle({ caller, params, body: { cluster, ...object } }) {
      const adopted = await ownAgent(deps.db, caller.accountId, params);
      return { body: show(await confirmAdoption(deps, adopted, { clusterId: cluster, object })) };
    },
  });
}

function withdrawAgentRoute({ db }: Deps): Route {
  return route({
    id: "withdraw_agent_adoption",
    method: "DELETE",
    path: agentPath,
    summary: "Let no object take over this agent; one that has keeps it",
    access: "session",
    idempotent: true,
    params: agentParams,
    answer: { ...withdrawn, description: "No object may" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      await withdrawAdoption(db, await ownAgent(db, caller.accountId, params));
      return { body: { confirmed: false as const } };
    },
  });
}

/** Throws `not_found` for a platform that is removed, another's or nobody's. */
async function ownPlatform(db: Database, accountId: string, platformId: string): Promise<Adopted> {
  const { platform_id } = await findPlatform(db, accountId, platformId);
  return { accountId, kind: "platform", id: platform_id };
}

/** Throws `not_found` for an agent that is deleted, another's or nobody's. */
async function ownAgent(
  db: Database,
  accountId: string,
  { connection_id, agent_id }: z.infer<typeof agentParams>,
): Promise<Adopted> {
  await findConnection(db, accountId, connection_id);
  const agent = await findAgent(db, connection_id, agent_id);
  if (agent.disabled_at !== null) throw new ApiError("not_found");
  return { accountId, kind: "agent", id: agent.agent_id };
}

function show(row: AdoptionRow): z.infer<typeof confirmed> {
  return {
    cluster: row.cluster_id,
    namespace: row.namespace,
    name: row.name,
    confirmed_at: row.confirmed_at.toISOString(),
  };
}
