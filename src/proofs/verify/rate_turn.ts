import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import type { IsAccepted } from "../decide/acceptance.ts";
import type { Decide } from "../decide/batch.ts";
import { isRated, type TakeTurn, type Turn } from "../decide/max_rate.ts";
import type { VerifyCall } from "./call.ts";
import { type Root, rootOf } from "./trusted_roots.ts";

/** What counting and deciding need. */
export type CountingDeps = {
  decide: Decide;
  /** For certificates that limit how often they may be used. */
  takeTurn: TakeTurn;
  /** Whether another account's such certificates are to be counted at all. */
  isAccepted: IsAccepted;
};

/** Counts what a proof's certificates allowed before, when a rule asks for it, and decides accordingly. */
export type RateTurn = Turn & {
  /**
   * Whether the root's authority may be used here, asked at most once. Where no certificate has a rate, the
   * deciding statement alone asks, and here it counts as accepted.
   */
  isAccepted(): Promise<boolean>;
};

type Proof = { call: VerifyCall; bundle: ProofBundle; root: Root | undefined; now: Date };

/**
 * Takes the turn at a proof's certificates when their rate is first asked for: only a genuine proof of a
 * known root waits for them, and of another account's root only where it is accepted. All other proofs are
 * decided immediately.
 */
export function createRateTurn(deps: CountingDeps, { call, bundle, root, now }: Proof): RateTurn {
  const { caller, options } = call;
  const rated = bundle.delegations.filter(isRated);
  const byOwner = root?.accountId === caller.accountId;
  let accepted: Promise<boolean> | undefined;
  let turn: Turn | undefined;

  async function isAccepted(): Promise<boolean> {
    if (root === undefined || byOwner || rated.length === 0) return true;
    accepted ??= deps.isAccepted({
      connectionId: caller.connectionId,
      humanId: rootOf(bundle).issuer_id,
      scope: options.required_scope,
      at: now,
    });
    return accepted;
  }

  return {
    isAccepted,
    async countAllows(certId, windowSeconds) {
      if (root === undefined || !(await isAccepted())) return 0;
      const certificates = rated.map(({ cert_id }) => ({ accountId: root.accountId, certId: cert_id }));
      if (turn === undefined) call.stepAside?.();
      turn ??= await deps.takeTurn({ certificates, byOwner, now });
      return turn.countAllows(certId, windowSeconds);
    },
    decide: (item) => (turn === undefined ? deps.decide(item, call.stepAside) : turn.decide(item)),
    async end() {
      await turn?.end();
    },
  };
}
