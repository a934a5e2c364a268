import { randomBytes, randomUUID } from "node:crypto";
import type { Database } from "../../src/db/database.ts";
import { MAX_ACCEPTED_PRINCIPALS } from "../../src/input/platform_fields.ts";

type Verifier = { accountId: string; connectionId: string };
type Acceptance = { created_at: Date; accepted_until?: Date; scopes?: string[] };

/**
 * Records that a connection accepts another account's principal for some scopes. Default scope: `data:read`.
 */
export async function acceptPrincipal(
  db: Database,
  verifier: Verifier,
  principal: { humanId: string },
  acceptance: Acceptance,
): Promise<void> {
  await db("accepted_principals").insert(rowOf(verifier, principal.humanId, acceptance));
}

/** Fills a platform with the maximum number of accepted principals, each a separate account. */
export async function fillAcceptedPrincipals(
  { db }: { db: Database },
  { person, platform }: { person: { accountId: string }; platform: { connectionId: string } },
): Promise<void> {
  const created = new Date("2026-01-01T00:00:00.000Z");
  const key = { ed25519: "", ml_dsa_65: "" };
  const accounts = Array.from({ length: MAX_ACCEPTED_PRINCIPALS }, () => ({
    account_id: randomUUID(),
    email: `${randomUUID()}@example.test`,
    onboarding_step: "complete" as const,
    account_type: "individual" as const,
    human_id: randomBytes(16).toString("hex"),
    root_key_id: randomUUID(),
    root_public_key: key,
    created_at: created,
  }));
  await db("accounts").insert(accounts);
  const verifier = { accountId: person.accountId, connectionId: platform.connectionId };
  await db("accepted_principals").insert(
    accounts.map(({ human_id }) => rowOf(verifier, human_id, { created_at: created })),
  );
}

function rowOf(
  { accountId, connectionId }: Verifier,
  humanId: string,
  { scopes = ["data:read"], ...times }: Acceptance,
) {
  return {
    account_id: accountId,
    connection_id: connectionId,
    human_id: humanId,
    scopes,
    granted_scope: scopes,
    ...times,
  };
}
