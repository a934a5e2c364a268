import { type ZodType, z } from "zod";
import { namespaceUid, objectPlace } from "./input/cluster_fields.ts";
import { declaredInput } from "./input/declared_fields.ts";
import { boundedConstraints, expiryFields, purposeText, reasonFields } from "./input/delegation_fields.ts";
import {
  acceptedPrincipalList,
  agentId,
  agentName,
  agentType,
  custodyFields,
  graceSeconds,
  MAX_ROTATION_REQUEST,
  platformId,
  redirectUriList,
  registrationFields,
  scopeList,
} from "./input/platform_fields.ts";
import { isoTime } from "./input/schemas.ts";

/** The id of a Kubernetes object: `<clusterId>.<metadata.uid>`. */
export const externalId = z
  .string()
  .min(3)
  .max(200)
  .regex(/^[^\0]*$/);

/** Maximum number of external ids in one state call. */
export const MAX_STATE_IDS = 500;

const text = z.string();
const params = z.object({ external_id: externalId });

const credentials = z.object({ api_key: text, signing_secret: text, webhook_signing_secret: text });
/** Secrets of a platform that the API returns to the operator. */
export type Credentials = z.infer<typeof credentials>;

/** The ids that name the platform's connection in an operation. An API of version 0.1 omits them. */
const verifierIds = { workspace_id: text.optional(), verifier_id: text.optional() };

/** How far customers can connect to the platform, and how many have. An API of version 0.1 omits both. */
const publication = { publish_state: text.optional(), customers: z.int().optional() };

const platformAnswer = z.object({
  platform_id: text,
  connection_id: text,
  ...verifierIds,
  ...publication,
  api_key_prefix: text,
  api_key_issued_at: isoTime,
  rotation_request: text
    .nullable()
    .describe("The last request for a new key that was carried out; null if there was none"),
  default_allowed_scopes: z.array(text),
  callback_url: text.nullable(),
  credentials: credentials
    .nullable()
    .describe("Every answer contains the same credentials until they are acknowledged"),
});
export type PlatformAnswer = z.infer<typeof platformAnswer>;

const agentAnswer = z.object({
  agent_id: text,
  name: text,
  agent_type: text,
  custody_mode: text,
  /** The public key with all its members, because the operator publishes the fingerprint of the whole key. */
  public_key_json: z.looseObject({ ed25519: text, ml_dsa_65: text }),
  disabled: z.boolean(),
});
export type AgentAnswer = z.infer<typeof agentAnswer>;

const platformState = z.object({
  platform_id: text,
  connection_id: text,
  ...verifierIds,
  ...publication,
  api_key_prefix: text.nullable().describe("null when the platform was removed"),
  api_key_issued_at: isoTime.nullable().describe("null when the platform was removed"),
  rotation_request: text.nullable(),
  removed: z.boolean(),
});
/** The state of a registered platform in the API. */
export type PlatformState = z.infer<typeof platformState>;

const agentKey = { api_key_prefix: text, api_key_issued_at: isoTime, rotation_request: text.nullable() };
const newKey = text
  .nullable()
  .describe("The same in every answer until a call keeps it; null if this call did");
const agentKeyAnswer = z.object({ agent_id: text, connection_id: text, ...agentKey, api_key: newKey });
export type AgentKeyAnswer = z.infer<typeof agentKeyAnswer>;

const storedKey = z.object(agentKey).nullable().describe("null until the operator has stored it");
const agentState = z.object({ agent_id: text, disabled: z.boolean(), key: storedKey.optional() });
/** The state of an agent and of its object's key in the API. An API of version 0.1 omits the key. */
export type AgentState = z.infer<typeof agentState>;

const delegationState = z.object({
  request_id: text,
  account_id: text.optional().describe("The account that decides; an API of version 0.1 omits it"),
  status: z.enum(["pending", "approved", "denied", "expired", "withdrawn", "revoked"]),
  reason: text.nullable(),
  requested_scope: z.array(text),
  approved_scope: z.array(text).nullable(),
  cert_id: text.nullable(),
  issued_at: isoTime.nullable(),
  expires_at: isoTime.nullable().describe("The end of the certificate; null without an end or certificate"),
  decided_by: text.nullable().describe("The address of the person who decided, or their name in the cluster"),
});
/** The state of a declared delegation in the API: its request and, once approved, its certificate. */
export type DelegationState = z.infer<typeof delegationState>;

const liveDelegation = z.object({
  external_id: text,
  namespace: text.nullable(),
  name: text.nullable(),
  status: z.enum(["pending", "approved"]),
});
/** A declared delegation that is active or waits for a decision. */
export type LiveDelegation = z.infer<typeof liveDelegation>;

const stateAnswer = z.object({
  time: isoTime.describe("The service's time, which the operator follows"),
  platforms: z.record(text, platformState),
  agents: z.record(text, agentState),
  delegations: z.record(text, delegationState),
});
/** The states of the requested external ids. An id that the API does not know is omitted. */
export type StateAnswer = z.infer<typeof stateAnswer>;

/** The path, input and response of an operator's call, in the form in which a `Route` declares them. */
export type OperatorCall<B = unknown, R = unknown> = {
  method: "PUT" | "POST" | "DELETE";
  path: string;
  params?: typeof params;
  body?: ZodType<unknown, B>;
  answer: { status: 200; schema: ZodType<R>; description: string };
};

function answerOf<S extends ZodType>(schema: S, description: string) {
  return { status: 200, schema, description } as const;
}

const keyPrefix = z.string().min(1).max(100);
const requestText = z.string().max(MAX_ROTATION_REQUEST);
const rotationRequest = requestText
  .regex(/^[^\0]*$/)
  .optional()
  .describe("The object's current request for a new key. The API carries out each request once");

const platformPath = "/internal/v1/platforms/{external_id}";
const agentPath = "/internal/v1/agents/{external_id}";
const delegationPath = "/internal/v1/delegations/{external_id}";
const removed = answerOf(z.object({ removed: z.boolean() }), "false: it ends soon, so ask again");

/** The operator's calls to the API, for the API's routes, the operator's client and the tests' fake API. */
export const operatorCalls = {
  claimLeadership: {
    method: "POST",
    path: "/internal/v1/leadership",
    body: z.object({ holder: z.string().min(1).max(253).describe("The leading process, for the log") }),
    answer: answerOf(
      z.object({
        epoch: z.int(),
        former_epoch: z
          .int()
          .nullable()
          .describe("The epoch of the previous leader; null for the first leader"),
      }),
      "The epoch that the new leader must send with its calls",
    ),
  },
  putPlatform: {
    method: "PUT",
    path: platformPath,
    params,
    body: z.object({
      ...registrationFields,
      object: objectPlace,
      namespace_uid: namespaceUid.optional(),
      account_email: z.string().min(1).max(320),
      redirect_uris: redirectUriList.optional(),
      adopt: platformId.optional().describe("The platform to adopt; its owner must have confirmed this"),
      accepted_principals: acceptedPrincipalList
        .optional()
        .describe("If absent, the accepted principals do not change"),
    }),
    answer: answerOf(platformAnswer, "The platform, with credentials not acknowledged yet"),
  },
  acknowledgeCredentials: {
    method: "POST",
    path: `${platformPath}/credentials/acknowledge`,
    params,
    body: z.object({ api_key_prefix: keyPrefix }),
    answer: answerOf(z.object({ acknowledged: z.literal(true) }), "Acknowledged"),
  },
  rotateCredentials: {
    method: "POST",
    path: `${platformPath}/credentials/rotate`,
    params,
    body: z.object({ grace_seconds: graceSeconds, request: rotationRequest }).optional(),
    answer: answerOf(platformAnswer, "The platform, with its credentials"),
  },
  removePlatform: { method: "DELETE", path: platformPath, params, answer: removed },
  putAgent: {
    method: "PUT",
    path: agentPath,
    params,
    body: z.object({
      object: objectPlace,
      platform_external_id: externalId,
      name: agentName,
      agent_type: agentType,
      adopt: agentId.optional().describe("The agent to adopt; its owner must have confirmed this"),
      ...custodyFields,
    }),
    answer: answerOf(agentAnswer, "The agent"),
  },
  removeAgent: { method: "DELETE", path: agentPath, params, answer: removed },
  putAgentKey: {
    method: "PUT",
    path: `${agentPath}/key`,
    params,
    body: z.object({
      keep: keyPrefix.optional().describe("Prefix of the stored key, unless it must be replaced"),
      grace_seconds: graceSeconds,
      request: rotationRequest,
    }),
    answer: answerOf(agentKeyAnswer, "The key of the agent's object"),
  },
  removeAgentKey: { method: "DELETE", path: `${agentPath}/key`, params, answer: removed },
  putDelegation: {
    method: "PUT",
    path: delegationPath,
    params,
    body: z.object({
      object: objectPlace,
      platform_external_id: externalId,
      agent_external_id: externalId,
      ...declaredInput,
      requested_scope: scopeList,
      constraints: boundedConstraints.optional(),
      purpose: purposeText.optional(),
      ...expiryFields,
    }),
    answer: answerOf(delegationState, "The delegation"),
  },
  revokeDelegation: {
    method: "POST",
    path: `${delegationPath}/revoke`,
    params,
    body: z
      .object({
        ...reasonFields,
        object_gone: z.boolean().optional().describe("Whether the object is being deleted or is gone"),
      })
      .optional(),
    answer: answerOf(delegationState, "The delegation"),
  },
  listDelegations: {
    method: "POST",
    path: "/internal/v1/delegations",
    body: z.object({ after: externalId.nullable().describe("The last external id of the previous page") }),
    answer: answerOf(
      z.object({ delegations: z.array(liveDelegation), next: text.nullable() }),
      "The active and waiting delegations by external id, and the id after which the next page starts",
    ),
  },
  decideDelegation: {
    method: "POST",
    path: `${delegationPath}/decision`,
    params,
    body: z.object({ object: objectPlace }),
    answer: answerOf(delegationState, "The delegation with the decision in its object"),
  },
  readState: {
    method: "POST",
    path: "/internal/v1/state",
    body: z.object({ external_ids: z.array(externalId).max(MAX_STATE_IDS) }),
    answer: answerOf(stateAnswer, "The states by external id"),
  },
} as const satisfies Record<string, OperatorCall>;

type PlatformBody = z.input<typeof operatorCalls.putPlatform.body>;
/**
 * A platform's desired state. Without `callback_url` or `redirect_uris`, what is stored stays unchanged.
 * `accepted_principals` replaces the complete list.
 */
export type DesiredPlatform = PlatformBody & {
  description: string;
  accepted_principals: NonNullable<PlatformBody["accepted_principals"]>;
};

/** An agent's desired state. */
export type DesiredAgent = z.input<typeof operatorCalls.putAgent.body>;

/** A delegation's desired state. `expires_in` is in seconds after the approval. */
export type DesiredDelegation = z.input<typeof operatorCalls.putDelegation.body>;
