import { z } from "zod";
import { ApiError } from "../errors.ts";
import { isKeyId, isUuid } from "../ids.ts";
import { freeText, isoTimeInput, oneLine } from "./schemas.ts";

/** Maximum number of scopes in a ceiling or a request. */
export const MAX_SCOPES = 64;

/** A list of 1–64 scopes in a call. `checkScopes` checks the form of each scope. */
export const scopeList = z.array(z.string()).min(1).max(MAX_SCOPES);

/** The id of a platform. */
export const platformId = z.string().refine(isUuid, "must be the id of a platform");
/** The id of an agent. */
export const agentId = z.string().refine(isKeyId, "must be the id of an agent");

/** A platform's name. */
export const platformName = oneLine(128);
/** A platform's description. Empty if there is none. */
export const platformDescription = freeText(1000);
/** The URL to which events are delivered. `checkCallbackUrl` checks whether it is allowed. */
export const callbackUrl = z.string().min(1).nullable();

const MAX_REDIRECT_URIS = 10;
const MAX_REDIRECT_URI_LENGTH = 512;

/** The redirect URIs of a platform in a call. `checkRedirectUris` checks each of them. */
export const redirectUriList = z
  .array(z.string().min(1).max(MAX_REDIRECT_URI_LENGTH))
  .max(MAX_REDIRECT_URIS)
  .describe("Replaces all");

/** The words of a platform for its custom scopes, by scope. `checkDescriptions` checks scopes and labels. */
export const scopeDescriptions = z.record(
  z.string(),
  z.object({
    label: oneLine(60),
    description: oneLine(200).describe("What it lets an agent do"),
    sensitive: z.boolean().default(false).describe("Whether approvers must select it themselves"),
  }),
);

/** The words of a platform for its custom scopes in responses. */
export const shownDescriptions = z.record(
  z.string(),
  z.object({ label: z.string(), description: z.string(), sensitive: z.boolean() }),
);
export type ScopeDescriptions = z.infer<typeof shownDescriptions>;

/** How the explanation of a denial keeps values that may be personal, such as amounts, places and paths. */
export const explanationValues = z.enum(["full", "rounded", "hashed"]);
export type ExplanationValues = z.infer<typeof explanationValues>;

/** Fields that are common to all ways to register a platform. */
export const registrationFields = {
  name: platformName,
  surface_type: z.string(),
  default_allowed_scopes: scopeList.describe(
    "The ceiling on what any agent on the platform may ever be delegated",
  ),
  description: platformDescription.optional(),
  callback_url: callbackUrl.optional(),
  scope_descriptions: scopeDescriptions.optional().describe("Words for its custom scopes, by scope"),
  explanation_values: explanationValues.optional(),
};

/** Maximum time for which a replaced API key remains valid, in seconds. */
export const MAX_GRACE_SECONDS = 86_400;

/** How long a replaced API key remains valid, in seconds. */
export const graceSeconds = z.number().int().min(0).max(MAX_GRACE_SECONDS).default(0);

/** Body that sets how long the replaced API key remains valid. The body may be absent. */
export const rotationBody = z.object({ grace_seconds: graceSeconds }).optional();

/** Maximum length of the text by which an object requests a new API key. */
export const MAX_ROTATION_REQUEST = 256;

/** Maximum number of root identities of other accounts that a platform can accept. */
export const MAX_ACCEPTED_PRINCIPALS = 1_000;

/** The id of a root identity, which is the id of its key. */
export const PRINCIPAL_ID = /^[0-9a-f]{32}$/;

/** The scopes that a platform accepts from a principal, and the time until which it accepts them. */
export const acceptanceBody = z.object({
  scopes: scopeList.describe(
    "The scopes accepted from the principal; custom scopes one by one, without wildcards",
  ),
  accepted_until: isoTimeInput
    .nullish()
    .describe("Accepted before this time; if absent, accepted until withdrawn"),
});

const principalId = z.string().regex(PRINCIPAL_ID, "must be a root id: 32 lower-case hex digits");

/** A platform's list of accepted principals in a call. */
export const acceptedPrincipalList = z
  .array(acceptanceBody.extend({ human_id: principalId.describe("A root identity of the registry") }))
  .max(MAX_ACCEPTED_PRINCIPALS);

/** An agent's name. The wire format limits it to 256 bytes. */
export const agentName = oneLine(256).refine(
  (name) => Buffer.byteLength(name) <= 256,
  "must have at most 256 bytes",
);

/** The type of an agent (specification §2, which shows `api_agent`). */
export const agentType = z.enum(["api_agent", "voice_agent", "meeting_bot", "mcp_server", "robot", "custom"]);
export type AgentType = z.infer<typeof agentType>;

const noOwnKey = z
  .null("the vault creates the agent's key: omit this field")
  .optional()
  .describe("Not supported: the service makes the key");

/** The fields with which a call could choose the agent's key. See {@link requireCustodial}. */
export const custodyFields = {
  custody_mode: z
    .enum(["custodial", "self_custody"])
    .optional()
    .describe("self_custody is not available yet"),
  public_key_json: noOwnKey,
  public_key: noOwnKey,
};

/** Throws `not_available` for an agent that would store its own key. */
export function requireCustodial({ custody_mode }: { custody_mode?: string | undefined }): void {
  if (custody_mode === "self_custody") {
    throw new ApiError("not_available", "self_custody is not available yet");
  }
}
