import { isDeepStrictEqual } from "node:util";
import type { CertificateAnswer, RequestAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Constraint } from "../../../protocol/constraints/constraints.ts";
import { page, type Visit } from "../../core/page.ts";
import { grant } from "../../elements/delegations.ts";
import { limitList } from "../../elements/limits.ts";
import { type ScopeWords, scopesInWords } from "../../elements/scopes.ts";
import { titleWith } from "../../elements/values.ts";
import { besideField, decision, previewOf, readApproval } from "./approval_forms.ts";
import { asker, introduction } from "./asker.ts";
import { refusedAction } from "./refused.ts";

type Shown = Awaited<ReturnType<typeof load>>;

/** The page about one request and its decision. The operator's messages link to this page. */
export const requestPage = page<Shown>({
  id: "request",
  path: "/console/requests/{request_id}",
  operations: [
    "get_delegation_request",
    "list_scopes",
    "preview_delegation_approval",
    "get_delegation",
    "approve_delegation_request",
    "deny_delegation_request",
  ],
  load,
  title: ({ texts, acting }, { request }) =>
    titleWith(
      (name = "") => texts.request.title[request.status](name, acting?.organization_name ?? null),
      request.agent.name,
    ),
  back: ({ at, texts }) => ({ to: at("/requests"), text: texts.requests.title }),
  render(visit, { request, words, preview, certificate, linked }) {
    if (preview !== undefined) {
      return html`${introduction(visit, request)}${refusedAction(visit, words, request)}${decision(visit, { request, words, preview })}`;
    }
    const lead = request.status !== "pending" && visit.texts.request.lead[request.status];
    return html`${lead && html`<p class="lead">${lead}</p>`}
      ${asker(visit, request)}${refusedAction(visit, words, request)}${outcome(visit, { request, words, certificate, linked })}`;
  },
  forms: {
    approve: {
      errorFields: {
        scope_not_requested: "approved_scope",
        ceiling_exceeded: "approved_scope",
        invalid_expiry: "end_number",
      },
      async submit(visit, fields) {
        const { call, params, at } = visit;
        const request = await call("get_delegation_request", { params });
        const body = readApproval(visit, fields, request);
        // If the approval is impossible, the preview shows the error.
        if (fields.get("show") === "preview") return "again";
        await call("approve_delegation_request", { params, body, once: true }).catch((error: unknown) => {
          throw besideField(error, request, body);
        });
        return { to: at(`/requests/${params.request_id}`), notice: "approved" };
      },
    },
    deny: {
      async submit({ call, params, at }, fields) {
        const reason = fields.get("reason").trim();
        await call("deny_delegation_request", { params, body: reason === "" ? {} : { reason }, once: true });
        return { to: at("/requests"), notice: "denied" };
      },
    },
  },
});

async function load(visit: Visit) {
  const { call, params } = visit;
  const [request, vocabulary] = await Promise.all([
    call("get_delegation_request", { params }),
    call("list_scopes"),
  ]);
  const words = { vocabulary, platform: request.platform.name, descriptions: request.scope_descriptions };
  const preview = request.status === "pending" ? await previewOf(visit, { request, words }) : undefined;
  const read = (cert_id: string | null) =>
    cert_id === null ? undefined : call("get_delegation", { params: { cert_id } });
  const [certificate, linked] = await Promise.all([read(request.cert_id), read(request.linked_cert_id)]);
  return { request, words, preview, certificate, linked };
}

type Decided = {
  request: RequestAnswer;
  words: ScopeWords;
  certificate: CertificateAnswer | undefined;
  /** The second delegation of the same approval. */
  linked: CertificateAnswer | undefined;
};

/** Returns what was approved and what was withheld. Without a certificate, returns what was requested. */
function outcome(visit: Visit, { request, words, certificate, linked }: Decided): Html {
  const { texts } = visit;
  if (certificate === undefined) {
    return html`<section class="card"><h2>${texts.request.askedFor}</h2>
      ${scopesInWords(texts, words, request.requested_scope)}
      ${request.constraints.length > 0 && html`<p>${texts.request.onlyIf}</p>${limitList(texts, request.constraints as Constraint[])}`}
    </section>`;
  }
  const says = ({ approved_scope: scopes, expires_at: expiresAt, cert_json }: CertificateAnswer) => {
    const constraints = cert_json.constraints as Constraint[];
    return grant(texts, words, { agent: request.agent.name, scopes, constraints, expiresAt });
  };
  return html`<section class="card"><h2>${texts.request.lent}</h2>${says(certificate)}</section>
    ${
      linked &&
      html`<section class="card"><h2>${texts.request.lentSeparately}</h2>${says(linked)}
        <p><a href=${visit.at(`/delegations/${linked.cert_id}`)}>${texts.request.toDelegation}</a></p></section>`
    }
    ${heldBack(visit, { request, words, certificate, linked })}`;
}

function heldBack(
  { texts }: Visit,
  { request, words, certificate, linked }: Required<Decided>,
): Html | undefined {
  if (certificate === undefined) return undefined;
  const lent = [...certificate.approved_scope, ...(linked?.approved_scope ?? [])];
  const scopes = request.requested_scope.filter((scope) => !lent.includes(scope));
  const added = (certificate.cert_json.constraints as Constraint[]).filter(
    (each) => !request.constraints.some((one) => isDeepStrictEqual(one, each)),
  );
  const isEarlier = endsEarlier(request, certificate);
  const isWhole = scopes.length === 0 && added.length === 0 && !isEarlier;
  return html`<section class="card"><h2>${texts.request.held}</h2>
    ${isWhole && html`<p class="quiet">${texts.request.heldNothing}</p>`}
    ${scopes.length > 0 && scopesInWords(texts, words, scopes)}
    ${isEarlier && html`<p>${texts.request.heldEnd}</p>`}
    ${added.length > 0 && html`<p>${texts.request.heldLimit}</p>${limitList(texts, added)}`}</section>`;
}

function endsEarlier(request: RequestAnswer, { issued_at, expires_at }: CertificateAnswer): boolean {
  if (expires_at === null) return false;
  const { requested_expires_at: at, requested_expires_in: inSeconds } = request;
  if (at !== null) return Date.parse(expires_at) < Math.floor(Date.parse(at) / 1000) * 1000;
  return inSeconds === null || Date.parse(expires_at) < Date.parse(issued_at) + inSeconds * 1000;
}
