import type { Json } from "./schema.ts";

const HUMAN = "3f1c9a4be07d25186c4fb2a9d0e87315";
const AGENT = "b7a40c1df25e9638814a6d03c9e2f57b";
const ID = "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846";
const SCOPE = "payments:send";
const HASH = `sha256:${"5f".repeat(32)}`;
const KEY = { ed25519: "base64, 32 bytes", ml_dsa_65: "base64, 1952 bytes" };

/** Example values by member name. A value that does not match the schema is not used. */
const shown: Json = {
  accepted_until: "2099-01-01T00:00:00.000Z",
  account_id: ID,
  action: { name: SCOPE },
  action_profile: "refunds/v1",
  address_code: "12345678",
  agent_id: AGENT,
  agent_type: "api_agent",
  api_key: "dpz_k3v9x2qa_kq0W3n1xY7bT5mR9sD2fG4hJ6kL8zXcVbNmQwErTyUi_a1B2c3",
  api_key_prefix: "dpz_k3v9x2qa",
  approval_channel: "session",
  approved_by: "ada@example.com",
  approved_scope: [SCOPE],
  callback_url: "https://shop.example.com/deputize",
  cert_id: `cert-${ID}`,
  cert_json: { cert_id: `cert-${ID}` },
  challenge: "kW3n1xY7bT5mR9sD2fG4hJ6kL8zXcVbNmQwErTyUi1A=",
  checks: [{ name: "signature", outcome: "passed" }],
  cluster: "prod",
  code: "123456",
  connect_request: "eyJpZCI6IjAxOTgwZjNlIn0.c2lnbmF0dXJl",
  connection_id: ID,
  context: {
    assurance: "proof",
    reason: "authorized",
    cert_id: `cert-${ID}`,
    agent_id: AGENT,
    human_id: HUMAN,
    receipt_id: ID,
    receipt_hash: HASH,
    replayed: false,
  },
  credits: 10_000_000,
  decision_reason: "authorized",
  default_allowed_scopes: ["data:read", SCOPE],
  delivery_id: ID,
  domain: "shop.example.com",
  email: "ada@example.com",
  event: "delegation.approved",
  event_id: ID,
  expires_at: "2026-02-01T09:30:00.000Z",
  expires_in: 86_400,
  first_name: "Ada",
  granted_scope: [SCOPE],
  human_id: HUMAN,
  id: AGENT,
  identity_status: "authorized_agent",
  invocation_id: "order-4711-refund-1",
  last_name: "Lovelace",
  message: "what is wrong, for people",
  name: "Shop",
  new_address_code: "87654321",
  namespace: "shop",
  operation: {
    verifier_id: ID,
    workspace_id: ID,
    agent_id: AGENT,
    action: "refund",
    resource_id: "order-4711",
    requested_path: "/orders/4711/refund",
    session_id: "",
    invocation_id: "order-4711-refund-1",
    request_hash: HASH,
  },
  organization_name: "Analytical Engines",
  platform_id: ID,
  policy_decision_point: "https://api.example.com",
  proof_bundle: { agent_id: AGENT, challenge: "…" },
  proof_ref: "cHJvb2YgcmVmZXJlbmNl",
  public_key: KEY,
  public_key_json: KEY,
  purpose: "Refund customers who cancel",
  receipt: { receipt_id: ID, decision: "allow" },
  reason: "No longer needed",
  receipt_hash: HASH,
  receipt_id: ID,
  replayed: false,
  redirect_to: "https://shop.example.com/connected?code=…",
  request_id: `req-${ID}`,
  requested_scope: [SCOPE],
  required_scope: SCOPE,
  resource: { type: "connection", id: ID },
  scopes: ["data:read", SCOPE],
  session_id: ID,
  subject: { type: "agent", id: AGENT },
  surface_type: "agentic_api",
  target: SCOPE,
  timezone: "UTC",
  ttl_seconds: 300,
  url: "https://shop.example.com",
  verifier_id: "https://shop.example.com",
};

/** Optional members to include in request examples that would otherwise explain little, by operation. */
const requests: Record<string, readonly string[]> = {
  verify_proof: ["required_scope", "proof_ref"],
  present_proof: ["challenge", "required_scope"],
  request_delegation: ["connection_id", "requested_scope", "expires_in"],
  request_delegation_with_key: ["agent_id", "requested_scope", "purpose"],
  approve_delegation_request: ["approved_scope", "expires_in"],
  change_organization: ["four_eyes"],
  change_platform: ["default_allowed_scopes"],
  rotate_api_key: ["grace_seconds"],
  create_api_key: ["role", "agent_id"],
  revoke_delegation: ["reason"],
  deny_delegation_request: ["reason"],
  access_evaluations: ["subject", "resource", "evaluations"],
};

/** Example values for requests whose member names mean something else in answers, by operation. */
const asked: Record<string, Json> = {
  confirm_platform_adoption: { name: "shop" },
  confirm_agent_adoption: { name: "bot" },
  request_access: {
    requested_access: { scopes: [SCOPE] },
    context: { purpose: "Refund customers who cancel" },
  },
  access_evaluations: { evaluations: [{ action: { name: SCOPE } }, { action: { name: "data:read" } }] },
};

/** Members that are usually null. Examples show them as null if the schema allows null. */
const empty = new Set([
  "next_cursor",
  "disabled_at",
  "revoked_at",
  "revoke_reason",
  "decided_at",
  "decided_by",
]);

const TIME = "2026-01-31T09:30:00.000Z";

/** Returns an example of a request body, with the required members and a few useful optional members. */
export function requestExample(operationId: string, schema: Json): unknown {
  const one = firstOf(schema);
  const named = requests[operationId] ?? (one.required as string[] | undefined) ?? [];
  const properties = Object.entries((one.properties ?? {}) as Record<string, Json>);
  if (one.type !== "object") return exampleOf(schema);
  const members = properties.filter(([name]) => named.includes(name));
  const examples = members.map(([name, member]) => [name, exampleOf(member, name)]);
  return { ...Object.fromEntries(examples), ...asked[operationId] };
}

/** Returns a value that matches a schema. Uses the example value for the member name if there is one. */
export function exampleOf(schema: Json, name = ""): unknown {
  if (mayBeNull(schema) && (empty.has(name) || !Object.hasOwn(shown, name))) return null;
  const one = firstOf(schema);
  const { const: only, enum: words, default: usual, type } = one;
  if (only !== undefined) return only;
  if (Array.isArray(words)) return words[0];
  if (Object.hasOwn(shown, name) && isOf(shown[name], type)) return shown[name];
  if (usual !== undefined) return usual;
  return ofType(one, name);
}

function ofType(schema: Json, name: string): unknown {
  const { type, format, items, properties = {}, minimum } = schema;
  if (type === "object") {
    return Object.fromEntries(
      Object.entries(properties as Record<string, Json>).map(([member, each]) => [
        member,
        exampleOf(each, member),
      ]),
    );
  }
  if (type === "array") return items === undefined ? [] : [exampleOf(items as Json, name.replace(/s$/, ""))];
  if (type === "integer" || type === "number") return minimum ?? 0;
  if (type === "boolean") return true;
  if (type === "null") return null;
  if (format === "date") return TIME.slice(0, 10);
  return format === "date-time" ? TIME : "text";
}

/** Returns the first alternative of a schema. So a nullable value is shown with a value, not as null. */
function firstOf(schema: Json): Json {
  const forms = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
  return forms?.[0] === undefined ? schema : firstOf(forms[0]);
}

function mayBeNull({ anyOf, type }: Json): boolean {
  if (Array.isArray(type)) return type.includes("null");
  return Array.isArray(anyOf) && anyOf.some((form: Json) => form.type === "null");
}

function isOf(value: unknown, type: unknown): boolean {
  if (Array.isArray(type)) return type.some((each) => isOf(value, each));
  if (Array.isArray(value)) return type === "array";
  if (typeof value === "number") return type === "integer" || type === "number";
  return typeof value === type;
}
