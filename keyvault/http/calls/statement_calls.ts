import { z } from "zod";
import { MAX_CERTS_PER_REVOCATION_LIST } from "../../../src/protocol/statements/revocation_list.ts";
import { refuse } from "../../errors.ts";
import type { SignRevocationList } from "../../sign/revocation_list.ts";
import { MAX_LIST_BODY_BYTES, readBody } from "../body.ts";
import { identifierList, tenantName } from "../schemas.ts";
import type { Call } from "./calls.ts";

/** The operations behind the calls that sign statements other than delegations and challenges. */
export type StatementOperations = { signRevocationList: SignRevocationList };

/**
 * Statements of the wire format that no feature needs yet. Each is signed once it is needed, then by a rule
 * of its own.
 */
const WITHHELD = ["revocation-push", "key-rotation", "receipt", "checkpoint"] as const;

const seconds = z.int().min(0);
const revocationList = z
  .strictObject({
    tenant: tenantName,
    updated_at: seconds,
    revoked_certs: identifierList(MAX_CERTS_PER_REVOCATION_LIST),
    expires_at: z.custom<number[]>(isListOfSeconds, "must be a list of Unix seconds"),
  })
  .refine(({ revoked_certs, expires_at }) => revoked_certs.length === expires_at.length, {
    path: ["expires_at"],
    error: "must be as long as revoked_certs",
  });

/** The call that signs revocation lists, and those for what is withheld, which every role is refused. */
export function createStatementCalls({ signRevocationList }: StatementOperations): readonly Call[] {
  return [
    {
      method: "POST",
      path: "/v1/keys/:id/sign/revocation-list",
      roles: ["api"],
      handle: async ({ caller, keyId, context }) =>
        signRevocationList(caller, keyId, await readBody(context, revocationList, MAX_LIST_BODY_BYTES)),
    },
    ...WITHHELD.map(
      (kind): Call => ({
        method: "POST",
        path: `/v1/keys/:id/sign/${kind}`,
        roles: [],
        handle: async () => refuse("forbidden"),
      }),
    ),
  ];
}

/** Checked in one pass, because a list may have tens of thousands while other calls wait. */
function isListOfSeconds(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}
