import { type Html, html } from "../../../html/html.ts";
import { BY_OPERATOR } from "../../../platforms/api_keys/api_key.ts";
import type { KeyAnswer } from "../../../platforms/api_keys/key_routes.ts";
import type { ConnectionAnswer } from "../../../platforms/connections/connection_key_routes.ts";
import type { AgentAnswer } from "../../../platforms/platform_answers.ts";
import type { Fields } from "../../core/forms.ts";
import type { Outcome, Visit } from "../../core/page.ts";
import { selectField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { table } from "../../elements/listing.ts";
import { countdown, onceOnly, shownOnce } from "../../elements/secrets.ts";
import { badge, time } from "../../elements/values.ts";

/** The operations of the section about a connection's API keys. */
export const KEY_OPERATIONS = [
  "list_api_keys",
  "create_api_key",
  "end_api_key",
  "end_former_api_keys",
] as const;

const [CREATE, END, END_FORMER] = ["create_key", "end_key", "end_former"] as const;
/** The choice of a verify key in the form that creates a key. All other choices are ids of agents. */
const VERIFY = "verify";

type Loaded = {
  connection: ConnectionAnswer;
  agents: { items: AgentAnswer[] };
  keys: KeyAnswer[];
};

/** Reads all valid keys of a connection, and the ended keys on the same pages of the list. */
export async function listKeys(visit: Pick<Visit, "call" | "params" | "now">): Promise<KeyAnswer[]> {
  const keys: KeyAnswer[] = [];
  const { call } = visit;
  const params = { connection_id: visit.params.connection_id ?? "" };
  let cursor: string | undefined;
  do {
    const read = await call("list_api_keys", { params, query: { limit: "100", cursor } });
    keys.push(...read.items);
    const last = read.items.at(-1);
    const goesOn = last !== undefined && stateOf(visit, last) !== "ended";
    cursor = (goesOn && read.next_cursor) || undefined;
  } while (cursor !== undefined);
  return keys;
}

/** Returns the section about a connection's API keys: the list, and the forms that create and end keys. */
export function keysSection(visit: Visit, loaded: Loaded): Html {
  const words = visit.texts.connections;
  const { connection } = loaded;
  const known = new Map(loaded.keys.map((key) => [key.api_key_prefix, key]));
  const full = connection.api_keys.map((key) => ({ ...fullKey, ...known.get(key.api_key_prefix), ...key }));
  const narrow = loaded.keys.filter(({ role }) => role !== "full");
  return html`<section class="card" id="keys"><h2>${words.keys}</h2>
    <p class="quiet">${words.keysLead}</p>
    ${keyTable(visit, loaded.agents.items, [...full, ...narrow])}
    ${visit.may("rotate_api_key") && html`<p class="actions"><a class="button" href=${visit.at(`/connections/${connection.connection_id}/rotate-key`)}>${words.rotate}</a></p>`}
    ${
      full.some((key) => stateOf(visit, key) === "ending") &&
      visit.may("end_former_api_keys") &&
      form(visit, {
        name: END_FORMER,
        content: html`<p>${words.endFormerLead}</p>`,
        submit: words.endFormer,
        tone: "quiet",
      })
    }
  </section>
  <div class="cards">${createCard(visit, loaded)}${endCard(visit, loaded.agents.items, narrow)}</div>`;
}

type Agents = readonly Pick<AgentAnswer, "agent_id" | "name">[];

/** Returns the table of a connection's API keys. A key of an agent that is not in `agents` has its id. */
export function keyTable(visit: Visit, agents: Agents, items: readonly KeyAnswer[]): Html {
  const words = visit.texts.connections;
  return table<KeyAnswer>({
    caption: words.keysTable,
    items,
    empty: undefined,
    columns: [
      { label: words.key, cell: ({ api_key_prefix }) => html`<code>${api_key_prefix}…</code>` },
      { label: words.keyFor, cell: (key) => html`<bdi>${purpose(visit, agents, key)}</bdi>` },
      { label: words.made, cell: (key) => html`${time(key.created_at)} ${maker(visit, key)}` },
      {
        label: words.keyUsed,
        cell: ({ last_used_at: used }) => (used === null ? words.keyUnused : time(used)),
      },
      { label: words.state, cell: (key) => keyState(visit, key) },
    ],
  });
}

const fullKey = { role: "full", agent_id: null, made_with: null, last_used_at: null } as const;

/** Returns who created a narrow key: a key, a person or the operator. Any rotation creates the full keys. */
function maker({ texts }: Visit, { role, made_with }: KeyAnswer): Html | undefined {
  const words = texts.connections;
  if (role === "full") return undefined;
  const made: Record<string, Html | string> = {
    null: words.madeByPerson,
    [BY_OPERATOR]: words.madeByOperator,
  };
  return html`<span class="quiet">${made[`${made_with}`] ?? html`${words.madeWith} <code>${made_with}…</code>`}</span>`;
}

function purpose({ texts }: Visit, agents: Agents, { role, agent_id }: KeyAnswer): string {
  const words = texts.connections;
  if (agent_id === null) return words.keyRoles[role];
  const agent = agents.find((each) => each.agent_id === agent_id);
  return `${words.keyRoles[role]} ${agent?.name ?? agent_id}`;
}

function createCard(visit: Visit, { agents }: Loaded): Html | undefined {
  const words = visit.texts.connections;
  if (!visit.may("create_api_key")) return undefined;
  const content = form(visit, {
    name: CREATE,
    once: true,
    content: selectField(visit, {
      form: CREATE,
      name: "purpose",
      label: words.keyFor,
      choices: [
        { value: VERIFY, label: words.keyRoles.verify },
        ...agents.items.map(({ agent_id, name }) => ({
          value: agent_id,
          label: `${words.keyRoles.agent} ${name}`,
        })),
      ],
    }),
    submit: words.makeNarrowKey,
    tone: "quiet",
  });
  return html`<section class="card"><h2>${words.newNarrowKey}</h2><p class="quiet">${words.newNarrowKeyLead}</p>
    ${content}</section>`;
}

/** Returns the form that ends one of these narrow keys, unless all have ended. */
export function endCard(visit: Visit, agents: Agents, narrow: readonly KeyAnswer[]): Html | undefined {
  const words = visit.texts.connections;
  const keys = narrow.filter((key) => stateOf(visit, key) !== "ended");
  if (keys.length === 0 || !visit.may("end_api_key")) return undefined;
  const content = form(visit, {
    name: END,
    content: selectField(visit, {
      form: END,
      name: "api_key_prefix",
      label: words.key,
      choices: keys.map((key) => ({
        value: key.api_key_prefix,
        label: `${key.api_key_prefix}… (${purpose(visit, agents, key)})`,
      })),
    }),
    submit: words.endNarrowKey,
    tone: "danger",
  });
  return html`<section class="card"><h2>${words.endNarrowKey}</h2><p class="quiet">${words.endNarrowKeyLead}</p>
    ${content}</section>`;
}

/** Returns whether a key has no end, is valid until a known time, or has ended. */
function stateOf(
  { now }: Pick<Visit, "now">,
  { role, made_with, valid_until }: Pick<KeyAnswer, "role" | "made_with" | "valid_until">,
): "current" | "ending" | "ended" {
  if (valid_until === null) return "current";
  // Other narrow keys end immediately, even if this replica's clock is behind the clock that wrote the end.
  if (role !== "full" && made_with !== BY_OPERATOR) return "ended";
  return Date.parse(valid_until) > now.getTime() ? "ending" : "ended";
}

function keyState(visit: Visit, key: KeyAnswer): Html {
  const words = visit.texts.connections;
  const state = stateOf(visit, key);
  const end = new Date(key.valid_until ?? 0);
  if (state === "current") return badge(words.current, "good");
  if (state === "ended") return html`${badge(words.ended)} ${time(end)}`;
  return html`${badge(words.ending, "warn")} ${time(end)} <span class="quiet">(${countdown(visit, end)})</span>`;
}

const address = ({ at, params }: Visit) => at(`/connections/${params.connection_id}`);

/** The forms of the section. */
export const keyForms = {
  [END_FORMER]: {
    async submit(visit: Visit): Promise<Outcome> {
      await visit.call("end_former_api_keys", { params: visit.params });
      return { to: address(visit), notice: "keys_ended" };
    },
  },
  [END]: { submit: (visit: Visit, fields: Fields) => endKey(visit, fields, address(visit)) },
  [CREATE]: {
    submit: (visit: Visit, fields: Fields): Promise<Outcome> => {
      const words = visit.texts.connections;
      return onceOnly(() => createKey(visit, fields), {
        title: words.onceTitle,
        explain: words.onceNarrow,
        links: [html`<a class="button" href=${address(visit)}>${words.back}</a>`],
      });
    },
  },
};

/** Ends the chosen narrow key, and returns to a page. */
export async function endKey(visit: Visit, fields: Fields, to: string): Promise<Outcome> {
  const params = {
    connection_id: visit.params.connection_id ?? "",
    api_key_prefix: fields.get("api_key_prefix"),
  };
  await visit.call("end_api_key", { params });
  return { to, notice: "key_ended" };
}

async function createKey(visit: Visit, fields: Fields): Promise<Outcome> {
  const { call, params, texts } = visit;
  const words = texts.connections;
  const chosen = fields.get("purpose");
  const body = chosen === VERIFY ? { role: "verify" } : { role: "agent", agent_id: chosen };
  const { api_key } = await call("create_api_key", { params, body, once: true });
  return {
    title: words.rotatedTitle,
    content: html`<p class="lead">${words.rotatedLead}</p>
      ${shownOnce(texts, { id: "api-key", label: words.newKey, text: api_key, file: "api-key.txt" })}
      <p class="actions"><a class="button" href=${address(visit)}>${words.back}</a></p>`,
  };
}
