import { decoderTargets } from "./decoder_targets.ts";
import type { Target } from "./loop.ts";
import type { Genuine } from "./seeds.ts";
import { turnTarget } from "./turn_target.ts";
import { verifyTargets } from "./verify_targets.ts";

/** Returns targets for all code that reads untrusted bytes. */
export function targetsOf(genuine: Genuine): Target[] {
  return [...decoderTargets(genuine), ...verifyTargets(genuine), turnTarget(genuine)];
}
