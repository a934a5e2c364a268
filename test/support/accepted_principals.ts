import { randomBytes, randomUUID } from "node:crypto";
import type { Database } from "../../src/db/connection.ts";
import { MAX_ACCEPTED_PRINCIPALS } from "../../src/platforms/accepted_principals/accept.ts";
import type { ProofWorld } from "./proof_world.ts";

/** Writes that a connection accepts `data:read` of another account's root. */
export async function acceptPrincipal(
  db: Database,
  verifier: Pick<ProofWorld, "accountId" | "connectionId">,
  principal: Pick<ProofWorld, "humanId">,
  fields: { created_at: Date; accepted_until?: Date },
): Promise<void> {
  await db("accepted_principals").insert({
    account_id: verifier.accountId,
    connection_id: verifier.connectionId,
    human_id: principal.humanId,
    scopes: ["data:read"],
    granted_scope: ["data:read"],
    ...fields,
  });
}

/** Writes as many accepted principals at a person's platform as it may have, each of an account of its own. */
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
  await db("accepted_principals").insert(
    accounts.map(({ human_id }) => ({
      account_id: person.accountId,
      connection_id: platform.connectionId,
      human_id,
      scopes: ["data:read"],
      granted_scope: ["data:read"],
      created_at: created,
    })),
  );
}
