import { type ErrorCode, errorCodes } from "../../../errors.ts";
import { html, type Piece } from "../../../html/html.ts";
import type { ActivityAnswer } from "../../../organizations/activity.ts";
import { memberRoles } from "../../../route.ts";
import { page, type Visit } from "../../core/page.ts";
import { selectField } from "../../elements/fields.ts";
import { filterForm, filtersOf, pager, table } from "../../elements/listing.ts";
import { badge, type Tone, time } from "../../elements/values.ts";

type Entry = ActivityAnswer["items"][number];
type Data = Awaited<ReturnType<typeof load>>;
type Emails = ReadonlyMap<string, string>;

const TONES: Record<Entry["status"], Tone> = { done: "good", begun: "warn", refused: "bad" };
const PLACES: Record<string, string> = {
  platform_id: "/platforms/",
  agent_id: "/agents/",
  cert_id: "/delegations/",
  request_id: "/requests/",
  connection_id: "/connections/",
};

/** The page with the members' changes for an organization, newest first. */
export const activityPage = page<Data>({
  id: "organization_activity",
  path: "/console/organization/activity",
  about: "organization",
  operations: ["list_organization_activity", "list_organization_members"],
  load,
  title: ({ texts }) => texts.activity.title,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { activity, members }) {
    const { activity: words, acting } = visit.texts;
    const isMember = (account: { account_id: string }) =>
      members.some(({ account_id }) => account_id === account.account_id);
    const former = activity.actors.filter((actor) => !isMember(actor));
    const emails = new Map([...activity.actors, ...members].map((each) => [each.account_id, each.email]));
    return html`<p class="lead">${words.lead}</p>
    ${filterForm(visit, {
      label: words.filter,
      content: selectField(visit, {
        form: "filter",
        name: "account_id",
        label: words.member,
        value: visit.query.account_id ?? "",
        required: false,
        choices: [
          { value: "", label: words.everybody },
          ...members.map(({ account_id, email }) => ({ value: account_id, label: email })),
          ...former.map(({ account_id, email }) => ({ value: account_id, label: words.former(email) })),
        ],
      }),
    })}
    <section class="card">${table({
      caption: words.caption,
      items: activity.items,
      empty: words.none,
      columns: [
        { label: words.when, cell: ({ occurred_at }) => time(occurred_at) },
        {
          label: words.who,
          cell: ({ actor }) =>
            html`${actor.email}<br /><span class="quiet">${acting.roles[actor.role]}</span>`,
        },
        {
          label: words.what,
          cell: ({ operation }) => words.operations[operation] ?? html`<code>${operation}</code>`,
        },
        { label: words.about, cell: (entry) => about(visit, entry, emails) },
        { label: words.outcome, cell: (entry) => outcome(visit, entry) },
      ],
    })}</section>
    ${pager(visit, activity.next_cursor)}`;
  },
});

async function load(visit: Visit) {
  const query = { ...filtersOf(visit, ["account_id"]), cursor: visit.query.cursor };
  const [activity, { members }] = await Promise.all([
    visit.call("list_organization_activity", { query }),
    visit.call("list_organization_members"),
  ]);
  return { activity, members };
}

function about(visit: Visit, { target }: Entry, emails: Emails): Piece {
  const { targets } = visit.texts.activity;
  const { account_id: accountId, email } = target;
  const isMember = accountId !== undefined && email !== undefined;
  const entries = Object.entries(target).filter(([key]) => !(isMember && key === "account_id"));
  return entries.map(([key, value], place) => {
    const name = isMember && key === "email" ? "account_id" : key;
    const label = Object.hasOwn(targets, name) ? targets[name] : name;
    return html`${place > 0 && html`<br />`}<span class="quiet">${label}</span> ${said(visit, key, value, emails)}`;
  });
}

/** Returns a value of a change's target: the name if one is known, or a link if the value has a page. */
function said({ texts, at }: Visit, key: string, value: string | boolean, emails: Emails): Piece {
  const { activity: words, acting } = texts;
  if (typeof value === "boolean") return value ? words.yes : words.no;
  if (key === "account_id") return emails.get(value) ?? value;
  if (key === "role") return memberRoles.filter((role) => role === value).map((role) => acting.roles[role]);
  const start = Object.hasOwn(PLACES, key) ? PLACES[key] : undefined;
  if (start === undefined) return value;
  return html`<a class="mono" href=${at(`${start}${encodeURIComponent(value)}`)}>${value}</a>`;
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
