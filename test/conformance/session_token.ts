import { z } from "zod";
import type { DelegationCert } from "../../src/protocol/documents/certificate.ts";
import { decodeBase64, encodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { type JsonObject, plainJson } from "../../src/protocol/encoding/json.ts";
import { chainHash, decodeSessionToken, sessionTokenSignBytes } from "./extensions/session_token.ts";
import { verifyStreamedTurn } from "./extensions/streamed_turn.ts";
import type { Expectations, Vector } from "./vector.ts";
import { compareAnswer } from "./verify.ts";

const turnSchema = z.object({
  session_secret_hex: z.string(),
  token: z.unknown(),
  challenge: z.string(),
  challenge_at: z.number(),
  challenge_sig: z.object({ ed25519: z.string(), ml_dsa_65: z.string() }),
  verify_now: z.number(),
});

/** Checks a token's signed bytes, MAC and chain hash, and the verification of the vector's streamed turn. */
export async function checkSessionToken(
  { expected }: Vector,
  document: JsonObject,
  expect: Expectations,
): Promise<void> {
  const plain = plainJson(document) as { session_token: unknown; cert_chain?: DelegationCert[] };
  const { session_secret_hex, token, verify_now, ...turn } = turnSchema.parse(plain.session_token);
  const decoded = decodeSessionToken(Buffer.from(JSON.stringify(token)));
  expect.bytes("signed bytes", expected.session_token_sign_bytes_hex, () => sessionTokenSignBytes(decoded));
  expect.bytes("MAC", expected.session_token_mac_hex, () => decodeBase64(decoded.mac));
  if (plain.cert_chain !== undefined) {
    expect.equal("chain hash", decoded.chain_hash, encodeBase64(chainHash(plain.cert_chain)));
  }
  const secret = Buffer.from(session_secret_hex, "hex");
  const answer = await verifyStreamedTurn(decoded, turn, { secret, now: verify_now });
  compareAnswer(expect, expected.streamed_turn, answer);
}
