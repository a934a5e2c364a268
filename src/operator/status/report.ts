import type { OperatorContext } from "../context.ts";
import {
  type AnyObject,
  type CommonStatus,
  type Condition,
  keyOf,
  keyText,
  reconcileRequest,
} from "../kinds.ts";
import { conditionOf, definedOnly, sameStatus } from "./conditions.ts";
import { progressOf, type StatusReason } from "./reasons.ts";

type Reporter = Pick<OperatorContext, "resources" | "log">;

/**
 * Writes a status, once, when it says anything new; then reports a new reason as an event and in the log. An
 * unchanged status writes nothing.
 */
export async function report(
  { resources, log }: Reporter,
  object: AnyObject,
  found: CommonStatus & { conditions: Condition[] },
  verdict: StatusReason,
): Promise<void> {
  const { reason, message } = verdict;
  const status = definedOnly({ ...found, lastHandledReconcileAt: reconcileRequest(object) });
  if (sameStatus(ownPart(object.status), status)) return;
  await resources.writeStatus(object, status);
  if (conditionOf(object.status, "Ready")?.reason === reason) return;
  log.info({ object: keyText(keyOf(object)), reason }, message);
  const type = progressOf(verdict) === "stuck" ? "Warning" : "Normal";
  resources.recordEvent(object, { type, reason, message });
}

/** A status without what people write. */
function ownPart(status: AnyObject["status"]): CommonStatus {
  const { approval: _, ...own } = { approval: undefined, ...status };
  return own;
}
