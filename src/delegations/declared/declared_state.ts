import type { Clock } from "../../clock.ts";
import { isOwnObject } from "../../clusters/identify_operator.ts";
import type { Database } from "../../db/database.ts";
import type { DelegationRequestRow } from "../../db/tables.ts";
import {
  type DelegationState,
  type LiveDelegation,
  MAX_STATE_IDS,
  operatorCalls,
  type StateAnswer,
} from "../../operator_calls.ts";
import { BY_OPERATOR } from "../../platforms/api_keys/api_key.ts";
import { countCustomers } from "../../platforms/connections/customer_connections.ts";
import { selectPlatforms } from "../../platforms/platform_record.ts";
import { type Route, route } from "../../route.ts";
import { showTime } from "../delegation_answers.ts";
import { isPending } from "../delegation_records.ts";

/** `POST /internal/v1/state`: returns the state of up to 500 declared objects. Omits unknown objects. */
export function declaredStateRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "internal_read_state",
    ...operatorCalls.readState,
    summary: "Read the state of declared objects",
    access: "operator",
    errors: [],
    async handle({ caller, body }) {
      const own = body.external_ids.filter((id) => isOwnObject(caller, id));
      const [platforms, agents, delegations] = await Promise.all([
        platformStates(db, own),
        agentStates(db, own),
        delegationStates(db, own, clock.now()),
      ]);
      return { body: { time: clock.now().toISOString(), platforms, agents, delegations } };
    },
  });
}

async function platformStates(db: Database, ids: string[]): Promise<StateAnswer["platforms"]> {
  const records = await selectPlatforms(db).whereIn("p.external_id", ids);
  const customers = await countCustomers(
    db,
    records.map(({ platform_id }) => platform_id),
  );
  return Object.fromEntries(
    records.map((record) => {
      const { external_id, platform_id, connection_id, api_key_prefix, rotation_request } = record;
      const { publish_state } = record;
      const publication = { publish_state, customers: customers.get(platform_id) ?? 0 };
      const api_key_issued_at = record.api_key_created_at?.toISOString() ?? null;
      const key = { api_key_prefix, api_key_issued_at, rotation_request };
      const ids = { connection_id, workspace_id: record.account_id, verifier_id: record.verifier_id };
      const removed = record.removed_at !== null;
      return [external_id, { platform_id, ...ids, ...publication, ...key, removed }];
    }),
  );
}

type StoredKey = { api_key_prefix: string; issued_at: Date; rotation_request: string | null };
type AgentStateRow = { external_id: string; agent_id: string; disabled_at: Date | null } & (
  | StoredKey
  | { api_key_prefix: null; issued_at: null; rotation_request: null }
);

async function agentStates(db: Database, ids: string[]): Promise<StateAnswer["agents"]> {
  const rows = await db("agents as a")
    .leftJoin("narrow_keys as k", (on) =>
      on
        .on("k.agent_id", "a.agent_id")
        .onVal("k.made_with", BY_OPERATOR)
        .onNull("k.ended_at")
        .onNull("k.retires_at")
        .onNull("k.undelivered_sealed"),
    )
    .whereIn("a.external_id", ids)
    .select<AgentStateRow[]>("a.external_id", "a.agent_id", "a.disabled_at")
    .select("k.key_prefix as api_key_prefix", "k.created_at as issued_at", "k.rotation_request");
  return Object.fromEntries(
    rows.map(({ external_id, agent_id, disabled_at, issued_at, ...key }) => [
      external_id,
      {
        agent_id,
        disabled: disabled_at !== null,
        key: issued_at === null ? null : { ...key, api_key_issued_at: issued_at.toISOString() },
      },
    ]),
  );
}

async function delegationStates(db: Database, ids: string[], now: Date): Promise<StateAnswer["delegations"]> {
  const declared = await findDeclaredDelegations(db, ids);
  return Object.fromEntries(declared.map((each) => [each.external_id, showState(each, now)]));
}

/** The request of a declared delegation, with the id of its object and facts about its certificate. */
export type DeclaredDelegation = DelegationRequestRow & {
  external_id: string;
  decider: string | null;
  cert_id: string | null;
  approved_scope: string[] | null;
  cert_status: "approved" | "revoked" | null;
  issued_at: Date | null;
  cert_expires_at: Date | null;
  revoke_reason: string | null;
};

/** Returns the delegations that these objects declare. Omits objects that declare no delegation. */
export async function findDeclaredDelegations(
  db: Database,
  externalIds: readonly string[],
): Promise<DeclaredDelegation[]> {
  return db("delegation_requests as r")
    .leftJoin("certificates as t", "t.request_id", "r.request_id")
    .leftJoin("accounts as d", "d.account_id", "r.decided_by")
    .whereIn("r.external_id", externalIds)
    .select<DeclaredDelegation[]>(
      "r.*",
      db.raw("coalesce(d.email, r.decided_user) as decider"),
      "t.cert_id",
      "t.approved_scope",
      "t.status as cert_status",
      "t.issued_at",
      "t.expires_at as cert_expires_at",
      "t.revoke_reason",
    );
}

/** Returns a delegation's state at `now`. */
export function showState(declared: DeclaredDelegation, now: Date): DelegationState {
  const status = statusOf(declared, now);
  return {
    request_id: declared.request_id,
    account_id: declared.account_id,
    status,
    reason: status === "revoked" ? declared.revoke_reason : declared.reason,
    requested_scope: declared.requested_scope,
    approved_scope: declared.approved_scope,
    cert_id: declared.cert_id,
    issued_at: showTime(declared.issued_at),
    expires_at: showTime(declared.cert_expires_at),
    decided_by: declared.decider,
  };
}

function statusOf(declared: DeclaredDelegation, now: Date): DelegationState["status"] {
  if (declared.cert_status === "revoked") return "revoked";
  if (declared.status === "pending" && !isPending(declared, now)) return "expired";
  return declared.status;
}

type Row = {
  external_id: string;
  object_name: string | null;
  object_namespace: string | null;
  request_status: LiveDelegation["status"];
};

/** `POST /internal/v1/delegations`: lists a cluster's pending and active delegations, 500 per call. */
export function liveDelegationsRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "internal_list_delegations",
    ...operatorCalls.listDelegations,
    summary: "List the declared delegations that are in force or wait for a decision",
    access: "operator",
    errors: [],
    async handle({ caller, body }) {
      const now = clock.now();
      const found = db("delegation_requests as r")
        .join("connections as c", "c.connection_id", "r.connection_id")
        .join("platforms as p", "p.platform_id", "c.platform_id")
        .leftJoin("certificates as t", "t.request_id", "r.request_id")
        .whereLike("r.external_id", `${caller.clusterId}.%`)
        .andWhere((live) =>
          live
            .where((waiting) => waiting.where("r.status", "pending").andWhere("r.expires_at", ">", now))
            .orWhere((granted) =>
              granted
                .where("t.status", "approved")
                .andWhere((end) => end.whereNull("t.expires_at").orWhere("t.expires_at", ">", now)),
            ),
        );
      if (body.after !== null) found.andWhere("r.external_id", ">", body.after);
      const rows = await found
        .orderBy("r.external_id")
        .limit(MAX_STATE_IDS)
        .select<Row[]>("r.external_id", "r.object_name", "p.object_namespace", "r.status as request_status");
      const delegations = rows.map((row) => ({
        external_id: row.external_id,
        namespace: row.object_namespace,
        name: row.object_name,
        status: row.request_status,
      }));
      const next = rows.length < MAX_STATE_IDS ? null : (rows.at(-1)?.external_id ?? null);
      return { body: { delegations, next } };
    },
  });
}
