import type { CertificateAnswer } from "../../../delegations/delegation_answers.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import { type Fields, inWords, sentence } from "../../core/forms.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { stateBadge } from "../../elements/delegations.ts";
import { boxField, type Choice, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { pager, unlessNotFound } from "../../elements/listing.ts";
import { labelledScope, labelOf, scopeList } from "../../elements/scopes.ts";
import { objectName, time, withNames } from "../../elements/values.ts";

const CHOOSE = "choose";
const REVOKE = "revoke";
const IDS = "cert_id";
/** Maximum number of delegations that one form revokes, so that the page can answer in time. */
const MOST = 50;

type Loaded =
  | { step: "choose"; items: CertificateAnswer[]; next_cursor: string | null }
  | { step: "confirm"; chosen: CertificateAnswer[]; gone: number };

/**
 * The page that revokes several delegations. A person ticks active delegations, and confirms on a page that
 * names each of them. Each revocation is a separate operation.
 */
export const revokeManyPage = page<Loaded>({
  id: "revoke_delegations",
  path: "/console/delegations/revoke",
  operations: ["revoke_delegation", "list_delegations", "get_delegation"],
  load,
  title: ({ texts }, loaded) =>
    loaded.step === "choose" ? texts.revokeMany.title : texts.revokeMany.confirmTitle(loaded.chosen.length),
  back: ({ at, texts }) => ({ to: at("/delegations"), text: texts.delegations.title }),
  render: (visit, loaded) => (loaded.step === "choose" ? choosing(visit, loaded) : confirming(visit, loaded)),
  forms: {
    [CHOOSE]: { carries: true, submit: async () => "again" },
    [REVOKE]: { submit: revokeEach },
  },
});

function idsOf(fields: Fields): string[] {
  return [...new Set(fields.all(IDS).filter((id) => id !== ""))];
}

async function load(visit: Visit): Promise<Loaded> {
  const { call, query, failure } = visit;
  const ids = failure === undefined ? [] : idsOf(failure.typed);
  if (ids.length > 0 && ids.length <= MOST) {
    const chosen = (await findAll(visit, ids)).filter(({ status }) => status !== "revoked");
    return { step: "confirm", chosen, gone: ids.length - chosen.length };
  }
  const { q, agent_id, platform_id, cursor } = query;
  const asked = { q, agent_id, platform_id, cursor, state: "active", limit: String(MOST) };
  return { step: "choose", ...(await call("list_delegations", { query: asked })) };
}

/** Returns the account's certificates among these ids. */
async function findAll({ call }: Visit, ids: readonly string[]): Promise<CertificateAnswer[]> {
  const found = await Promise.all(
    ids.map((cert_id) => call("get_delegation", { params: { cert_id } }).catch(unlessNotFound)),
  );
  return found.filter((certificate) => certificate !== undefined);
}

function choosing(visit: Visit, { items, next_cursor }: Extract<Loaded, { step: "choose" }>): Html {
  const { texts, query, own, path, failure } = visit;
  const words = texts.revokeMany;
  if (items.length === 0) return html`<p class="quiet">${words.nothing}</p>`;
  const { notice, ...filters } = query;
  return html`<p class="lead">${words.lead}</p>
    ${failure?.form === CHOOSE && html`<p class="refusal" role="alert">${words.none(MOST)}</p>`}
    <p><a href=${own(path, { ...filters, all: "1" })}>${words.all}</a></p>
    ${form(visit, {
      name: CHOOSE,
      content: boxField(visit, {
        form: CHOOSE,
        name: IDS,
        label: words.active,
        isTicked: () => query.all === "1",
        choices: items.map((each) => choiceOf(visit, each)),
      }),
      submit: words.go,
      beside: html`<a href=${visit.at("/delegations")}>${texts.revokeMany.cancel}</a>`,
    })}
    ${pager(visit, next_cursor)}`;
}

function choiceOf(visit: Visit, certificate: CertificateAnswer): Choice {
  const { agent, platform, approved_scope, scope_descriptions, cert_id } = certificate;
  return {
    value: cert_id,
    label: html`<bdi>${agent.name}</bdi> <span class="quiet">${withNames(visit.texts.delegations.of, platform.name)}</span>`,
    hint: html`${approved_scope.map((scope) => html`${labelledScope(scope, labelOf({ scope_descriptions }, scope))} `)}`,
  };
}

function confirming(visit: Visit, { chosen, gone }: Extract<Loaded, { step: "confirm" }>): Html {
  const { texts, at } = visit;
  const words = texts.revokeMany;
  if (chosen.length === 0) {
    return html`<p>${words.done}</p><p><a class="button" href=${at("/delegations")}>${words.toList}</a></p>`;
  }
  return html`<p class="lead">${words.confirmLead}</p>
    ${gone > 0 && html`<p class="notice">${words.gone(gone)}</p>`}
    <section class="card"><h2>${words.ends}</h2>
      <ul class="plain-list">${chosen.map((each) => named(visit, each))}</ul></section>
    <section class="card">${form(visit, {
      name: REVOKE,
      content: html`${hiddenIds(chosen)}
        ${textField(visit, {
          form: REVOKE,
          name: "reason",
          label: texts.revoke.reason,
          hint: texts.revoke.reasonHint,
          required: false,
          attributes: { maxlength: 500, autocomplete: "off" },
        })}`,
      submit: words.submit(chosen.length),
      tone: "danger",
      beside: html`<a href=${at("/delegations")}>${texts.revokeMany.cancel}</a>`,
    })}</section>`;
}

function hiddenIds(certificates: readonly CertificateAnswer[]): Html {
  return html`${certificates.map(({ cert_id }) => html`<input type="hidden" name=${IDS} value=${cert_id} />`)}`;
}

function named(visit: Visit, certificate: CertificateAnswer, fault?: string): Html {
  const { texts, at } = visit;
  const { cert_id, agent, platform, approved_scope, scope_descriptions, expires_at, declared_by } =
    certificate;
  const words = texts.delegations;
  return html`<li><p><a href=${at(`/delegations/${cert_id}`)}><bdi>${agent.name}</bdi></a>${" "}
      <span class="quiet">${withNames(words.of, platform.name)}</span> ${stateBadge(visit, certificate)}</p>
    ${fault !== undefined && html`<p class="fault">${fault}</p>`}
    ${scopeList(approved_scope, scope_descriptions)}
    <p class="quiet">${words.ends}: ${expires_at === null ? words.forever : time(expires_at)}</p>
    ${declared_by !== null && html`<p>${texts.revoke.declared(objectName(declared_by), declared_by.cluster_id)}</p>`}</li>`;
}

type Failed = { certificate: CertificateAnswer; why: string };

/** Revokes each delegation. A failure does not stop the others. The answer names those still active. */
async function revokeEach(visit: Visit, fields: Fields): Promise<Outcome> {
  const { at, texts } = visit;
  const ids = idsOf(fields);
  if (ids.length === 0 || ids.length > MOST) {
    throw new ApiError("invalid_request", texts.revokeMany.none(MOST));
  }
  const found = await findAll(visit, ids);
  if (found.length === 0) throw new ApiError("not_found");
  const failed: Failed[] = [];
  for (const certificate of found) {
    const why = await revokeOne(visit, certificate, fields.get("reason").trim());
    if (why !== undefined) failed.push({ certificate, why });
  }
  if (failed.length === 0) return { to: at("/delegations"), notice: "revoked_many" };
  const certificates = failed.map(({ certificate }) => certificate);
  return {
    title: texts.revokeMany.failedTitle(found.length - failed.length, found.length),
    content: html`<p class="refusal" role="alert">${texts.revokeMany.failed}</p>
      <section class="card"><ul class="plain-list">${failed.map(({ certificate, why }) => named(visit, certificate, why))}</ul></section>
      ${form(visit, { name: CHOOSE, content: hiddenIds(certificates), submit: texts.revokeMany.again })}`,
  };
}

/** Returns why a delegation could not be revoked, or `undefined` if it has ended. */
async function revokeOne(
  { call, texts }: Visit,
  { cert_id }: CertificateAnswer,
  reason: string,
): Promise<string | undefined> {
  try {
    await call("revoke_delegation", { params: { cert_id }, body: reason === "" ? {} : { reason } });
  } catch (error) {
    // These errors concern all delegations alike. The page keeps the form, which can be sent again.
    if (!(error instanceof ApiError) || CONCERNS_ALL.has(error.code)) throw error;
    return sentence(texts.errors.messages[error.code] ?? inWords(texts, error.message));
  }
  return undefined;
}

const CONCERNS_ALL = new Set(["invalid_request", "csrf_failed", "auth_required"]);
