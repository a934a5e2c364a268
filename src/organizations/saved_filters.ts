import { z } from "zod";
import { requireRole } from "../accounts/member_role.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { oneLine } from "../input/schemas.ts";
import { memberRoles, type Route, route, type SessionCaller } from "../route.ts";

/** The parameters of the console's history page that a saved filter may have. */
export const FILTER_FIELDS = [
  "search",
  "from",
  "to",
  "result",
  "decision_reason",
  "required_scope",
  "connection_id",
  "agent_id",
  "cert_id",
] as const;

/** Maximum number of filters that one member keeps for one account. */
export const MAX_FILTERS = 20;

const path = "/v1/service/audit/filters";
const roles = memberRoles.filter((role) => role !== "owner");

const fieldNames: ReadonlySet<string> = new Set(FILTER_FIELDS);
const filterQuery = z
  .string()
  .max(2_000)
  .refine(
    (query) => [...new URLSearchParams(query).keys()].every((name) => fieldNames.has(name)),
    `may have only ${FILTER_FIELDS.join(", ")}`,
  );
const filters = z.object({ filters: z.array(z.object({ name: z.string(), query: z.string() })) });

/** A member's filters of an account's history, as the API returns them. */
export type FiltersAnswer = z.infer<typeof filters>;

/** Returns the operations with which members keep filters of the history. Each member sees only their own. */
export function savedFilterRoutes({ db }: { db: Database }): Route[] {
  return [
    route({
      id: "list_history_filters",
      method: "GET",
      path,
      summary: "List the person's history filters",
      access: "session",
      roles,
      answer: { status: 200, schema: filters, description: "By name" },
      errors: [],
      handle: async ({ caller }) => ({ body: await readFilters(db, caller) }),
    }),
    route({
      id: "change_history_filters",
      method: "PATCH",
      path,
      summary: "Save or delete a filter",
      access: "session",
      roles,
      body: z.object({
        name: oneLine(60),
        query: filterQuery.nullable().describe("Null deletes it"),
      }),
      answer: { status: 200, schema: filters, description: "All of them" },
      errors: ["filter_limit"],
      async handle({ caller, body: { name, query } }) {
        await db.transaction((tx) => changeFilter(tx, caller, { name, query }));
        return { body: await readFilters(db, caller) };
      },
    }),
  ];
}

function ownOf({ accountId, person }: SessionCaller) {
  return { account_id: accountId, person_id: person.accountId };
}

async function readFilters(db: Database, caller: SessionCaller): Promise<FiltersAnswer> {
  return { filters: await db("saved_filters").where(ownOf(caller)).orderBy("name").select("name", "query") };
}

async function changeFilter(
  tx: Transaction,
  caller: SessionCaller,
  { name, query }: { name: string; query: string | null },
): Promise<void> {
  const own = ownOf(caller);
  // The person's calls wait for each other. Otherwise, they could exceed the limit together.
  await tx("accounts").where({ account_id: own.person_id }).forNoKeyUpdate().first("account_id");
  await requireRole(tx, own.account_id, own.person_id, memberRoles);
  const others = await tx("saved_filters").where(own).whereNot({ name }).pluck("name");
  if (query !== null && others.length >= MAX_FILTERS) throw new ApiError("filter_limit");
  await tx("saved_filters")
    .where({ ...own, name })
    .delete();
  if (query !== null) await tx("saved_filters").insert({ ...own, name, query });
}
