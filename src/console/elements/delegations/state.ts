import { addSeconds, unixSeconds } from "../../../clock.ts";
import type { CertificateAnswer } from "../../../delegations/answers.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { badge, type Tone } from "../badge.ts";
import { time } from "../time.ts";

/** How a delegation stands: `ending` is active and ends within {@link SOON_SECONDS}. */
export type DelegationState = "active" | "ending" | "expired" | "revoked";

const SOON_SECONDS = 7 * 24 * 60 * 60;

const TONES: Record<DelegationState, Tone> = {
  active: "good",
  ending: "warn",
  expired: "plain",
  revoked: "bad",
};

type Ending = Pick<CertificateAnswer, "status" | "expires_at">;

/** How a delegation stands now; it holds in the whole of its last second. */
export function delegationState({ now }: Visit, { status, expires_at }: Ending): DelegationState {
  if (status === "revoked") return "revoked";
  if (expires_at === null) return "active";
  const left = unixSeconds(new Date(expires_at)) - unixSeconds(now);
  if (left < 0) return "expired";
  return left < SOON_SECONDS ? "ending" : "active";
}

/** The moment before which an active delegation that ends is said to end soon. */
export function soon({ now }: Visit): Date {
  return addSeconds(now, SOON_SECONDS);
}

/** How a delegation stands, in a word. */
export function stateBadge(visit: Visit, certificate: Ending): Html {
  const state = delegationState(visit, certificate);
  return badge(visit.texts.delegations.states[state], TONES[state]);
}

/** When a delegation ends or ended. */
export function endOf({ texts }: Visit, { expires_at }: Ending): Html {
  return expires_at === null
    ? html`<span class="quiet">${texts.delegations.forever}</span>`
    : time(expires_at);
}
