import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { isCertificateId } from "../../ids.ts";
import { reasonBody } from "../../input/delegation_fields.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../../input/pagination.ts";
import { idText } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { certificateAnswer, showCertificate } from "../answers.ts";
import { callerRows } from "../caller_rows.ts";
import { type CertificateRecord, findCertificate, selectCertificates } from "./certificate_record.ts";
import { revokeCertificate } from "./revoke_certificate.ts";

type Deps = { db: Database; secretBox: SecretBox; clock: Clock };

const newestFirst: PageOrder = { time: "t.issued_at", id: "t.cert_id", isId: isCertificateId };
const params = z.object({ cert_id: idText });

const query = pageQuery.extend({
  status: certificateAnswer.shape.status.optional(),
  connection_id: z.guid().optional(),
  agent_id: idText.optional(),
});

/** `GET /v1/service/delegations`: the account's certificates, newest first. */
export function listCertificatesRoute({ db }: Deps): Route {
  return route({
    id: "list_delegations",
    method: "GET",
    path: "/v1/service/delegations",
    summary: "List delegation certificates",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: {
      status: 200,
      schema: pageOf(certificateAnswer),
      description: "A page of certificates, newest first",
    },
    errors: [],
    async handle({ caller, query }) {
      const found = selectCertificates(db).where(callerRows(caller, "t"));
      if (query.status !== undefined) found.where({ "t.status": query.status });
      if (query.connection_id !== undefined) found.where({ "t.connection_id": query.connection_id });
      if (query.agent_id !== undefined) found.where({ "t.agent_id": query.agent_id });
      const { rows, next_cursor } = await readPage<CertificateRecord>(found, newestFirst, query);
      return { body: { items: rows.map(showCertificate), next_cursor } };
    },
  });
}

/** `GET /v1/service/delegations/{cert_id}`. */
export function getCertificateRoute({ db }: Deps): Route {
  return route({
    id: "get_delegation",
    method: "GET",
    path: "/v1/service/delegations/{cert_id}",
    summary: "Read a delegation certificate",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: certificateAnswer, description: "The certificate" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      return { body: showCertificate(await findCertificate(db, caller, params.cert_id)) };
    },
  });
}

/**
 * `POST /v1/service/delegations/{cert_id}/revoke`: no decision that starts after the answer allows by this
 * certificate.
 */
export function revokeRoute(deps: Deps): Route {
  return route({
    id: "revoke_delegation",
    method: "POST",
    path: "/v1/service/delegations/{cert_id}/revoke",
    summary: "Revoke a delegation certificate",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    params,
    body: reasonBody,
    answer: {
      status: 200,
      schema: certificateAnswer.pick({ cert_id: true, status: true }),
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
