import type { Subject } from "../../../src/accounts/mailings/subjects.ts";

export const NOW = new Date("2026-11-28T10:42:07Z");
export const PLACE = {
  baseUrl: "https://deputize.example.com/",
  stop: { page: "/stop", call: "/call" },
};

/** A request that waits in a personal account, with other values of some fields. */
export function subject(fields: Partial<Subject> = {}): Subject {
  return {
    request_id: "req_1",
    account_id: "7d6c3a52-55a7-4ff0-8f0c-2a5b8e6f1a11",
    organization_name: null,
    agent_name: "Refund helper",
    platform_name: "Webshop",
    publisher_name: null,
    publisher_domain: null,
    status: "pending",
    requested_scope: ["data:read", "payments:send"],
    scope_descriptions: {},
    purpose: null,
    asked_by: null,
    requested_expires_at: null,
    requested_expires_in: 30 * 86_400,
    expires_at: new Date("2026-12-05T00:00:00Z"),
    decided_by: null,
    approved_scope: null,
    cert_id: null,
    ends_at: null,
    ...fields,
  };
}
