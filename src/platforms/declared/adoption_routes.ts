import { type ZodType, z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { clusterId, objectPlace } from "../../input/cluster_fields.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { findAgent } from "../agents/agents.ts";
import { findConnection, findPlatform } from "../platform_record.ts";
import {
  type Adopted,
  confirmAdoption,
  findConfirmation,
  type ShownConfirmation,
  withdrawAdoption,
} from "./adoption.ts";

type Deps = { db: Database; clock: Clock };

const confirmation = objectPlace.extend({ cluster: clusterId });
const confirmed = z.object({
  cluster: z.string(),
  namespace: z.string(),
  name: z.string(),
  confirmed_at: isoTime,
  confirmed_by: z.string().nullable().describe("The owner's e-mail address"),
});
const waiting = z.object({ adoption: confirmed.nullable() });
/** The object that may take over a platform or an agent. */
export type AdoptionAnswer = z.infer<typeof waiting>;
const withdrawn = z.object({ confirmed: z.literal(false) });

/** Returns the routes that decide which cluster objects may take over a platform or an agent. */
export function adoptionRoutes(deps: Deps): Route[] {
  return [
    getRoute(deps, PLATFORM),
    getRoute(deps, AGENT),
    confirmRoute(deps, PLATFORM),
    withdrawRoute(deps, PLATFORM),
    confirmRoute(deps, AGENT),
    withdrawRoute(deps, AGENT),
  ];
}

/** `own` finds the platform or agent of the path in the account. Throws `not_found` if it is not live. */
type Target<P> = {
  noun: Adopted["kind"];
  path: string;
  params: ZodType<P>;
  confirms: string;
  own(db: Database, accountId: string, params: P): Promise<Adopted>;
};

function getRoute<P>({ db }: Deps, { noun, path, params, own }: Target<P>): Route {
  return route({
    id: `get_${noun}_adoption`,
    method: "GET",
    path,
    summary: `Read which object may take over this ${noun}`,
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: {
      status: 200,
      schema: waiting,
      description: "The object that may take it over, once; null if none may",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const row = await findConfirmation(db, await own(db, caller.accountId, params));
      return { body: { adoption: row === undefined ? null : show(row) } };
    },
  });
}

function confirmRoute<P>(deps: Deps, { noun, path, params, confirms, own }: Target<P>): Route {
  return route({
    id: `confirm_${noun}_adoption`,
    method: "PUT",
    path,
    summary: confirms,
    access: "session",
    idempotent: true,
    params,
    body: confirmation,
    answer: { status: 200, schema: confirmed, description: "The object that may take it over, once" },
    errors: ["not_found"],
    async handle({ caller, params, body: { cluster, ...object } }) {
      const adopted = await own(deps.db, caller.accountId, params);
      const { accountId: by, email: confirmer } = caller.person;
      const row = await confirmAdoption(deps, adopted, { clusterId: cluster, object, by });
      return { body: show({ ...row, confirmer }) };
    },
  });
}

function withdrawRoute<P>({ db }: Deps, { noun, path, params, own }: Target<P>): Route {
  return route({
    id: `withdraw_${noun}_adoption`,
    method: "DELETE",
    path,
    summary: `Let no object take over this ${noun}; one that has keeps it`,
    access: "session",
    idempotent: true,
    params,
    answer: { status: 200, schema: withdrawn, description: "No object may take it over" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      await withdrawAdoption(db, await own(db, caller.accountId, params));
      return { body: { confirmed: false as const } };
    },
  });
}

const PLATFORM: Target<{ platform_id: string }> = {
  noun: "platform",
  path: "/v1/service/platforms/{platform_id}/adoption",
  params: z.object({ platform_id: idText }),
  confirms: "Let a Platform of a cluster take over this platform, with its secrets",
  async own(db, accountId, params) {
    const { platform_id } = await findPlatform(db, accountId, params.platform_id);
    return { accountId, kind: "platform", id: platform_id };
  },
};

const AGENT: Target<{ connection_id: string; agent_id: string }> = {
  noun: "agent",
  path: "/v1/service/connections/{connection_id}/agents/{agent_id}/adoption",
  params: z.object({ connection_id: idText, agent_id: idText }),
  confirms: "Let an Agent of a cluster take over this agent",
  async own(db, accountId, { connection_id, agent_id }) {
    await findConnection(db, accountId, connection_id);
    const agent = await findAgent(db, connection_id, agent_id);
    if (agent.disabled_at !== null) throw new ApiError("not_found");
    return { accountId, kind: "agent", id: agent.agent_id };
  },
};

function show(row: ShownConfirmation): z.infer<typeof confirmed> {
  return {
    cluster: row.cluster_id,
    namespace: row.namespace,
    name: row.name,
    confirmed_at: row.confirmed_at.toISOString(),
    confirmed_by: row.confirmer,
  };
}
