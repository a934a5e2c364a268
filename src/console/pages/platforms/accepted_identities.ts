import { addSeconds } from "../../../clock.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import { type Form, page, type Visit } from "../../core/page.ts";
import { selectField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { pager, table } from "../../elements/listing.ts";
import { pickedScopes, scopeList, scopePicker } from "../../elements/scopes.ts";
import { badge, copyable, time, withNames } from "../../elements/values.ts";
import { declaredNote } from "./platform.ts";

const DAY_SECONDS = 86_400;

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about the root identities of other accounts whose delegations a platform accepts. */
export const acceptedIdentitiesPage = page<Loaded>({
  id: "accepted_identities",
  path: "/console/platforms/{platform_id}/accepted",
  operations: [
    "list_accepted_principals",
    "accept_principal",
    "end_accepted_principal",
    "get_platform",
    "list_scopes",
  ],
  load,
  title: ({ texts }) => texts.platforms.acceptedTitle,
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, loaded) {
    const { platform } = loaded;
    const words = visit.texts.platforms;
    return html`<p class="lead">${withNames(words.acceptedLead, platform.name)}</p>
      ${declaredNote(visit, platform)}
      ${list(visit, loaded)}
      ${ownIdentity(visit)}
      ${visit.may("accept_principal") && platform.declared_by === null && accepting(visit, loaded)}
      ${visit.may("end_accepted_principal") && loaded.items.length > 0 && ending(visit, loaded)}`;
  },
  forms: { accept: acceptForm(), end: endForm() },
});

async function load({ call, params, query }: Visit) {
  const [platform, { items, next_cursor }, vocabulary] = await Promise.all([
    call("get_platform", { params }),
    call("list_accepted_principals", { params, query: { cursor: query.cursor } }),
    call("list_scopes"),
  ]);
  return { platform, items, next_cursor, vocabulary };
}

function list(visit: Visit, { items, next_cursor }: Loaded): Html {
  const words = visit.texts.platforms;
  return html`<section class="card">${table({
    caption: words.acceptedTitle,
    items,
    empty: words.noneAccepted,
    columns: [
      { label: words.human, cell: ({ human_id }) => html`<code>${human_id}</code>` },
      { label: words.scopes, cell: ({ scopes }) => scopeList(scopes) },
      { label: words.until, cell: ({ accepted_until }) => until(visit, accepted_until) },
    ],
  })}</section>${pager(visit, next_cursor)}`;
}

function until({ texts, now }: Visit, end: string | null): Html | string {
  const { noEnd, untilEnded } = texts.platforms;
  if (end === null) return noEnd;
  return html`${time(end)} ${Date.parse(end) <= now.getTime() && badge(untilEnded, "warn")}`;
}

/** Returns the person's root identity, for others to accept. Returns nothing in an organization's account. */
function ownIdentity({ texts, session, account }: Visit): Html | undefined {
  const isOwn = account === undefined || account === session?.account_id;
  if (session?.human_id == null || !isOwn) return undefined;
  return html`<p class="own">${texts.platforms.ownIdentity} ${copyable(texts, { id: "own-identity", text: session.human_id })}</p>`;
}

function ending(visit: Visit, { items }: Loaded): Html {
  const words = visit.texts.platforms;
  return html`<section class="card"><h2>${words.endAcceptance}</h2>${form(visit, {
    name: "end",
    once: true,
    content: selectField(visit, {
      form: "end",
      name: "human_id",
      label: words.human,
      hint: words.endAcceptanceHint,
      choices: items.map(({ human_id }) => ({ value: human_id, label: human_id })),
    }),
    submit: words.endSubmit,
    tone: "danger",
  })}</section>`;
}

function accepting(visit: Visit, { vocabulary }: Loaded): Html {
  const words = visit.texts.platforms;
  return html`<section class="card"><h2>${words.accept}</h2>${form(visit, {
    name: "accept",
    content: html`${textField(visit, {
      form: "accept",
      name: "human_id",
      label: words.human,
      hint: words.acceptHint,
      attributes: { maxlength: 32, autocomplete: "off", spellcheck: "false" },
    })}
    ${scopePicker(visit, { form: "accept", name: "scopes", label: words.acceptScopes, hint: words.acceptScopesHint, vocabulary })}
    ${textField(visit, {
      form: "accept",
      name: "last_day",
      label: words.lastDay,
      hint: words.lastDayHint,
      required: false,
      attributes: { type: "date" },
    })}`,
    submit: words.acceptSubmit,
  })}</section>`;
}

function acceptForm(): Form {
  return {
    errorFields: { invalid_principal: "human_id", invalid_scopes: "scopes", invalid_expiry: "last_day" },
    faults: ({ platforms }) => ({ scopes: platforms.ceilingEmpty }),
    async submit(visit, fields) {
      const human_id = fields.get("human_id").trim().toLowerCase();
      if (!/^[0-9a-f]{32}$/.test(human_id)) {
        throw new ApiError("invalid_principal", visit.texts.platforms.notAnIdentity);
      }
      const params = { ...visit.params, human_id };
      const body = {
        scopes: pickedScopes(fields, "scopes"),
        accepted_until: endOf(visit, fields.get("last_day")),
      };
      await visit.call("accept_principal", { params, body }).catch((error: unknown) => {
        throw refusedIdentity(visit, error);
      });
      return { to: visit.at(`/platforms/${visit.params.platform_id}/accepted`), notice: "accepted" };
    },
  };
}

/** Replaces the API's error about an identity with an error that is written for people. */
function refusedIdentity({ texts }: Visit, error: unknown): unknown {
  const { nobodysIdentity, alwaysCounts } = texts.platforms;
  const said = { not_found: nobodysIdentity, invalid_principal: alwaysCounts };
  if (!(error instanceof ApiError) || !(error.code in said)) return error;
  return new ApiError("invalid_principal", said[error.code as keyof typeof said]);
}

/** Returns a day's end in UTC. Throws `invalid_expiry` if the day is invalid, past or after the year 9999. */
function endOf({ texts, now }: Visit, day: string): string | null {
  if (day === "") return null;
  const { noSuchDay, dayIsOver, dayTooLate } = texts.platforms;
  const start = new Date(`${day}T00:00:00Z`);
  const isDay = !Number.isNaN(start.getTime()) && start.toISOString().startsWith(`${day}T`);
  if (!isDay) throw new ApiError("invalid_expiry", noSuchDay);
  const end = addSeconds(start, DAY_SECONDS);
  if (end <= now) throw new ApiError("invalid_expiry", dayIsOver);
  if (end.getUTCFullYear() > 9_999) throw new ApiError("invalid_expiry", dayTooLate);
  return end.toISOString();
}

function endForm(): Form {
  return {
    async submit(visit, fields) {
      const params = { ...visit.params, human_id: fields.get("human_id") };
      await visit.call("end_accepted_principal", { params, once: true });
      return { to: visit.at(`/platforms/${visit.params.platform_id}/accepted`), notice: "acceptance_ended" };
    },
  };
}
