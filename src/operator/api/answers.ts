import { z } from "zod";

const time = z.iso.datetime();
const text = z.string();

/** Show-once secrets of a platform, delivered again until they are acknowledged. */
export const credentials = z.object({
  api_key: text,
  signing_secret: text,
  webhook_signing_secret: text,
});
export type Credentials = z.infer<typeof credentials>;

export const platformAnswer = z.object({
  platform_id: text,
  connection_id: text,
  api_key_prefix: text,
  default_allowed_scopes: z.array(text),
  callback_url: text.nullable(),
  credentials: credentials.nullable(),
});
export type PlatformAnswer = z.infer<typeof platformAnswer>;

export const agentAnswer = z.object({
  agent_id: text,
  name: text,
  agent_type: text,
  custody_mode: text,
  public_key_json: z.json(),
  disabled: z.boolean(),
});
export type AgentAnswer = z.infer<typeof agentAnswer>;

export const delegationState = z.object({
  request_id: text,
  status: z.enum(["pending", "approved", "denied", "expired", "withdrawn", "revoked"]),
  reason: text.nullable(),
  requested_scope: z.array(text),
  approved_scope: z.array(text).nullable(),
  cert_id: text.nullable(),
  issued_at: time.nullable(),
  expires_at: time.nullable(),
  decided_by: text.nullable(),
});
/** A delegation as the API has it. */
export type DelegationState = z.infer<typeof delegationState>;

export const platformState = z.object({
  platform_id: text,
  connection_id: text,
  /** Null when the platform was removed. */
  api_key_prefix: text.nullable(),
  removed: z.boolean(),
});
/** A registered platform as the API has it. */
export type PlatformState = z.infer<typeof platformState>;

export const agentState = z.object({ agent_id: text, disabled: z.boolean() });
/** An agent as the API has it. */
export type AgentState = z.infer<typeof agentState>;

export const stateAnswer = z.object({
  platforms: z.record(text, platformState),
  agents: z.record(text, agentState),
  delegations: z.record(text, delegationState),
});
/** What the API has under the external ids that were asked for; ids that it does not know are left out. */
export type StateAnswer = z.infer<typeof stateAnswer>;

export const acknowledged = z.object({ acknowledged: z.literal(true) });
export const removed = z.object({ removed: z.literal(true) });

export const errorAnswer = z.object({ error: z.object({ code: text, message: text }) });
