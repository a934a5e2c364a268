import type { Pool } from "pg";
import { unixSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import {
  type ConstraintContext,
  evaluateConstraints,
} from "../../protocol/constraints/evaluate_constraints.ts";
import { decodeDelegationCert } from "../../protocol/documents/certificate.ts";
import { findActiveCertificates, readCertificate } from "../active_certificate.ts";
import { countAllowsBefore } from "../admission/certificate_rate.ts";
import type { DenyReason } from "../decide/reasons.ts";

/** A question to the registry: do this agent's stored certificates allow the scope in this context? */
export type RegistryQuestion = {
  connectionId: string;
  agentId: string;
  scope: string;
  context: ConstraintContext;
  now: Date;
};

/** Dependencies of a registry answer. `rated` is the pool for counting. */
export type RegistryDeps = { db: Database; rated: Pool };

/** The registry's answer. It proves nothing about the caller. */
export type RegistryAnswer =
  | { decision: "allow"; reason: "authorized"; certId: string }
  | { decision: "deny"; reason: DenyReason };

/**
 * Checks whether any active certificate of the agent grants the scope under its constraints. Spends, charges
 * and records nothing. A denial carries the reason of the newest certificate that has the scope.
 */
export async function findRegistryAnswer(
  { db, rated }: RegistryDeps,
  question: RegistryQuestion,
): Promise<RegistryAnswer> {
  const { connectionId, agentId, scope, context, now } = question;
  const agent = await db("agents")
    .where({ agent_id: agentId, connection_id: connectionId })
    .whereNull("disabled_at")
    .first("agent_id");
  const certificates =
    agent === undefined ? [] : await findActiveCertificates(db, agentId, { requiredScope: scope }, now);
  const invocations = countAllowsBefore(rated, now);
  let reason: DenyReason = "not_delegated";
  for (const [place, certificate] of certificates.entries()) {
    const { cert_id: certId } = certificate;
    const text = await readCertificate(db, certificate);
    const { constraints } = decodeDelegationCert(Buffer.from(text, "utf8"));
    const input = { certId, now: unixSeconds(now), context: { ...context, invocations } };
    const refusal = await evaluateConstraints(constraints, input);
    if (refusal === undefined) return { decision: "allow", reason: "authorized", certId };
    if (place === 0) reason = refusal.code;
  }
  return { decision: "deny", reason };
}
