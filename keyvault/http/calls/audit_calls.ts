import { z } from "zod";
import type { ListAudit } from "../../audit/list.ts";
import { shaped } from "../body.ts";
import type { Call } from "./calls.ts";

/** Query of `GET /v1/audit`. */
const auditQuery = z.strictObject({
  after: z.coerce.number().int().min(0).exactOptional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
});

/** The call that shows the audit. */
export function createAuditCalls({ listAudit }: { listAudit: ListAudit }): readonly Call[] {
  return [
    {
      method: "GET",
      path: "/v1/audit",
      roles: ["admin", "auditor"],
      handle: ({ context }) => listAudit(shaped(auditQuery, { ...context.query }, "query")),
    },
  ];
}
