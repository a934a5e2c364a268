import type { NamedEntry } from "../../audit/history_entry.ts";
import { type Html, html } from "../../html/html.ts";
import type { Texts } from "../texts/texts.ts";
import { badge, type Tone } from "./badge.ts";

const TONES: Record<"allow" | "deny" | "indeterminate", Tone> = {
  allow: "good",
  deny: "bad",
  indeterminate: "warn",
};

/** What came of a question, in a word. */
export function decisionBadge({ decisions, history }: Texts, { decision }: NamedEntry["details"]): Html {
  return decision === undefined ? badge(history.presented) : badge(decisions[decision], TONES[decision]);
}

/** Why a decision was no allow; nothing for one that was. A reason that has no words is shown as it is. */
export function reasonText({ decisions }: Texts, details: NamedEntry["details"]): Html | string | undefined {
  const { decision, decision_reason: reason } = details;
  if (decision === undefined || decision === "allow" || reason === undefined) return undefined;
  return (
    (Object.hasOwn(decisions.reasons, reason) && decisions.reasons[reason]) || html`<code>${reason}</code>`
  );
}
