import { decoderTargets } from "./decoder_targets.ts";
import type { Target } from "./loop.ts";
import { genuineDocuments } from "./seeds.ts";
import { verifyTargets } from "./verify_targets.ts";

/** Everything that reads untrusted bytes. */
export async function allTargets(): Promise<Target[]> {
  const genuine = await genuineDocuments();
  return [...decoderTargets(genuine), ...verifyTargets(genuine)];
}
