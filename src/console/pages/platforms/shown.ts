import { type Html, html } from "../../../html/html.ts";
import type { PlatformAnswer } from "../../../platforms/answers.ts";
import type { Visit } from "../../core/page.ts";
import { badge, type Tone } from "../../elements/badge.ts";

const PUBLISHED: Record<PlatformAnswer["publish_state"], Tone> = {
  draft: "plain",
  pending_review: "plain",
  published: "good",
  suspended: "warn",
};
const CALLBACK: Record<PlatformAnswer["callback_state"], Tone> = {
  active: "good",
  paused: "warn",
  suspended: "bad",
};

type Shown = Pick<PlatformAnswer, "callback_url" | "callback_state" | "declared_by">;

/** Whether the account that is acted for is an organization's. */
export function isOrganization({ account, session }: Visit): boolean {
  const isOwn = account === undefined || account === session?.account_id;
  return isOwn ? session?.account_type === "organization" : true;
}

/** Whether a platform is published. */
export function publishBadge(
  { texts }: Visit,
  { publish_state }: Pick<PlatformAnswer, "publish_state">,
): Html {
  return badge(texts.platforms.states[publish_state], PUBLISHED[publish_state]);
}

/** Whether a callback URL is set and gets requests. */
export function callbackBadge({ texts }: Visit, { callback_url, callback_state }: Shown): Html {
  const { callbackStates, noCallback } = texts.platforms;
  return callback_url === null
    ? html`<span class="quiet">${noCallback}</span>`
    : badge(callbackStates[callback_state], CALLBACK[callback_state]);
}

/** The object that declares a platform, in words; nothing for others. */
export function declaredWords({ texts }: Visit, { declared_by }: Shown): string | undefined {
  if (declared_by === null) return undefined;
  return texts.platforms.declaredBy(declared_by.cluster_id, declared_by.namespace, declared_by.name);
}

/** Where a platform is changed that an object declares; nothing for others. */
export function declaredNote(visit: Visit, shown: Shown): Html | undefined {
  const words = declaredWords(visit, shown);
  const { declared, declaredExplain } = visit.texts.platforms;
  return words === undefined
    ? undefined
    : html`<p class="notice"><strong>${declared}: ${words}.</strong> ${declaredExplain}</p>`;
}
