import type { z } from "zod";
import type { historyEntry } from "../../history/history_entry.ts";
import type { AccountEventType, accountEventKinds, EventFields, EventType } from "../kinds.ts";

type HistoryEntry = z.infer<typeof historyEntry>;

const CONNECTION = "01a20f6b-8aca-7a04-8b3e-8393eae000ee";
const ACCOUNT = "01a20f6b-8a80-7d43-8b7a-118493a3f3ba";
const AGENT = "56e0b6b283a54cc90288b94bbdc52330";
const CERTIFICATE = "cert-01a20f6b-8b22-75d2-a0c7-9c876ff57652";
const NOW = "2026-11-24T21:17:14.754Z";

const granted = {
  request_id: "req-01a20f6b-8b0b-7fbc-a758-d47e9b174eab",
  connection_id: CONNECTION,
  org_id: ACCOUNT,
  agent_id: AGENT,
};
const agentKey = {
  ed25519: "lMHtc/19MmOumBpmNQRMJg80S3XDUzKiHtctJ72b4B8=",
  ml_dsa_65: "MMGL1kHzDe99gA/EyEKjECU3Ra9LQspLJeeXdTVB…",
};
const signature = {
  ed25519: "g+Rwq/QnlxUQr3/hCvRh/eVGhbfrf3AcpR2dSzdOaCgxQplyq3jrR45mXqsEZKZoMYEMfFxSMmD3y+/3aj2jBg==",
  ml_dsa_65: "/h+r8uzehhiVnfmO1TIwozKnrIIMngyoA21TJRUs…",
};
const entry = {
  occurred_at: NOW,
  agent_id: AGENT,
  cert_id: CERTIFICATE,
  connection_id: CONNECTION,
};

/** One real event of each kind, without `event`. Long keys and signatures are shortened. */
export const eventExamples: { [T in EventType]: EventFields<T> } & {
  [T in AccountEventType]: z.infer<(typeof accountEventKinds)[T]>;
} & Record<HistoryEntry["event_type"], HistoryEntry> = {
  "connection.created": {
    connection_id: CONNECTION,
    platform_id: "01a20f6b-8aca-7a04-8b3e-83925473f8bd",
    org_id: ACCOUNT,
    org_name: "Ada Lovelace",
    allowed_scopes: ["data:read", "payments:send", "custom:orders:refund"],
    callback_url: "https://shop.example.com/deputize",
  },
  "connection.key_rotated": {
    connection_id: CONNECTION,
    api_key_prefix: "dpz_7yxyfaBE",
    previous_prefix: "dpz_qAwkO6OP",
  },
  "connection.key_created": {
    connection_id: CONNECTION,
    api_key_prefix: "dpza_Yq0L4uPd",
    role: "agent",
    agent_id: AGENT,
    made_with: "dpz_7yxyfaBE",
  },
  "connection.key_ended": {
    connection_id: CONNECTION,
    api_key_prefix: "dpza_Yq0L4uPd",
    role: "agent",
    agent_id: AGENT,
    ended_at: NOW,
    ended_with: null,
  },
  "connection.changed": { connection_id: CONNECTION, org_id: ACCOUNT, allowed_scopes: ["data:read"] },
  "connection.removed": { connection_id: CONNECTION, org_id: ACCOUNT, removed_at: NOW },
  "delegation.approved": {
    ...granted,
    approved_scope: ["payments:send"],
    cert_json: {
      cert_id: CERTIFICATE,
      constraints: [],
      expires_at: 4_070_908_799,
      issued_at: 1_795_555_034,
      issuer_id: "b0d35a2f2217e377db1d32788c9512b0",
      issuer_pub_key: {
        ed25519: "CSs5Ap3/HA8i1oq3z141Fmy9TBObFNC51CPqGLbJUTA=",
        ml_dsa_65: "K1teJr2kdBmTWq2e60gFlD0+NUdukaa7Fgtl4Ugo…",
      },
      scope: ["payments:send"],
      signature,
      subject_id: AGENT,
      subject_pub_key: agentKey,
      version: 1,
    },
    delegation_key_statement: {
      type: "key_attestation",
      version: 1,
      key_id: AGENT,
      public_key: agentKey,
      tenant: ACCOUNT,
      purpose: "agent",
      created_at: 1_795_555_034,
      attested_by: "e07d25186c4fb2a9d0e873153f1c9a4b",
      signature,
    },
  },
  "delegation.denied": granted,
  "delegation.revoked": {
    cert_id: CERTIFICATE,
    agent_id: AGENT,
    connection_id: CONNECTION,
    org_id: ACCOUNT,
    reason: "no longer needed",
  },
  "callback.test": { connection_id: CONNECTION, org_id: ACCOUNT, sent_at: NOW },
  "webhook.suspended": {
    account_id: ACCOUNT,
    connection_id: CONNECTION,
    reason: "failing",
    occurred_at: NOW,
  },
  "credits.low": {
    account_id: ACCOUNT,
    level: "low",
    balance_micro_usd: 1_998_000,
    low_at_micro_usd: 2_000_000,
    price_micro_usd: 2_000,
    occurred_at: NOW,
  },
  "proof.verified": {
    event_id: "01a20f6b-8682-75ce-8e40-8f492896834a",
    event_type: "proof.verified",
    ...entry,
    details: {
      decision: "allow",
      decision_reason: "authorized",
      required_scope: "payments:send",
      receipt_id: "01a20f6b-8682-75ce-8e40-8f492896834a",
      verifier: { platform_name: "Shop", organization_name: "Analytical Engines" },
    },
  },
  "proof.rejected": {
    event_id: "01a20f6b-8682-75d0-b742-4ec1228b1469",
    event_type: "proof.rejected",
    ...entry,
    details: {
      decision: "deny",
      decision_reason: "not_delegated",
      required_scope: "data:share",
      receipt_id: "01a20f6b-8682-75d0-b742-4ec1228b1469",
    },
  },
  "proof.presented": {
    event_id: "01a20f6b-8682-75cd-bc13-d1bc1c4a2530",
    event_type: "proof.presented",
    ...entry,
    details: {},
  },
};

/** Example values of the secrets that webhook bodies contain. */
export const secretExamples = {
  api_key: "dpz_7yxyfaBE_kq0W3n1xY7bT5mR9sD2fG4hJ6kL8zXcVbNmQwErTyUi_a1B2c3",
  webhook_signing_secret: `whsec_${"a2V5".repeat(10)}a2U=`,
};
