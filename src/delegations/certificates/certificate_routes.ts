import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { containing, containsText, type Database, lastSecond, platformOf } from "../../db/database.ts";
import { isCertificateId } from "../../ids.ts";
import { reasonBody } from "../../input/delegation_fields.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { idText, isoTimeInput, searchText } from "../../input/schemas.ts";
import { type AccountCaller, principalOf, type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { type CertificateAnswer, certificateAnswer, showCertificate } from "../delegation_answers.ts";
import {
  type CertificateRecord,
  callerRows,
  findCertificate,
  IS_ENDING,
  selectCertificates,
} from "../delegation_records.ts";
import { revokeCertificate } from "./revoke_certificate.ts";

const query = pageQuery.extend({
  status: certificateAnswer.shape.status.optional(),
  state: z
    .enum(["active", "expired", "revoked"])
    .optional()
    .describe("The state now: active and expired certificates both have the status approved"),
  connection_id: z.guid().optional(),
  platform_id: z.guid().optional(),
  agent_id: idText.optional(),
  expires_before: isoTimeInput.optional().describe("Only certificates that end before this moment"),
  q: searchText
    .optional()
    .describe("Part of the agent's or the platform's name or of a scope, or a whole cert_id or agent_id"),
  order: z
    .enum(["newest", "ending"])
    .default("newest")
    .describe("newest: last issued first; ending: next to end first, and those without an end last"),
});

type Query = z.infer<typeof query>;

/** SQL for a certificate's expiry in the sort order. Certificates that do not expire come last. */
const ENDING = "coalesce(t.expires_at, '9999-12-31T00:00:00Z'::timestamptz)";

/** `GET /v1/service/delegations`: lists the account's certificates. */
export function listCertificatesRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "list_delegations",
    method: "GET",
    path: "/v1/service/delegations",
    summary: "List and search delegation certificates",
    access: "account",
    keyRoles: ["agent"],
    roles: ["approver", "developer", "auditor"],
    query,
    answer: {
      status: 200,
      schema: pageOf(certificateAnswer),
      description: "A page of certificates, newest first unless asked otherwise",
    },
    errors: [],
    async handle({ caller, query }) {
      const found = selectCertificates(db).where(callerRows(caller, "t"));
      narrow(found, query, clock.now());
      if (query.q !== undefined) search(found, db, caller, query.q);
      const { rows, next_cursor } = await readPage<CertificateRecord>(found, orderOf(db, query), query);
      return { body: { items: rows.map((row) => showCertificate(row, caller)), next_cursor } };
    },
  });
}

type Found = ReturnType<typeof selectCertificates>;

function orderOf(db: Database, { order }: Query): PageOrder {
  const ids = { id: "t.cert_id", isId: isCertificateId };
  if (order === "newest") return { time: "t.issued_at", ...ids };
  return { time: db.raw(ENDING), ...ids, earliestFirst: true };
}

function narrow(found: Found, query: Query, now: Date): void {
  const { status, state } = query;
  if (status !== undefined) ofStatus(found, status);
  if (state !== undefined) ofStatus(found, state === "revoked" ? "revoked" : "approved");
  if (state === "active") found.whereRaw(`${ENDING} >= ?`, [lastSecond(now)]);
  if (state === "expired") found.whereRaw(`${ENDING} < ?`, [lastSecond(now)]);
  if (query.connection_id !== undefined) found.where({ "t.connection_id": query.connection_id });
  if (query.platform_id !== undefined) found.where({ "p.platform_id": query.platform_id });
  if (query.agent_id !== undefined) found.where({ "t.agent_id": query.agent_id });
  if (query.expires_before !== undefined) {
    found.whereNotNull("t.expires_at").whereRaw(`${ENDING} < ?`, [new Date(query.expires_before)]);
  }
}

function ofStatus(found: Found, status: CertificateAnswer["status"]): void {
  if (status === "approved") found.where({ "t.status": status, "n.removed_at": null });
  else found.whereRaw(`(t.status = 'revoked' or ${IS_ENDING})`);
}

/** Looks up agents and platforms by name first, to avoid joining certificates that do not match. */
function search(found: Found, db: Database, caller: AccountCaller, text: string): void {
  const accountId = principalOf(caller);
  const agents = db("agents").select("agent_id").where({ account_id: accountId });
  const platforms = db("connections as c")
    .select("c.connection_id")
    .where((of) => of.where({ "c.account_id": accountId }).orWhere({ "c.customer_account_id": accountId }));
  found.where((either) =>
    either
      .where({ "t.cert_id": text })
      .orWhereIn(
        "t.agent_id",
        agents.where((own) => own.where(containsText(db, "name", text)).orWhere({ agent_id: text })),
      )
      .orWhereIn(
        "t.connection_id",
        platforms
          .join("platforms as o", "o.platform_id", db.raw(platformOf("c")))
          .where(containsText(db, "o.name", text)),
      )
      .orWhereRaw("array_to_string(t.approved_scope, ' ') like ?", [containing(text)]),
  );
}

type Deps = { db: Database; secretBox: SecretBox; clock: Clock };

const params = z.object({ cert_id: idText });

/** `GET /v1/service/delegations/{cert_id}`: returns a certificate. */
export function getCertificateRoute({ db }: Deps): Route {
  return route({
    id: "get_delegation",
    method: "GET",
    path: "/v1/service/delegations/{cert_id}",
    summary: "Read a delegation certificate",
    access: "account",
    keyRoles: ["agent"],
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: certificateAnswer, description: "The certificate" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      return { body: showCertificate(await findCertificate(db, caller, params.cert_id), caller) };
    },
  });
}

/** `POST …/{cert_id}/revoke`: revokes a certificate. After the answer, no new decision allows its use. */
export function revokeRoute(deps: Deps): Route {
  return route({
    id: "revoke_delegation",
    method: "POST",
    path: "/v1/service/delegations/{cert_id}/revoke",
    summary: "Revoke a delegation certificate",
    access: "session",
    ends: true,
    roles: ["approver"],
    idempotent: true,
    params,
    body: reasonBody,
    answer: {
      status: 200,
      schema: certificateAnswer.pick({ cert_id: true }).extend({ status: z.literal("revoked") }),
      description: "The revoked certificate",
    },
    errors: ["not_found"],
    async handle({ caller, params, body }) {
      await revokeCertificate(deps, caller.accountId, params.cert_id, {
        reason: body?.reason ?? null,
        revokedBy: caller.person.accountId,
      });
      return { body: { cert_id: params.cert_id, status: "revoked" } };
    },
  });
}
