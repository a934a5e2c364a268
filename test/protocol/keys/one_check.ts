import { signHybrid, verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { ROOT } from "../../support/chains.ts";

/** Verifies one signature over a new buffer of 16 KiB. */
const signed = Buffer.alloc(16_384, "a");
const signature = await signHybrid(ROOT.privateKey, signed);

export default async function oneCheck(): Promise<void> {
  if (!(await verifyHybrid(ROOT.publicKey, Buffer.from(signed), signature))) throw new Error("not verified");
}
