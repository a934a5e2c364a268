import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { reasonBody } from "../../input/delegation_fields.ts";
import { idText } from "../../input/schemas.ts";
import { type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { certificateAnswer, showCertificate } from "../answers.ts";
import { findCertificate } from "./certificate_record.ts";
import { revokeCertificate } from "./revoke_certificate.ts";

type Deps = { db: Database; secretBox: SecretBox; clock: Clock };

const params = z.object({ cert_id: idText });

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
