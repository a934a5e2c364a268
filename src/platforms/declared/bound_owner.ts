import { canonicalEmail } from "../../accounts/email.ts";
import type { Clock } from "../../clock.ts";
import {
  askForBinding,
  findAcceptedBinding,
  fixNamespaceUid,
  type NamespacePlace,
} from "../../clusters/namespace_binding.ts";
import type { NamespaceBindingRow } from "../../db/cluster_tables.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { named } from "../../input/ceiling.ts";
import { coversScopes } from "../../protocol/documents/scopes.ts";
import { findOwner, type Owner } from "../account_owner.ts";
import type { CheckChange } from "../platform_record.ts";

/** An account that a namespace acts for, and the limits that its owner set for the namespace. */
export type BoundOwner = { owner: Owner; binding: NamespaceBindingRow };

/**
 * Returns the account with this address, if its owner has accepted the namespace. Otherwise, shows the owner
 * a request and throws `namespace_not_bound`. Throws the same error if no account has the address.
 */
export async function findBoundOwner(
  deps: { db: Database; clock: Clock },
  email: string,
  place: NamespacePlace,
): Promise<BoundOwner> {
  const address = canonicalEmail(email.trim());
  const account =
    address === undefined
      ? undefined
      : await deps.db("accounts").where({ email: address }).first("account_id", "onboarding_step");
  if (account === undefined) throw notBound(place);
  const binding = await findAcceptedBinding(deps.db, account.account_id, place);
  if (binding !== undefined) {
    if (binding.namespace_uid === null) await fixNamespaceUid(deps.db, account.account_id, place);
    return { owner: await findOwner(deps.db, account.account_id), binding };
  }
  await askForBinding(deps, account.account_id, place);
  throw notBound(place);
}

/**
 * Returns the binding of a namespace that acts for an account. It cannot change before the transaction ends.
 * Throws `namespace_not_bound`.
 */
export async function requireBinding(
  tx: Transaction,
  accountId: string,
  place: NamespacePlace,
): Promise<NamespaceBindingRow> {
  const binding = await findAcceptedBinding(tx, accountId, place, { lock: true });
  if (binding === undefined) throw notBound(place);
  return binding;
}

/**
 * Returns a check that the account accepts the namespace and all of these scopes for it. Both remain true
 * until the transaction ends. The check throws `namespace_not_bound`, `ceiling_exceeded`.
 */
export function bindingCheck(
  accountId: string,
  place: NamespacePlace,
  scopes: readonly string[],
): CheckChange {
  return async (tx) => checkWithinBinding(await requireBinding(tx, accountId, place), scopes);
}

/**
 * Returns a check that the connection's account accepts the namespace of its platform, until the transaction
 * ends. A namespace that is no longer accepted receives no key and no agent, but what it registered remains.
 * The check throws `namespace_not_bound`.
 */
export function boundConnectionCheck(connectionId: string, clusterId: string): CheckChange {
  return async (tx) => {
    const platform = await tx("connections as c")
      .join("platforms as p", "p.platform_id", "c.platform_id")
      .where({ "c.connection_id": connectionId })
      .first("p.account_id", "p.object_namespace");
    const namespace = platform?.object_namespace ?? "";
    await requireBinding(tx, platform?.account_id ?? "", { clusterId, namespace });
  };
}

/**
 * Throws `ceiling_exceeded` if the account's owner has not accepted all of these scopes for the namespace.
 */
export function checkWithinBinding({ ceiling }: NamespaceBindingRow, scopes: readonly string[]): void {
  const over = ceiling === null ? [] : coversScopes(ceiling, scopes);
  if (over.length > 0) {
    throw new ApiError(
      "ceiling_exceeded",
      `The account's owner does not allow this namespace to request these scopes: ${named(over)}`,
    );
  }
}

function notBound({ clusterId, namespace }: NamespacePlace): ApiError {
  return new ApiError(
    "namespace_not_bound",
    `No account with this address has accepted namespace ${namespace} of cluster ${clusterId}; the account's owner accepts it with PUT /v1/service/namespace-bindings/${clusterId}/${namespace}`,
  );
}
