import type { KeyView } from "../../../keyvault/keys/view.ts";

type MadeKey = Pick<KeyView, "key_id" | "public_key">;

/**
 * A certificate as the API asks for it: `data:read` from a root to an agent, for a minute from `now` (Unix
 * seconds).
 */
export function certificateFields(root: Pick<MadeKey, "key_id">, agent: MadeKey, now: number) {
  return {
    cert_id: "cert-1",
    version: 1,
    issuer_id: root.key_id,
    subject_id: agent.key_id,
    subject_pub_key: agent.public_key,
    scope: ["data:read"],
    constraints: [],
    issued_at: now,
    expires_at: now + 60,
  };
}
