import { isDeepStrictEqual } from "node:util";
import type { CertificateAnswer, RequestAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { DeclaredFields } from "../../../input/declared_fields.ts";
import type { Constraint } from "../../../protocol/constraints/constraints.ts";
import { page, type Visit } from "../../core/page.ts";
import { grant } from "../../elements/delegations.ts";
import { limitList } from "../../elements/limits.ts";
import { type ScopeWords, scopesInWords } from "../../elements/scopes.ts";
import { facts, time } from "../../elements/values.ts";
import { askedEnd, besideField, decision, previewOf, readApproval } from "./approval_forms.ts";

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
  title: ({ texts }, { request }) => texts.request.title[request.status](request.agent.name),
  back: ({ at, texts }) => ({ to: at("/requests"), text: texts.requests.title }),
  render: (
    visit,
    { request, words, preview, certificate },
  ) => html`<p class="lead">${visit.texts.request.lead[request.status]}</p>
    ${asker(visit, request)}${
      preview === undefined
        ? outcome(visit, { request, words, certificate })
        : decision(visit, { request, words, preview })
    }`,
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
        const body = readApproval(visit, fields);
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
  const words = { vocabulary, platform: request.platform.name };
  const preview = request.status === "pending" ? await previewOf(visit) : undefined;
  const certificate =
    request.cert_id === null
      ? undefined
      : await call("get_delegation", { params: { cert_id: request.cert_id } });
  return { request, words, preview, certificate };
}

function asker(visit: Visit, request: RequestAnswer): Html {
  const { texts, at } = visit;
  const words = texts.request;
  const { agent, platform, publisher, declared_by } = request;
  return html`<section class="card"><h2>${words.who}</h2>${facts([
    request.purpose !== null && [words.purpose, html`<q>${request.purpose}</q>`],
    [
      words.agent,
      html`<a href=${at(`/agents/${request.agent_id}`)}>${agent.name}</a> <span class="quiet mono">${request.agent_id}</span>`,
    ],
    [words.platform, html`<a href=${at(`/platforms/${platform.platform_id}`)}>${platform.name}</a>`],
    [
      words.publisher,
      publisher === null
        ? html`<span class="quiet">${words.unpublished}</span>`
        : words.published(publisher.name, publisher.domain),
    ],
    [
      words.key,
      html`<span class="mono">${agent.key_fingerprint}</span> <span class="quiet">${words.custody[agent.custody_mode]}</span>`,
    ],
    [words.how, how(visit, request)],
    ...(declared_by === null ? [] : declaredRows(visit, declared_by)),
    [words.asked, time(request.created_at)],
    request.status === "pending" && [words.waitsUntil, time(request.expires_at)],
    [words.ends, askedEnd(visit, request)],
    request.decided_at !== null && [
      words.decided,
      html`${time(request.decided_at)}${decidedBy(visit, request)}`,
    ],
    request.reason !== null && [words.denialReason, request.reason],
    request.cert_id !== null && [
      words.delegation,
      html`<a href=${at(`/delegations/${request.cert_id}`)}>${words.toDelegation}</a>`,
    ],
  ])}</section>`;
}

function declaredRows({ texts: { request: words } }: Visit, declared: DeclaredFields): [string, Piece][] {
  const rows = {
    requested_by: [
      words.user,
      declared.requested_by ?? html`<span class="quiet">${words.userUnknown}</span>`,
    ],
  } satisfies Record<keyof DeclaredFields, [string, Piece]>;
  return Object.values(rows);
}

function how({ texts: { request: words } }: Visit, { declared_by, requested_by }: RequestAnswer): Piece {
  if (declared_by !== null) {
    const name = [declared_by.namespace, declared_by.name].filter((part) => part !== null).join("/");
    return words.byObject(name, declared_by.cluster_id);
  }
  return requested_by === null ? words.byUnknown : words.byPerson(requested_by);
}

function decidedBy({ texts: { request: words } }: Visit, request: RequestAnswer): Piece {
  const { decided_by, decided_in_cluster } = request;
  if (decided_by === null) return undefined;
  if (decided_in_cluster === null) return ` ${words.decidedHere(decided_by)}`;
  return ` ${words.decidedIn(decided_by, decided_in_cluster)}`;
}

type Decided = {
  request: RequestAnswer;
  words: ScopeWords;
  certificate: CertificateAnswer | undefined;
};

/** Returns what was approved and what was withheld. Without a certificate, returns what was requested. */
function outcome(visit: Visit, { request, words, certificate }: Decided): Html {
  const { texts } = visit;
  if (certificate === undefined) {
    return html`<section class="card"><h2>${texts.request.askedFor}</h2>
      ${scopesInWords(texts, words, request.requested_scope)}
      ${request.constraints.length > 0 && html`<p>${texts.request.onlyIf}</p>${limitList(texts, request.constraints as Constraint[])}`}
    </section>`;
  }
  const constraints = certificate.cert_json.constraints as Constraint[];
  const { approved_scope: scopes, expires_at: expiresAt } = certificate;
  return html`<section class="card"><h2>${texts.request.lent}</h2>
      ${grant(texts, words, { agent: request.agent.name, scopes, constraints, expiresAt })}</section>
    ${heldBack(visit, { request, words, certificate })}`;
}

function heldBack({ texts }: Visit, { request, words, certificate }: Required<Decided>): Html | undefined {
  if (certificate === undefined) return undefined;
  const scopes = request.requested_scope.filter((scope) => !certificate.approved_scope.includes(scope));
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
