import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { OrganizationActivityRow } from "../db/tables.ts";
import { describeFault } from "../describe_fault.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";
import { numberOf, type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { isoTime, isoTimeInput } from "../input/schemas.ts";
import type { Logger } from "../log.ts";
import { type ActingPerson, memberRoles, type Route, route } from "../route.ts";
import { VaultRefused, VaultUnavailable } from "../vault/transport.ts";

/** A call with which a person changes something for an account. */
type Act = {
  accountId: string;
  person: ActingPerson;
  operation: string;
  /** The target of an act never contains a secret. */
  target: Record<string, string | boolean>;
};

type Target = Act["target"];
/** `keepsAll`: the account belongs to an organization, whose list loses no entry. */
type ActOf = Act & { keepsAll: boolean };
type HasDetails = { activityDetails?: Target };
type End = { status: "done" | "refused"; error_code: string | null; target: Target };

/** Runs calls that change something for accounts, and records who made them. */
export type Activity = {
  /**
   * Records an act, runs it, and records the result and the answer's `activityDetails`. So every change has
   * a row. The status remains `begun` if the process died or an error occurred.
   */
  run<T extends HasDetails>(act: ActOf, work: () => Promise<T>): Promise<T>;
};

/** Creates an `Activity` that stores acts in the database. */
export function createActivity({ db, clock, log }: { db: Database; clock: Clock; log: Logger }): Activity {
  return {
    async run(act, work) {
      const activityId = await writeAct(db, act, { status: "begun", now: clock.now() });
      const end = async ({ target, ...end }: End) => {
        try {
          await db("organization_activity")
            .where({ organization_id: act.accountId, activity_id: activityId })
            .update({ ...end, target: stored(target) });
          if (!act.keepsAll) await deleteBeyondLimit(db, act, end.status === "refused");
        } catch (error) {
          log.warn({ fault: describeFault(error) }, "the result of a person's act could not be recorded");
        }
      };
      try {
        const result = await work();
        await end({ status: "done", error_code: null, target: { ...act.target, ...result.activityDetails } });
        return result;
      } catch (error) {
        const code = refusalOf(error);
        if (code !== undefined) await end({ status: "refused", error_code: code, target: act.target });
        throw error;
      }
    },
  };
}

/** Records an act, alone or in the transaction of the change itself. Returns the act's id. */
export async function writeAct(
  db: Database | Transaction,
  { accountId: accountOfAct, person, operation, target }: Act,
  { status, now }: { status: "begun" | "done"; now: Date },
): Promise<string> {
  const { accountId, email, role } = person;
  if (role === null) throw new Error("A person without a role cannot act for an account");
  const activityId = newId();
  await db("organization_activity").insert({
    organization_id: accountOfAct,
    activity_id: activityId,
    occurred_at: now,
    actor_account_id: accountId,
    actor_email: email,
    actor_role: role,
    operation,
    target: stored(target),
    status,
    error_code: null,
  });
  return activityId;
}

/** The list of a personal account keeps this many acts with one operation, and as many refusals. */
export const KEPT_ACTS = 1_000;

/** Deletes a person's oldest acts with one operation beyond {@link KEPT_ACTS}. Refusals count separately. */
async function deleteBeyondLimit(
  db: Database,
  { accountId, person, operation }: Act,
  isRefused: boolean,
): Promise<void> {
  const alike = db("organization_activity")
    .where({ organization_id: accountId, actor_account_id: person.accountId, operation })
    .whereRaw("(status = 'refused') = ?", [isRefused]);
  const order = [
    { column: "occurred_at", order: "desc" },
    { column: "activity_id", order: "desc" },
  ];
  const first = await alike.clone().orderBy(order).offset(KEPT_ACTS).first("occurred_at", "activity_id");
  if (first === undefined) return;
  await db("organization_activity")
    .where({ organization_id: accountId })
    .whereIn(
      "activity_id",
      alike
        .whereRaw("(occurred_at, activity_id) <= (?, ?)", [first.occurred_at, first.activity_id])
        .select("activity_id")
        .orderBy("activity_id")
        .forUpdate()
        .skipLocked(),
    )
    .delete();
}

function stored(target: Target): Record<string, string> {
  return JSON.stringify(target) as unknown as Record<string, string>;
}

/** Returns the error code of a refusal, which changed nothing, and `undefined` for an internal error. */
function refusalOf(error: unknown): string | undefined {
  if (error instanceof ApiError) return error.code;
  return error instanceof VaultRefused || error instanceof VaultUnavailable ? "vault_unavailable" : undefined;
}

const entry = z.object({
  activity_id: z.string(),
  occurred_at: isoTime,
  actor: z
    .object({ account_id: z.string(), email: z.string(), role: z.enum(memberRoles) })
    .nullable()
    .describe("The caller, with the address and role then; null: the other party of a connection"),
  operation: z.string().describe("The operation's id in this document"),
  target: z
    .record(z.string(), z.union([z.string(), z.boolean()]))
    .describe("The target of the call: the path's parameters, and a member's address and role"),
  status: z.enum(["begun", "done", "refused"]).describe("begun: the result is not known"),
  error_code: z.string().nullable().describe("The reason for a refusal"),
});

type ActivityEntry = z.infer<typeof entry>;

const activity = pageOf(entry).extend({
  actors: z
    .array(z.object({ account_id: z.string(), email: z.string() }))
    .describe(
      "Everybody who ever changed something for the account, by e-mail address, regardless of the filters",
    ),
  names: z
    .record(z.string(), z.string())
    .describe("Names of the account's platforms and agents, by id in a target"),
});

/** A page of acts, as the API returns it. */
export type ActivityAnswer = z.infer<typeof activity>;

const query = pageQuery.extend({
  limit: z.preprocess(numberOf, z.int().min(1).max(1_000)).default(25),
  account_id: z.guid().optional().describe("Only acts of this member"),
  operation: z.string().max(100).optional(),
  since: isoTimeInput.optional().describe("The first moment to show"),
  until: isoTimeInput.optional().describe("The moment before which to show"),
});

const newestFirst: PageOrder = { time: "v.occurred_at", id: "v.activity_id", isId: isUuid };

/** `GET /v1/service/organization/activity`: people's acts for the account, newest first. */
export function activityRoute({ db }: { db: Database }): Route {
  return route({
    id: "list_organization_activity",
    method: "GET",
    path: "/v1/service/organization/activity",
    summary: "See who changed what for the account",
    access: "session",
    roles: ["auditor"],
    query,
    answer: { status: 200, schema: activity, description: "A page of acts, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = db("organization_activity as v").where({ "v.organization_id": caller.accountId });
      if (query.account_id !== undefined) found.where({ "v.actor_account_id": query.account_id });
      if (query.operation !== undefined) found.where({ "v.operation": query.operation });
      if (query.since !== undefined) found.where("v.occurred_at", ">=", new Date(query.since));
      if (query.until !== undefined) found.where("v.occurred_at", "<", new Date(query.until));
      const { rows, next_cursor } = await readPage<OrganizationActivityRow>(
        found.select("v.*"),
        newestFirst,
        query,
      );
      const [actors, names] = await Promise.all([
        listActors(db, caller.accountId),
        findNames(db, caller.accountId, rows),
      ]);
      return { body: { items: rows.map(show), next_cursor, actors, names } };
    },
  });
}

/** Returns each actor with their latest email address. Reads only one index entry for each actor. */
async function listActors(db: Database, accountId: string): Promise<ActivityAnswer["actors"]> {
  const { rows } = await db.raw<{ rows: ActivityAnswer["actors"] }>(
    `with recursive actors as (
       (select actor_account_id as account_id, actor_email as email from organization_activity
         where organization_id = :accountId and actor_account_id is not null
         order by actor_account_id, occurred_at desc, activity_id desc limit 1)
       union all
       select next.* from actors, lateral (
         select actor_account_id, actor_email from organization_activity
         where organization_id = :accountId and actor_account_id > actors.account_id
         order by actor_account_id, occurred_at desc, activity_id desc limit 1) as next)
     select account_id, email from actors order by email collate "C", account_id`,
    { accountId },
  );
  return rows;
}

/** Returns the names of the account's objects in the acts' targets, by id. */
async function findNames(
  db: Database,
  accountId: string,
  acts: readonly OrganizationActivityRow[],
): Promise<Record<string, string>> {
  const of = (name: string) => acts.map(({ target }) => target[name]).filter((id) => typeof id === "string");
  const { rows } = await db.raw<{ rows: { id: string; name: string }[] }>(
    `select platform_id::text as id, name from platforms
       where account_id = :accountId and platform_id = any(:platforms)
     union all
     select c.connection_id::text, p.name from connections c join platforms p using (platform_id)
       where c.account_id = :accountId and c.connection_id = any(:connections)
     union all
     select c.connection_id::text, c.customer_name from connections c
       where c.account_id = :accountId and c.product_id is not null and c.connection_id = any(:connections)
     union all
     select c.connection_id::text, p.name from connections c join platforms p on p.platform_id = c.product_id
       where c.customer_account_id = :accountId and c.connection_id = any(:connections)
     union all
     select agent_id, name from agents where account_id = :accountId and agent_id = any(:agents)
     union all
     select r.request_id, a.name from delegation_requests r join agents a using (account_id, agent_id)
       where r.account_id = :accountId and r.request_id = any(:requests)
     union all
     select t.cert_id, a.name from certificates t join agents a using (account_id, agent_id)
       where t.account_id = :accountId and t.cert_id = any(:certificates)`,
    {
      accountId,
      platforms: of("platform_id").filter(isUuid),
      connections: of("connection_id").filter(isUuid),
      agents: of("agent_id"),
      requests: of("request_id"),
      certificates: [...of("cert_id"), ...of("linked_cert_id")],
    },
  );
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]));
}

function show(row: OrganizationActivityRow): ActivityEntry {
  return {
    activity_id: row.activity_id,
    occurred_at: row.occurred_at.toISOString(),
    actor:
      row.actor_account_id === null
        ? null
        : { account_id: row.actor_account_id, email: row.actor_email, role: row.actor_role },
    operation: row.operation,
    target: row.target,
    status: row.status,
    error_code: row.error_code,
  };
}
