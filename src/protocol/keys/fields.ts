import { base64, type Decoder, type KeepingDecoder, keeping, object } from "../encoding/fields.ts";
import { ALGORITHMS } from "./algorithms.ts";
import type { HybridPublicKey, HybridSignature } from "./hybrid.ts";

/** A hybrid public key (wire format §2). */
export const publicKey: KeepingDecoder<HybridPublicKey> = keeping(
  object({
    ed25519: base64(ALGORITHMS.ed25519.publicKeyBytes),
    ml_dsa_65: base64(ALGORITHMS.ml_dsa_65.publicKeyBytes),
  }),
);

/** A hybrid signature (wire format §2). */
export const signature: Decoder<HybridSignature> = object({
  ed25519: base64(ALGORITHMS.ed25519.signatureBytes),
  ml_dsa_65: base64(ALGORITHMS.ml_dsa_65.signatureBytes),
});
