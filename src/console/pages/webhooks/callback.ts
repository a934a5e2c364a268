import { type Html, html, prose } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { choiceField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { badge, facts, type Tone, time, titleWith } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";
import {
  type Delivery,
  deliveryState,
  lastResult,
  loadTest,
  TEST_OPERATIONS,
  testButton,
  testForm,
  testResult,
} from "./attempts.ts";
import { type CallbackAnswer, loadCallback, partAddress, parts } from "./parts.ts";

const PART = "/callback";
const TESTS_SHOWN = "5";

type Shown = Awaited<ReturnType<typeof load>>;

/**
 * The page about a connection's callback: its URL and state, with forms to set, test, pause and resume it.
 */
export const callbackPage = page<Shown>({
  id: "callback",
  path: "/console/connections/{connection_id}/callback",
  operations: [
    "get_callback",
    "list_deliveries",
    "set_callback",
    "pause_callback",
    "resume_callback",
    ...TEST_OPERATIONS,
  ],
  load,
  title: ({ texts }, { callback }) => titleWith(texts.callbacks.title, callback.platform_name),
  render: (visit, { callback, test, tests }) => html`${parts(visit, callback)}
    <p class="lead">${visit.texts.callbacks.lead}</p>
    ${callbackState(visit, callback)}
    ${testResult(visit, test)}
    <div class="cards">${setting(visit, callback)}${testing(visit, callback, tests)}${sending(visit, callback)}</div>`,
  forms: {
    set: {
      errorFields: { invalid_callback_url: "callback_url" },
      async submit(visit, fields) {
        const body = { callback_url: fields.get("callback_url").trim() };
        await visit.call("set_callback", { params: idOf(visit), body });
        return { to: partAddress(visit, PART), notice: "callback_set" };
      },
    },
    clear: {
      async submit(visit) {
        await visit.call("set_callback", { params: idOf(visit), body: { callback_url: null } });
        return { to: partAddress(visit, PART), notice: "callback_cleared" };
      },
    },
    test: testForm(PART),
    pause: {
      async submit(visit) {
        await visit.call("pause_callback", { params: idOf(visit) });
        return { to: partAddress(visit, PART), notice: "callback_paused" };
      },
    },
    resume: {
      async submit(visit, fields) {
        const body = { backlog: fields.get("backlog") };
        await visit.call("resume_callback", { params: idOf(visit), body });
        return { to: partAddress(visit, PART), notice: "callback_resumed" };
      },
    },
  },
});

function idOf({ params }: Visit) {
  return { connection_id: params.connection_id ?? "" };
}

async function load(visit: Visit) {
  const [callback, test, tests] = await Promise.all([
    loadCallback(visit),
    loadTest(visit),
    visit.call("list_deliveries", {
      params: idOf(visit),
      query: { event: "callback.test", limit: TESTS_SHOWN },
    }),
  ]);
  return { callback, test, tests: tests.items };
}

function setting(visit: Visit, callback: CallbackAnswer): Html | undefined {
  const { callback_url, is_declared } = callback;
  const words = visit.texts.callbacks;
  if (!visit.may("set_callback")) return undefined;
  return html`<section class="card"><h2>${words.setTitle}</h2>
    ${is_declared && html`<p class="notice">${words.declared}</p>`}
    ${form(visit, {
      name: "set",
      content: textField(visit, {
        form: "set",
        name: "callback_url",
        label: words.url,
        hint: words.urlHint,
        value: callback_url ?? "",
        attributes: {
          type: "url",
          autocomplete: "off",
          spellcheck: "false",
          maxlength: 2_048,
          placeholder: "https://shop.example.com/hooks",
        },
      }),
      submit: words.set,
      beside: callback_url !== null && html`<span class="quiet">${words.change}</span>`,
    })}
    ${clearing(visit, callback)}</section>`;
}

function testing(visit: Visit, callback: CallbackAnswer, tests: readonly Delivery[]): Html {
  const { callbacks: words } = visit.texts;
  return html`<section class="card"><h2>${words.testTitle}</h2>
    ${prose(words.testLead)}
    ${testButton(visit, callback)}
    ${
      tests.length > 0 &&
      html`<h3>${words.latestTests}</h3>
    <ul class="plain-list">${tests.map(
      (
        each,
      ) => html`<li><p><a href=${partAddress(visit, `/deliveries/${each.delivery_id}`)}>${time(each.created_at)}</a>
        ${" "}${deliveryState(visit.texts, each.state)} <span class="quiet">${lastResult(visit.texts, each)}</span></p></li>`,
    )}</ul>`
    }</section>`;
}

function sending(visit: Visit, { callback_url, callback_state }: CallbackAnswer): Html | undefined {
  const words = visit.texts.callbacks;
  if (callback_url === null || !visit.may("pause_callback")) return undefined;
  if (callback_state === "active") {
    return html`<section class="card"><h2>${words.pauseTitle}</h2><p>${words.pauseHint}</p>
      ${form(visit, { name: "pause", submit: words.pause, tone: "quiet" })}</section>`;
  }
  return html`<section class="card" id="resume"><h2>${words.resumeTitle}</h2>${form(visit, {
    name: "resume",
    content: choiceField(visit, {
      form: "resume",
      name: "backlog",
      label: words.backlog,
      value: "replay",
      choices: [
        { value: "replay", label: words.replay, hint: words.replayHint },
        { value: "discard", label: words.discard, hint: words.discardHint },
      ],
    }),
    submit: words.resume,
  })}</section>`;
}

function clearing(visit: Visit, { callback_url }: CallbackAnswer): Html | undefined {
  const words = visit.texts.callbacks;
  if (callback_url === null) return undefined;
  return html`<details><summary>${words.clearTitle}</summary><p>${words.clearHint}</p>
    ${form(visit, { name: "clear", submit: words.clear, tone: "danger" })}</details>`;
}

type State = "none" | "active" | "failing" | "paused" | "suspended";

const TONES: Record<State, Tone> = {
  none: "plain",
  active: "good",
  failing: "warn",
  paused: "warn",
  suspended: "bad",
};

function callbackState({ texts }: Visit, callback: CallbackAnswer): Html {
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
