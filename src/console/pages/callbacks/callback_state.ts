import { type Html, html } from "../../../html/html.ts";
import type { Visit } from "../../core/page.ts";
import { badge, type Tone } from "../../elements/badge.ts";
import { facts } from "../../elements/facts.ts";
import { time } from "../../elements/time.ts";
import type { Texts } from "../../texts/texts.ts";
import type { CallbackAnswer } from "./parts.ts";

type State = "none" | "active" | "failing" | "paused" | "suspended";

const TONES: Record<State, Tone> = {
  none: "plain",
  active: "good",
  failing: "warn",
  paused: "warn",
  suspended: "bad",
};

/** How a callback does, since when, and what to do about it. */
export function callbackState({ texts }: Visit, callback: CallbackAnswer): Html {
  const words = texts.callbacks;
  const state = stateOf(callback);
  const since = {
    none: null,
    active: null,
    failing: callback.failing_since,
    paused: callback.paused_at,
    suspended: callback.suspended_at,
  }[state];
  return html`<section class="card" id="state"><h2>${words.state}</h2>
    <p>${badge(words.states[state], TONES[state])}</p>
    <p>${explain(words.explain, callback)}</p>
    ${facts([
      callback.callback_url !== null && [words.url, html`<code>${callback.callback_url}</code>`],
      since !== null && [words.since, time(since)],
      state === "failing" &&
        callback.left_alone_until !== null && [
          words.nextTry,
          html`${words.notBefore} ${time(callback.left_alone_until)}`,
        ],
      callback.callback_url !== null && [words.waiting, words.number(callback.waiting)],
      callback.held > 0 && [words.held, words.number(callback.held)],
    ])}</section>`;
}

function stateOf({ callback_url, callback_state, failing_since }: CallbackAnswer): State {
  if (callback_url === null) return "none";
  if (callback_state !== "active") return callback_state;
  return failing_since === null ? "active" : "failing";
}

function explain(words: Texts["callbacks"]["explain"], callback: CallbackAnswer): string {
  const state = stateOf(callback);
  if (state !== "suspended") return words[state];
  return callback.suspend_reason === "gone" ? words.gone : words.long;
}
