import { z } from "zod";
import { ApiError } from "../errors.ts";
import { isKeyId, isUuid } from "../ids.ts";
import { freeText, isoTimeInput, oneLine } from "./schemas.ts";

/** Scopes a ceiling or a request may list. */
export const MAX_SCOPES = 64;

/** A list of scopes as a call carries it, 1–64. Whether each is a scope is checked by `checkScopes`. */
export const scopeList = z.array(z.string()).min(1).max(MAX_SCOPES);

/** The id of a platform. */
export const platformId = z.string().refine(isUuid, "must be the id of a platform");
/** The id of an agent. */
export const agentId = z.string().refine(isKeyId, "must be the id of an agent");

/** A platform's name. */
export const platformName = oneLine(128);
/** A platform's description; empty when none is given. */
export const platformDescription = freeText(1000);
/** Where events are delivered, as a call carries it. Whether it may be is checked by `checkCallbackUrl`. */
export const callbackUrl = z.string().min(1).nullable();

/** What every way of registering a platform takes. */
export const registrationFields = {
  name: platformName,
  surface_type: z.string(),
  default_allowed_scopes: scopeList.describe(
    "The ceiling on what any agent on the platform may ever be delegated",
  ),
  description: platformDescription.optional(),
  callback_url: callbackUrl.optional(),
};

/** Longest time for which a replaced API key stays good, in seconds. */
export const MAX_GRACE_SECONDS = 86_400;

/** How long the replaced API key stays good; the body may be left out. */
export const rotationBody = z
  .object({ grace_seconds: z.number().int().min(0).max(MAX_GRACE_SECONDS).default(0) })
  .optional();

/** Root identities of other accounts that a platform may accept. */
export const MAX_ACCEPTED_PRINCIPALS = 1_000;

/** The id of a root identity: that of its key. */
export const PRINCIPAL_ID = /^[0-9a-f]{32}$/;

/** What a platform accepts from a principal. */
export const acceptanceBody = z.object({
  scopes: scopeList.describe("What is accepted from it; custom scopes one by one, without wildcards"),
  accepted_until: isoTimeInput.nullish().describe("Accepted before this moment; without it until taken back"),
});

const principalId = z.string().regex(PRINCIPAL_ID, "must be a root id: 32 lower-case hex digits");

/** A platform's accepted principals as calls carry them. */
export const acceptedPrincipalList = z
  .array(acceptanceBody.extend({ human_id: principalId.describe("A root identity of the registry") }))
  .max(MAX_ACCEPTED_PRINCIPALS);

/** An agent's name, at most 256 bytes as the wire format has it. */
export const agentName = oneLine(256).refine(
  (name) => Buffer.byteLength(name) <= 256,
  "must have at most 256 bytes",
);

/** What an agent is (specification §2: `api_agent` is shown). */
export const agentType = z.enum(["api_agent", "voice_agent", "meeting_bot", "mcp_server", "robot", "custom"]);
export type AgentType = z.infer<typeof agentType>;

const noOwnKey = z
  .null("an agent's key is made in the vault: leave it out")
  .optional()
  .describe("An agent's own key is not taken");

/** What calls that make an agent may say of its key, besides nothing; see {@link requireCustodial}. */
export const custodyFields = {
  custody_mode: z
    .enum(["custodial", "self_custody"])
    .optional()
    .describe("custodial when left out; self_custody is not open yet"),
  public_key_json: noOwnKey,
  public_key: noOwnKey,
};

/** Throws `not_available` for an agent that would keep its own key. */
export function requireCustodial({ custody_mode }: { custody_mode?: string | undefined }): void {
  if (custody_mode === "self_custody") {
    throw new ApiError("not_available", "self_custody is not available yet");
  }
}
