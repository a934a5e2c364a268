import { z } from "zod";
import { addSeconds } from "../../clock.ts";
import { type Database, platformOf } from "../../db/database.ts";
import type { AuditEventRow, Refusal } from "../../db/tables.ts";
import { isUuid, timeOfId } from "../../ids.ts";
import { isoTime } from "../../input/schemas.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { Receipt } from "../decide/decision_receipt.ts";
import type { DenyReason } from "../decide/reasons.ts";
import { type NamedAction, namedActionHash, type Operation } from "../operation.ts";

/** Seconds after a refusal in which the agent can ask a person about it. */
export const ASKABLE_SECONDS = 3_600;

/** The denials that a person's approval could resolve. */
const RESOLVABLE: readonly string[] = [
  "not_delegated",
  "delegation_expired",
  "delegation_revoked",
  "constraint_denied",
] satisfies DenyReason[];

/** Members of an answer about a refusal that an approval could resolve, named as in AuthZEN's draft. */
export const askMembers = {
  evaluation_id: z.string().optional().describe("With access_request: names this refusal there"),
  access_request: z
    .object({ endpoint: z.string(), expires_at: isoTime })
    .optional()
    .describe("Where the agent can ask a person for this authority"),
};

/** The members of {@link askMembers}, or none. */
export type AskMembers = z.infer<z.ZodObject<typeof askMembers>>;

/** Returns the address at which agents ask. `word` is the service's name in its paths. */
export function askEndpoint(root: string, word: string): string {
  return `${root}/v1/${word}/access-requests`;
}

/** Returns the members for a decision. There are none unless an approval could resolve the denial. */
export function askMembersOf(
  endpoint: string,
  { decision, decision_reason, ...receipt }: Receipt,
): AskMembers {
  if (decision !== "deny" || !RESOLVABLE.includes(decision_reason)) return {};
  return {
    evaluation_id: receipt.receipt_id,
    access_request: { endpoint, expires_at: endOfAsking(new Date(receipt.verified_at)).toISOString() },
  };
}

function endOfAsking(refusedAt: Date): Date {
  return addSeconds(refusedAt, ASKABLE_SECONDS);
}

/** A refusal that an agent may ask about. `action`: the hash of the refused action with its verifier. */
export type FoundRefusal = Refusal & { action: Buffer | null };

/** The account and the agent that were refused. */
type Refused = { accountId: string; agentId: string };

/** `connectionId`: the verifier, if no operation names it. */
type Unproven = {
  agentId: string;
  requiredScope: string;
  operation: Operation | undefined;
  connectionId: string;
};

const CONTEXT = "access_request";

/**
 * Returns the members for a `present` call that found no certificate. The evaluation id is the sealed refusal
 * itself, because a call that is refused must store nothing.
 */
export function sealRefusal(
  secretBox: SecretBox,
  endpoint: string,
  { agentId, requiredScope, operation, connectionId }: Unproven,
  now: Date,
): AskMembers {
  const verifier =
    operation === undefined
      ? { connectionId }
      : {
          named: {
            verifier_id: operation.verifier_id,
            workspace_id: operation.workspace_id,
            request_hash: operation.request_hash,
          },
        };
  const content: Sealed = { agentId, requiredScope, at: now.getTime(), ...verifier };
  const sealed = secretBox.box(JSON.stringify(content), CONTEXT);
  return {
    evaluation_id: sealed.toString("base64url"),
    access_request: { endpoint, expires_at: endOfAsking(now).toISOString() },
  };
}

type Sealed = {
  agentId: string;
  requiredScope: string;
  at: number;
  named?: NamedAction;
  connectionId?: string;
};

/**
 * Returns the refusal of this agent that an evaluation id names. Returns `undefined` for a refusal of another
 * agent, for one that is too old or cannot be asked about, and for an id that this service did not create.
 */
export async function findRefusal(
  { db, secretBox }: { db: Database; secretBox: SecretBox },
  refused: Refused,
  evaluationId: string,
  now: Date,
): Promise<FoundRefusal | undefined> {
  const found = isUuid(evaluationId)
    ? await findDenied(db, refused, evaluationId)
    : await openSealed({ db, secretBox }, refused, evaluationId);
  return found !== undefined && now < endOfAsking(new Date(found.refused_at)) ? found : undefined;
}

async function openSealed(
  { db, secretBox }: { db: Database; secretBox: SecretBox },
  { accountId, agentId }: Refused,
  text: string,
): Promise<FoundRefusal | undefined> {
  const sealed = unsealed(secretBox, text);
  if (sealed?.agentId !== agentId) return undefined;
  const { named } = sealed;
  return {
    evaluation_id: null,
    reason: "no_active_delegation",
    required_scope: sealed.requiredScope,
    refused_at: new Date(sealed.at).toISOString(),
    verifier: await nameOf(db, sealed, accountId),
    action: named === undefined ? null : namedActionHash(named),
  };
}

function unsealed(secretBox: SecretBox, text: string): Sealed | undefined {
  try {
    return JSON.parse(secretBox.unbox(Buffer.from(text, "base64url"), CONTEXT)) as Sealed;
  } catch {
    // The box was not made here, or it was changed.
    return undefined;
  }
}

/** Returns which connection `c` the verifier is. */
function placeOf({ named, connectionId }: Sealed): Record<string, string> | undefined {
  if (named === undefined) {
    return connectionId === undefined ? undefined : { "c.connection_id": connectionId };
  }
  const { workspace_id, verifier_id } = named;
  return isUuid(workspace_id) ? { "c.account_id": workspace_id, "c.verifier_id": verifier_id } : undefined;
}

/** Returns how people know a verifier, or null outside this service, where anybody chooses the name. */
async function nameOf(db: Database, sealed: Sealed, accountId: string): Promise<Refusal["verifier"]> {
  const place = placeOf(sealed);
  if (place === undefined) return null;
  const row = await db("connections as c")
    .join("platforms as p", "p.platform_id", db.raw(platformOf("c")))
    .join("accounts as a", "a.account_id", "c.account_id")
    .where(place)
    .whereNull("c.removed_at")
    .orderBy("c.created_at")
    .first("p.name as platform_name", "a.organization_name", "c.account_id");
  if (row === undefined) return null;
  const { account_id, ...names } = row;
  return { ...names, same_account: account_id === accountId };
}

type DeniedRow = Pick<
  AuditEventRow,
  "decision_reason" | "required_scope" | "explanation" | "occurred_at" | "verifier_account_id"
> & {
  verifier_platform_name: string | null;
  verifier_organization_name: string | null;
  platform_name: string | null;
  receipt: string | null;
};

/** Finds a denial in the history of the agent's account, by the time in its id. */
async function findDenied(
  db: Database,
  { accountId, agentId }: Refused,
  receiptId: string,
): Promise<FoundRefusal | undefined> {
  const decidedAt = timeOfId(receiptId);
  if (decidedAt === undefined) return undefined;
  const row: DeniedRow | undefined = await db("audit_events as e")
    .leftJoin("connections as c", "c.connection_id", "e.connection_id")
    .leftJoin("platforms as p", "p.platform_id", db.raw(platformOf("c")))
    .leftJoin("audit_events as own", (on) =>
      on
        .on("own.account_id", db.raw("coalesce(e.verifier_account_id, e.account_id)"))
        .on("own.occurred_at", "e.occurred_at")
        .on("own.event_id", "e.event_id"),
    )
    .where({ "e.account_id": accountId, "e.occurred_at": decidedAt, "e.event_id": receiptId })
    .andWhere({ "e.agent_id": agentId, "e.decision": "deny" })
    .whereIn("e.decision_reason", RESOLVABLE)
    .first(
      ...["e.decision_reason", "e.required_scope", "e.explanation", "e.occurred_at", "e.verifier_account_id"],
      ...["e.verifier_platform_name", "e.verifier_organization_name", "p.name as platform_name"],
      "own.receipt",
    );
  return row && refusalOf(row, receiptId, accountId);
}

function refusalOf(row: DeniedRow, receiptId: string, accountId: string): FoundRefusal {
  const receipt = row.receipt === null ? undefined : (JSON.parse(row.receipt) as Receipt);
  const requestHash = receipt?.request_hash ?? null;
  const isOwn = row.verifier_account_id === null;
  return {
    evaluation_id: receiptId,
    reason: row.decision_reason ?? "",
    required_scope: row.required_scope ?? "",
    refused_at: row.occurred_at.toISOString(),
    verifier: isOwn
      ? row.platform_name === null
        ? null
        : { platform_name: row.platform_name, organization_name: null, same_account: true }
      : {
          platform_name: row.verifier_platform_name ?? "",
          organization_name: row.verifier_organization_name,
          same_account: false,
        },
    ...(row.explanation !== null && { explanation: row.explanation }),
    action:
      receipt === undefined || requestHash === null
        ? null
        : namedActionHash({
            verifier_id: receipt.verifier_id,
            workspace_id: row.verifier_account_id ?? accountId,
            request_hash: requestHash,
          }),
  };
}
