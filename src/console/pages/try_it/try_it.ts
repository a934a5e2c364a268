import type { CertificateAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html } from "../../../html/html.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { unlessNotFound } from "../../elements/listing.ts";
import { facts } from "../../elements/values.ts";
import { contextOf, questionForm, scopeOf } from "./question.ts";
import { resultContent, resultTitle } from "./result.ts";

type TryIt = Awaited<ReturnType<typeof load>>;

/** The page that explains how the service would answer an application about a delegation. */
export const tryItPage = page<TryIt>({
  id: "try_it",
  path: "/console/try",
  operations: ["try_proof", "list_delegations", "get_delegation", "get_platform", "get_credits"],
  navigation: { order: 60, label: (texts) => texts.tryIt.navigation },
  load,
  title: ({ texts }) => texts.tryIt.title,
  render: (visit, data) => html`<p class="lead">${visit.texts.tryIt.lead}</p>${content(visit, data)}`,
  forms: {
    try: {
      errorFields: { invalid_scope: "another_scope" },
      faults: ({ tryIt }) => ({ required_scope: tryIt.notAScope }),
      async submit(visit, fields): Promise<Outcome> {
        const certificate = await readCertificate(visit, fields.get("delegation"));
        const [requiredScope, context] = [scopeOf(fields), contextOf(visit, fields)];
        const { cert_id, connection_id, agent_id } = certificate;
        const answer = await visit.call("try_proof", {
          params: { connection_id, agent_id },
          body: { required_scope: requiredScope, cert_id, context },
          once: true,
        });
        const known = { certificate, ...(await surroundings(visit, certificate)) };
        const result = { ...known, requiredScope, context, answer };
        return { title: resultTitle(visit, result), content: resultContent(visit, result) };
      },
    },
  },
});

async function load(visit: Visit) {
  const { items } = await visit.call("list_delegations", { query: { limit: "100" } });
  const asked = visit.failure?.typed.get("delegation") || visit.query.delegation;
  const chosenId = asked || (items.length === 1 ? items[0]?.cert_id : undefined);
  if (chosenId === undefined) return { items, chosen: undefined };
  const listed = items.find(({ cert_id }) => cert_id === chosenId);
  const certificate = listed ?? (await readCertificate(visit, chosenId));
  const chosen = { certificate, ...(await surroundings(visit, certificate)) };
  return { items, chosen };
}

function readCertificate({ call }: Visit, certId: string): Promise<CertificateAnswer> {
  return call("get_delegation", { params: { cert_id: certId } });
}

/** Returns the platform's ceiling, if the platform still exists, and the price of a decision. */
async function surroundings({ call }: Visit, { platform }: CertificateAnswer) {
  const [found, { price_micro_usd }] = await Promise.all([
    call("get_platform", { params: { platform_id: platform.platform_id } }).catch(unlessNotFound),
    call("get_credits", { query: { limit: "1" } }),
  ]);
  return { ceiling: found?.default_allowed_scopes, price: String(price_micro_usd / 1_000_000) };
}

function content(visit: Visit, data: TryIt): Html {
  const words = visit.texts.tryIt;
  const { items, chosen } = data;
  if (items.length === 0 && chosen === undefined) {
    return html`<p>${words.nothing}</p><p><a class="button" href=${visit.at("/platforms")}>${words.toPlatforms}</a></p>`;
  }
  const isOnly = items.length === 1 && items[0]?.cert_id === chosen?.certificate.cert_id;
  return html`${!isOnly && choice(visit, items, chosen?.certificate)}${chosen && question(visit, chosen)}`;
}

/** Returns the form that selects a delegation. The selection becomes part of the page's URL. */
function choice(visit: Visit, items: CertificateAnswer[], chosen: CertificateAnswer | undefined): Html {
  const words = visit.texts.tryIt;
  const all = chosen && !items.some(({ cert_id }) => cert_id === chosen.cert_id) ? [chosen, ...items] : items;
  return html`<section class="card"><h2>${words.choose}</h2>
    <form method="get" action=${visit.own(visit.path)} data-at-once=${false}><div class="field">
      <label for="delegation">${words.delegation}</label>
      <p class="hint" id="delegation-hint">${words.delegationHint}</p>
      <select id="delegation" name="delegation" aria-describedby="delegation-hint">${all.map(
        (certificate) =>
          html`<option value=${certificate.cert_id} selected=${certificate.cert_id === chosen?.cert_id}>${words.option(
            certificate.agent.name,
            certificate.platform.name,
            certificate.approved_scope.length,
            words.states[stateOf(visit, certificate)],
          )}</option>`,
      )}</select></div>
      <p class="actions"><button type="submit" class="quiet">${words.chooseIt}</button></p>
    </form></section>`;
}

function stateOf({ now }: Visit, { status, expires_at }: CertificateAnswer): "active" | "ended" | "revoked" {
  if (status === "revoked") return "revoked";
  return expires_at !== null && Date.parse(expires_at) <= now.getTime() ? "ended" : "active";
}

type Chosen = { certificate: CertificateAnswer; ceiling: readonly string[] | undefined; price: string };

function question(visit: Visit, { certificate, ceiling, price }: Chosen): Html {
  const words = visit.texts.tryIt;
  return html`<section class="card"><h2>${words.question}</h2>
    ${facts([
      [words.agent, html`<bdi>${certificate.agent.name}</bdi>`],
      [words.platform, html`<bdi>${certificate.platform.name}</bdi>`],
      [words.state, words.states[stateOf(visit, certificate)]],
    ])}
    ${ceiling === undefined ? html`<p>${words.removed}</p>` : questionForm(visit, { certificate, ceiling, price })}</section>`;
}
