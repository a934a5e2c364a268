import { type ErrorCode, errorCodes } from "../../../errors.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { ActivityAnswer } from "../../../organizations/activity.ts";
import { memberRoles } from "../../../route.ts";
import { icon } from "../../core/icons.ts";
import { page, type Visit } from "../../core/page.ts";
import { selectField, textField } from "../../elements/fields.ts";
import { type FileColumn, listFile, partsFrom } from "../../elements/list_file.ts";
import { faultNote, filterForm, filtersOf, orFault, pager, table } from "../../elements/listing.ts";
import { badge, moment, type Tone, zoneSwitch } from "../../elements/values.ts";
import { daysOf } from "./filters.ts";

type Entry = ActivityAnswer["items"][number];
type Data = Awaited<ReturnType<typeof load>>;
/** Email addresses by account, and names by id. */
type Known = { emails: ReadonlyMap<string, string>; names: ActivityAnswer["names"] };

const TONES: Record<Entry["status"], Tone> = { done: "good", begun: "warn", refused: "bad" };
const PLACES: Record<string, string> = {
  platform_id: "/platforms/",
  agent_id: "/agents/",
  cert_id: "/delegations/",
  linked_cert_id: "/delegations/",
  request_id: "/requests/",
  connection_id: "/connections/",
  proposal_id: "/proposals/",
};
/** Operations of a customer whose connection has a page. */
const PRODUCT_OPERATIONS = new Set(["oauth_token", "narrow_connected_product"]);
const FIELDS = ["account_id", "operation", "from", "to"] as const;

/** The page with people's changes for the account, newest first. */
export const activityPage = page<Data>({
  id: "activity",
  path: "/console/activity",
  operations: ["list_organization_activity", "list_organization_members"],
  load,
  title: (visit) => (isPersonal(visit) ? visit.texts.activity.ownTitle : visit.texts.activity.title),
  back: ({ at, texts }) => ({ to: at("/history"), text: texts.history.title }),
  render(visit, { members, fault, ...activity }) {
    const { activity: words } = visit.texts;
    const emails = new Map([...activity.actors, ...members].map((each) => [each.account_id, each.email]));
    const known = { emails, names: activity.names };
    const who = {
      label: words.who,
      cell: ({ actor }: Entry) =>
        actor === null
          ? words.otherParty
          : html`${actor.email}<br /><span class="quiet">${visit.texts.acting.roles[actor.role]}</span>`,
    };
    return html`<p class="lead">${isPersonal(visit) ? words.ownLead : words.lead}</p>
    ${filters(visit, { members, actors: activity.actors })}
    ${
      fault === undefined
        ? html`<section class="card"><p class="actions">${zoneSwitch(visit.texts)}</p>${table({
            caption: words.caption,
            items: activity.items,
            empty: words.none,
            columns: [
              { label: words.when, cell: ({ occurred_at }) => moment(occurred_at) },
              ...(isPersonal(visit) ? [] : [who]),
              {
                label: words.what,
                cell: ({ operation, actor }) =>
                  (actor === null ? words.byOther : words.operations)[operation] ??
                  html`<code>${operation}</code>`,
              },
              { label: words.about, cell: (entry) => about(visit, entry, known) },
              { label: words.outcome, cell: (entry) => outcome(visit, entry) },
            ],
          })}
          ${pager(visit, activity.next_cursor)}</section>
          ${activity.items.length > 0 && files(visit)}`
        : faultNote(visit.texts, fault)
    }`;
  },
});

function isPersonal({ acting }: Visit): boolean {
  return acting?.organization_name === null;
}

function read(visit: Visit, page: { limit?: string; cursor?: string | undefined }): Promise<ActivityAnswer> {
  const { from, to, ...rest } = filtersOf(visit, FIELDS);
  return visit.call("list_organization_activity", { query: { ...rest, ...daysOf(from, to), ...page } });
}

async function load(visit: Visit) {
  const [activity, { members }] = await Promise.all([
    read(visit, { cursor: visit.query.cursor }).catch(
      orFault({ items: [], next_cursor: null, actors: [], names: {} }),
    ),
    isPersonal(visit) ? { members: [] } : visit.call("list_organization_members"),
  ]);
  return { fault: undefined, ...activity, members };
}

function filters(visit: Visit, { members, actors }: Pick<Data, "members" | "actors">): Html {
  const { activity: words, history } = visit.texts;
  const isMember = (actor: { account_id: string }) =>
    members.some(({ account_id }) => account_id === actor.account_id);
  const day = (name: "from" | "to") =>
    textField(visit, {
      form: "filter",
      name,
      label: history[name],
      required: false,
      value: visit.query[name] ?? "",
      attributes: { type: "date" },
    });
  const member = () =>
    selectField(visit, {
      form: "filter",
      name: "account_id",
      label: words.member,
      value: visit.query.account_id ?? "",
      required: false,
      choices: [
        { value: "", label: words.everybody },
        ...members.map(({ account_id, email }) => ({ value: account_id, label: email })),
        ...actors
          .filter((actor) => !isMember(actor))
          .map(({ account_id, email }) => ({ value: account_id, label: words.former(email) })),
      ],
    });
  return filterForm(visit, {
    label: words.filter,
    content: html`${day("from")}${day("to")}${!isPersonal(visit) && member()}
    ${selectField(visit, {
      form: "filter",
      name: "operation",
      label: words.what,
      value: visit.query.operation ?? "",
      required: false,
      choices: [
        { value: "", label: words.everything },
        ...Object.entries(words.operations).map(([value, label = value]) => ({ value, label })),
      ],
    })}`,
  });
}

function files({ at, query, texts: { activity: words, history } }: Visit): Html {
  const chosen = Object.fromEntries(FIELDS.map((name) => [name, query[name] || undefined]));
  const to = (format: string) => at("/activity/export", { ...chosen, format });
  return html`<section class="card"><h2>${history.keep}</h2><p>${words.keepLead}</p>
    <p class="actions"><a class="button quiet" href=${to("csv")}>${icon("download")}${history.csv}</a>
    <a class="button quiet" href=${to("ndjson")}>${icon("download")}${history.ndjson}</a></p></section>`;
}

function about(visit: Visit, entry: Entry, known: Known): Piece {
  const { targets } = visit.texts.activity;
  const { target } = entry;
  const { account_id: accountId, email } = target;
  const isMember = accountId !== undefined && email !== undefined;
  const entries = Object.entries(target).filter(([key]) => !(isMember && key === "account_id"));
  return entries.map(([key, value], place) => {
    const name = isMember && key === "email" ? "account_id" : key;
    const label = Object.hasOwn(targets, name) ? targets[name] : name;
    return html`${place > 0 && html`<br />`}<span class="quiet">${label}</span> ${said(visit, key, value, { ...known, place: placeOf(entry, key) })}`;
  });
}

/** Returns the start of the address of the page about a value of a change's target, if there is one. */
function placeOf({ operation, target, actor }: Entry, key: string): string | undefined {
  if (key === "connection_id" && typeof target.platform_id === "string") {
    return `/platforms/${encodeURIComponent(target.platform_id)}/customers/`;
  }
  // An ended connection has no page.
  if (key === "connection_id" && (operation === "end_connected_product" || actor === null)) return undefined;
  if (key === "connection_id" && PRODUCT_OPERATIONS.has(operation)) return "/products/";
  return Object.hasOwn(PLACES, key) ? PLACES[key] : undefined;
}

/** Returns a value of a change's target: the name if one is known, or a link if the value has a page. */
function said(
  { texts, at }: Visit,
  key: string,
  value: string | boolean,
  { emails, names, place: start }: Known & { place: string | undefined },
): Piece {
  const { activity: words, acting } = texts;
  if (typeof value === "boolean") return value ? words.yes : words.no;
  if (key === "account_id") return emails.get(value) ?? value;
  if (key === "connecting") return Object.hasOwn(words.connecting, value) ? words.connecting[value] : value;
  if (key === "role") return memberRoles.filter((role) => role === value).map((role) => acting.roles[role]);
  const name = Object.hasOwn(names, value) ? names[value] : undefined;
  if (start === undefined) {
    return name === undefined ? html`<bdi>${value}</bdi>` : html`<bdi title=${value}>${name}</bdi>`;
  }
  const to = at(`${start}${encodeURIComponent(value)}`);
  return name === undefined
    ? html`<a class="mono" href=${to}>${value}</a>`
    : html`<a href=${to} title=${value}><bdi>${name}</bdi></a>`;
}

function outcome(visit: Visit, { status, error_code }: Entry): Piece {
  const { activity: words } = visit.texts;
  return html`${badge(words[status], TONES[status])}${error_code !== null && html`<br /><span class="quiet">${whyRefused(visit, error_code)}</span>`}`;
}

/** Returns why a change was refused. An unknown code is shown unchanged. */
function whyRefused({ texts: { activity: words, errors } }: Visit, code: string): string {
  const meaning = Object.hasOwn(errorCodes, code) ? errorCodes[code as ErrorCode][1] : code;
  return words.refusals[code] ?? errors.messages[code] ?? meaning;
}

/** An entry of the file, with the names of the objects that its target names. */
type Line = Entry & { names: ActivityAnswer["names"] };
type Lines = { items: Line[]; next_cursor: string | null };

/** The page that downloads the filtered changes as one file, newest first. */
export const activityExportPage = page<Lines>({
  id: "activity_export",
  path: "/console/activity/export",
  operations: ["list_organization_activity"],
  load: (visit) => readLines(visit),
  file: (visit, first) =>
    listFile(visit, {
      name: "activity",
      counted: "entries",
      columns: COLUMNS,
      parts: partsFrom(first, (cursor) => readLines(visit, cursor)),
    }),
});

async function readLines(visit: Visit, cursor?: string): Promise<Lines> {
  const { items, next_cursor, names } = await read(visit, { limit: "1000", cursor });
  const namesFor = ({ target }: Entry) =>
    Object.fromEntries(
      Object.values(target).flatMap((id) =>
        typeof id === "string" && Object.hasOwn(names, id) ? [[id, names[id] ?? ""]] : [],
      ),
    );
  return { items: items.map((entry) => ({ ...entry, names: namesFor(entry) })), next_cursor };
}

const COLUMNS: readonly FileColumn<Line>[] = [
  ["occurred_at", (line) => line.occurred_at],
  ["activity_id", (line) => line.activity_id],
  ["actor_email", ({ actor }) => actor?.email ?? ""],
  ["actor_role", ({ actor }) => actor?.role ?? ""],
  ["actor_account_id", ({ actor }) => actor?.account_id ?? ""],
  ["operation", (line) => line.operation],
  ["status", (line) => line.status],
  ["error_code", (line) => line.error_code],
  ["target", ({ target }) => JSON.stringify(target)],
  ["names", ({ names }) => [...new Set(Object.values(names))].join(", ")],
];
