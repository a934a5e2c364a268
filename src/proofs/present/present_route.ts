import { z } from "zod";
import { addSeconds, signingSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { newIdAt } from "../../ids.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import type { DelegationCert } from "../../protocol/documents/certificate.ts";
import { bundleHash } from "../../protocol/documents/proof_bundle.ts";
import { isRequirableScope } from "../../protocol/documents/scopes.ts";
import { decodeBase64, encodeBase64 } from "../../protocol/encoding/base64.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { type ApiKeyCaller, type Route, route } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { traceparent } from "../../trace_context.ts";
import {
  type ChallengeToSign,
  type SignedChallenge,
  type VaultClient,
  VaultRefused,
} from "../../vault/client.ts";
import { type ActiveCertificate, findActiveCertificates, readCertificate } from "../active_certificate.ts";
import { sealRefusal } from "../asking/refusal.ts";
import { contextOf, namedActionHash, type Operation, operationSchema } from "../operation.ts";
import { type AnswerableDeps, readAnswerable } from "./answerable_challenge.ts";
import { encodeProofRef } from "./proof_ref.ts";

const CONTEXT_BYTES = 32;

const body = z.object({
  challenge: z
    .string()
    .max(256)
    .optional()
    .describe(
      "Of the caller's own connection, or of the verifier that this call names. If absent, the call makes one for the verifier that operation names",
    ),
  verifier_connection_id: idText
    .optional()
    .describe("The connection of the challenge, if it is not the caller's own"),
  session_context: z.string().max(256).optional().describe("32 bytes in base64 that the proof is bound to"),
  cert_id: z
    .string()
    .max(128)
    .optional()
    .describe("Present this certificate instead of the newest active one"),
  required_scope: z
    .string()
    .max(256)
    .optional()
    .describe("Present the newest certificate that grants this scope"),
  operation: operationSchema
    .optional()
    .describe("Bind the proof to this one action; session_context follows from it"),
});

const answer = z.object({
  proof_bundle: z.record(z.string(), z.unknown()).describe("Opaque; submit it to verify as it is"),
  proof_ref: z
    .string()
    .describe("The same proof, short enough for a header; only this service can resolve it"),
  cert_id: z.string(),
  expires_at: z.iso.datetime().describe("From then on the proof is stale"),
  other_certificates: z
    .array(
      z.object({
        cert_id: z.string(),
        approved_scope: z.array(z.string()),
        expires_at: isoTime.nullable(),
      }),
    )
    .optional()
    .describe(
      "The agent's further active certificates, newest first, when neither cert_id nor required_scope chose",
    ),
});

/** Dependencies of `buildProof`. */
export type PresentDeps = AnswerableDeps & {
  vault: Pick<VaultClient, "signChallenge">;
  secretBox: SecretBox;
  /** The address at which agents ask people for authority. */
  askEndpoint: string;
};

/** `POST …/agents/{agent_id}/present`: builds a proof bundle over a challenge. The vault signs the bundle. */
export function presentRoute(deps: PresentDeps): Route {
  return route({
    id: "present_proof",
    method: "POST",
    path: "/v1/service/connections/{connection_id}/agents/{agent_id}/present",
    summary: "Build a proof bundle with the agent's custodial key",
    access: "api_key",
    keyRoles: ["agent"],
    rate: "present",
    params: z.object({ connection_id: idText, agent_id: idText }),
    body,
    answer: { status: 200, schema: answer, description: "A proof, good for one verification" },
    errors: [
      "not_found",
      "invalid_challenge",
      "session_context_mismatch",
      "no_active_delegation",
      "verifier_mismatch",
      "rate_limited",
      "vault_unavailable",
    ],
    async handle({ caller, params, body }) {
      return { body: await buildProof(deps, caller, { ...params, ...body }) };
    },
  });
}

/** The proof to build: the agent, the challenge, the choice of certificate, and the binding. */
export type ProofAsked = { connection_id: string; agent_id: string } & z.infer<typeof body>;

/**
 * Builds a proof over the given challenge, or over a new one of the operation's verifier. The vault signs it.
 * Throws `ApiError` with one of the route's codes.
 */
export async function buildProof(
  deps: PresentDeps,
  caller: ApiKeyCaller,
  asked: ProofAsked,
): Promise<z.infer<typeof answer>> {
  const { db, vault, clock } = deps;
  const now = clock.now();
  const { isOutside, challengeOf } = await readAnswerable(deps, caller, asked);
  const agent = await findAgent(db, caller, asked);
  const sessionContext = readContext(agent.agent_id, asked);
  const { operation } = asked;
  const choice = {
    certId: asked.cert_id,
    requiredScope: asked.required_scope,
    // An outside verifier with the name of a connection could accept several proofs.
    action: operation && !isOutside ? namedActionHash(operation) : undefined,
  };
  const [certificate, ...others] = await findActiveCertificates(db, agent.agent_id, choice, now);
  if (certificate === undefined) throw notDelegated(deps, caller, asked, now);
  const certificateText = await readCertificate(db, certificate);
  // A refused call must cost nothing, so a new challenge comes after all other lookups.
  const { challenge, expiresAt: challengeEnd } = await challengeOf();
  const signedAt = signingSeconds(now);
  const signed = await sign(vault, agent, {
    challenge,
    challenge_at: signedAt,
    ...(sessionContext === undefined ? {} : { session_context: sessionContext }),
  });
  const freshUntil = addSeconds(new Date(signedAt * 1000), CHALLENGE_WINDOW_SECONDS);
  const proofBundle = {
    agent_id: agent.agent_id,
    agent_pub_key: agent.public_key,
    delegations: [JSON.parse(certificateText) as DelegationCert],
    challenge,
    challenge_at: signedAt,
    challenge_sig: signed.challenge_sig,
    ...(sessionContext === undefined ? {} : { session_context: sessionContext }),
  };
  const shown = { agentId: agent.agent_id, certificate, hash: bundleHash(proofBundle) };
  await recordPresented(db, caller, shown, now);
  return {
    proof_bundle: proofBundle,
    proof_ref: encodeProofRef(proofBundle),
    cert_id: certificate.cert_id,
    expires_at: earlier(freshUntil, challengeEnd).toISOString(),
    ...(choice.certId === undefined && choice.requiredScope === undefined
      ? { other_certificates: others.map(showCertificate) }
      : {}),
  };
}

/** Says where the agent can ask for the scope, if the call named one. */
function notDelegated(
  { secretBox, askEndpoint }: PresentDeps,
  caller: ApiKeyCaller,
  asked: ProofAsked,
  now: Date,
): ApiError {
  const { agent_id: agentId, required_scope: requiredScope, operation, cert_id: certId } = asked;
  // A call that chose a certificate says nothing about what the agent lacks.
  if (certId !== undefined || requiredScope === undefined || !isRequirableScope(requiredScope)) {
    return new ApiError("no_active_delegation");
  }
  const connectionId = asked.verifier_connection_id ?? caller.connectionId;
  const refused = { agentId, requiredScope, operation, connectionId };
  const members = sealRefusal(secretBox, askEndpoint, refused, now);
  return new ApiError("no_active_delegation", undefined, {}, members);
}

function earlier(one: Date, other: Date | undefined): Date {
  return other !== undefined && other < one ? other : one;
}

function showCertificate({ cert_id, approved_scope, expires_at }: ActiveCertificate) {
  return { cert_id, approved_scope, expires_at: expires_at === null ? null : expires_at.toISOString() };
}

/** Throws `rate_limited` if callers requested too many signatures with the agent's key. */
async function sign(
  vault: PresentDeps["vault"],
  agent: PresentingAgent,
  challenge: ChallengeToSign,
): Promise<SignedChallenge> {
  try {
    return await vault.signChallenge({ tenant: agent.account_id, keyId: agent.vault_key_id }, challenge);
  } catch (error) {
    if (!(error instanceof VaultRefused) || error.code !== "rate_limited") throw error;
    throw new ApiError("rate_limited", "This agent's key has signed too often in a short time", {
      "retry-after": String(error.retryAfterSeconds ?? 1),
    });
  }
}

type Bound = {
  session_context?: string | undefined;
  operation?: Operation | undefined;
  required_scope?: string | undefined;
};

/** Returns the session context, either computed from the operation or supplied by the caller. */
function readContext(agentId: string, asked: Bound): string | undefined {
  const { session_context: context, operation, required_scope: requiredScope } = asked;
  if (operation !== undefined) {
    if (context !== undefined) {
      throw new ApiError("invalid_request", "send either operation or session_context, not both");
    }
    if (operation.agent_id !== agentId) {
      throw new ApiError("session_context_mismatch", "operation.agent_id: names another agent");
    }
    return encodeBase64(contextOf(operation, requiredScope));
  }
  if (context === undefined) return undefined;
  if (!isContext(context)) {
    throw new ApiError("invalid_request", `session_context: must be ${CONTEXT_BYTES} bytes in base64`);
  }
  return context;
}

function isContext(text: string): boolean {
  try {
    return decodeBase64(text).length === CONTEXT_BYTES;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

type PresentingAgent = Pick<AgentRow, "agent_id" | "account_id" | "public_key"> & { vault_key_id: string };

async function findAgent(
  db: Database,
  caller: ApiKeyCaller,
  { connection_id, agent_id }: { connection_id: string; agent_id: string },
): Promise<PresentingAgent> {
  if (connection_id !== caller.connectionId) throw new ApiError("not_found");
  const row = await db("agents").where({ agent_id, connection_id }).first();
  if (!row || row.vault_key_id === null) throw new ApiError("not_found");
  return { ...row, vault_key_id: row.vault_key_id };
}

/**
 * Records that a proof was presented. The event's id ends with bytes of the proof's hash, and a decision's
 * receipt contains this hash. So the history finds the proof of a decision, and the decision about a proof.
 */
async function recordPresented(
  db: Database,
  caller: ApiKeyCaller,
  { agentId, certificate, hash }: { agentId: string; certificate: ActiveCertificate; hash: Uint8Array },
  now: Date,
): Promise<void> {
  await db.raw(
    `with history as (
       insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, cert_id)
       select account_id, :now, :eventId, 'proof.presented', :connectionId, :agentId, :certId
       from unnest(:accounts::uuid[]) as keeper (account_id))
     insert into history_queue (account_id, occurred_at, event_id, traceparent)
     select account_id, :now::timestamptz, :eventId::uuid, :trace::text
     from unnest(:accounts::uuid[]) as keeper (account_id) where (select way from event_way) = 'kafka'`,
    {
      accounts: [...new Set([caller.accountId, caller.principalAccountId])],
      now,
      eventId: newIdAt(now, Buffer.from(hash)),
      connectionId: caller.connectionId,
      agentId,
      certId: certificate.cert_id,
      trace: traceparent() ?? null,
    },
  );
}
