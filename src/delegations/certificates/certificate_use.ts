import { z } from "zod";
import { addSeconds, type Clock } from "../../clock.ts";
import { type Database, notExpired } from "../../db/database.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import { type CertificateRecord, findCertificate } from "../delegation_records.ts";

const DAYS = 7;
/** Maximum number of decisions that are counted, so that the page about a busy certificate stays fast. */
const MOST_COUNTED = 10_000;

const count = z.int().min(0);
const answer = z.object({
  cert_id: z.string(),
  days: z.int().describe("Number of days that were counted"),
  allowed: count,
  denied: count,
  more: z.boolean().describe(`Allowed decisions by scope, most first`),
  last_allowed_at: isoTime.nullable().describe("null if it allowed nothing in these days"),
  by_scope: z.array(z.object({ scope: z.string(), allowed: count })).describe("What it allowed, most first"),
  other_active: count.describe("Other certificates of the agent that are active now"),
});

/** The answer about a certificate's use. */
export type UseAnswer = z.infer<typeof answer>;

type ScopeRow = { scope: string; allowed: number; denied: number; last_allowed_at: Date | null };

/** `GET …/{cert_id}/use`: shows what a certificate is used for, and so what a revocation would stop. */
export function certificateUseRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "get_delegation_use",
    method: "GET",
    path: "/v1/service/delegations/{cert_id}/use",
    summary: "See what a certificate was used for recently",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ cert_id: idText }),
    answer: { status: 200, schema: answer, description: "Its decisions of the last days, counted" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const record = await findCertificate(db, { ...caller, connectionId: null }, params.cert_id);
      const now = clock.now();
      return { body: showUse(record, await readUse(db, record, now), await countOthers(db, record, now)) };
    },
  });
}

async function readUse(db: Database, { account_id, cert_id }: CertificateRecord, now: Date) {
  const { rows } = await db.raw<{ rows: ScopeRow[] }>(
    `select required_scope as scope,
       (count(*) filter (where decision = 'allow'))::int as allowed,
       (count(*) filter (where decision <> 'allow'))::int as denied,
       max(occurred_at) filter (where decision = 'allow') as last_allowed_at
     from (select required_scope, decision, occurred_at from audit_events
       where account_id = ? and cert_id = ? and occurred_at >= ? and decision is not null
       order by occurred_at desc limit ?) as newest
     group by required_scope`,
    [account_id, cert_id, addSeconds(now, -DAYS * 24 * 60 * 60), MOST_COUNTED + 1],
  );
  return rows;
}

async function countOthers(
  db: Database,
  { account_id, agent_id, cert_id }: CertificateRecord,
  now: Date,
): Promise<number> {
  const [found] = await notExpired(db("certificates"), now)
    .where({ account_id, agent_id, status: "approved" })
    .whereNot({ cert_id })
    .count<{ count: string }[]>("* as count");
  return Number(found?.count ?? 0);
}

function showUse({ cert_id }: CertificateRecord, rows: readonly ScopeRow[], others: number): UseAnswer {
  const sum = (of: "allowed" | "denied") => rows.reduce((total, row) => total + row[of], 0);
  const used = rows.filter(({ allowed }) => allowed > 0).sort((a, b) => b.allowed - a.allowed);
  const last = used.flatMap(({ last_allowed_at }) => last_allowed_at?.getTime() ?? []);
  return {
    cert_id,
    days: DAYS,
    allowed: sum("allowed"),
    denied: sum("denied"),
    more: sum("allowed") + sum("denied") > MOST_COUNTED,
    last_allowed_at: last.length === 0 ? null : new Date(Math.max(...last)).toISOString(),
    by_scope: used.map(({ scope, allowed }) => ({ scope, allowed })),
    other_active: others,
  };
}
