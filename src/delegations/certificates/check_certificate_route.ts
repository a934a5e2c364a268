import { z } from "zod";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { idText, isoTime } from "../../input/schemas.ts";
import { decodeDelegationCert, delegationSignBytes } from "../../protocol/documents/certificate.ts";
import {
  equalPublicKeys,
  failedHalf,
  fingerprintOfKey,
  type HybridPublicKey,
  isIdOf,
} from "../../protocol/keys/hybrid.ts";
import { type Route, route } from "../../route.ts";
import { type CertificateRecord, findCertificate } from "../delegation_records.ts";
import { LISTED_AFTER_END_SECONDS } from "../revocation_lists/revocation_state.ts";

const fingerprint = z.string().describe("sha256 and the hash of the public key's canonical JSON");

const answer = z.object({
  cert_id: z.string(),
  issuer: z.object({
    human_id: z.string(),
    key_fingerprint: fingerprint,
    is_id_of_key: z.boolean(),
    is_root_of_account: z.boolean().describe("Whether it is the account's registered root key"),
  }),
  signature: z.object({
    holds: z
      .boolean()
      .describe("Whether both halves are valid signatures of the issuer over exactly this certificate"),
    failed: z.enum(["ed25519", "ml_dsa_65"]).nullable().describe("The half that is not valid"),
  }),
  agent: z.object({
    agent_id: z.string(),
    key_fingerprint: fingerprint,
    is_id_of_key: z.boolean(),
    is_key_of_agent: z.boolean().describe("Whether it is the agent's registered key"),
    disabled_at: isoTime.nullable().describe("When the agent was deleted and its key disabled"),
  }),
  revocation_list: z.object({
    human_id: z.string().describe("The root identity whose list it is; see get_revocation_list"),
    listed: z
      .boolean()
      .describe(
        "Whether the list contains the certificate, which it does until a day after the certificate's end",
      ),
  }),
});

/** The answer about a certificate's chain. */
export type ChainAnswer = z.infer<typeof answer>;

type Registered = { root: HybridPublicKey | null; agent: HybridPublicKey; disabledAt: Date | null };

/** `GET …/delegations/{cert_id}/chain`: checks the chain from the root key to the agent's key again. */
export function certificateChainRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "check_delegation",
    method: "GET",
    path: "/v1/service/delegations/{cert_id}/chain",
    summary: "Check a certificate's signature and the keys that it connects",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ cert_id: idText }),
    answer: { status: 200, schema: answer, description: "The chain, with the result of each check" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const record = await findCertificate(db, caller, params.cert_id);
      return { body: await checkChain(record, await registeredKeys(db, record), clock.now()) };
    },
  });
}

async function registeredKeys(db: Database, record: CertificateRecord): Promise<Registered> {
  const account = await db("accounts").where({ account_id: record.account_id }).first("root_public_key");
  const agent = await db("agents").where({ agent_id: record.agent_id }).first("disabled_at");
  return {
    root: account?.root_public_key ?? null,
    agent: record.agent_key,
    disabledAt: agent?.disabled_at ?? null,
  };
}

async function checkChain(
  record: CertificateRecord,
  registered: Registered,
  now: Date,
): Promise<ChainAnswer> {
  const certificate = decodeDelegationCert(Buffer.from(record.cert_json));
  const { issuer_id, issuer_pub_key, subject_id, subject_pub_key, signature } = certificate;
  const failed = await failedHalf(issuer_pub_key, delegationSignBytes(certificate), signature);
  return {
    cert_id: record.cert_id,
    issuer: {
      human_id: issuer_id,
      key_fingerprint: fingerprintOfKey(issuer_pub_key),
      is_id_of_key: isIdOf(issuer_id, issuer_pub_key),
      is_root_of_account: registered.root !== null && equalPublicKeys(issuer_pub_key, registered.root),
    },
    signature: { holds: failed === undefined, failed: failed ?? null },
    agent: {
      agent_id: subject_id,
      key_fingerprint: fingerprintOfKey(subject_pub_key),
      is_id_of_key: isIdOf(subject_id, subject_pub_key),
      is_key_of_agent: subject_id === record.agent_id && equalPublicKeys(subject_pub_key, registered.agent),
      disabled_at: registered.disabledAt === null ? null : registered.disabledAt.toISOString(),
    },
    revocation_list: { human_id: issuer_id, listed: isListed(record, now) },
  };
}

/** A revoked certificate stays in the issuer's signed revocation list until a day after it expires. */
function isListed({ status, is_ending, expires_at }: CertificateRecord, now: Date): boolean {
  if (status !== "revoked" || is_ending) return false;
  return expires_at === null || expires_at > addSeconds(now, -LISTED_AFTER_END_SECONDS);
}
