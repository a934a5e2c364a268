import type { ChainAnswer } from "../../../delegations/certificates/check_certificate_route.ts";
import type { CertificateAnswer } from "../../../delegations/delegation_answers.ts";
import type { HistoryAnswer } from "../../../history/routes.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { decisionBadge, reasonText } from "../../elements/decisions.ts";
import { delegationState, grant, stateBadge } from "../../elements/delegations.ts";
import { table } from "../../elements/listing.ts";
import { badge, copyBlock, facts, objectName, time, titleWith } from "../../elements/values.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about one delegation: its state, content, keys and decisions. */
export const delegationPage = page<Loaded>({
  id: "delegation",
  path: "/console/delegations/{cert_id}",
  operations: [
    "get_delegation",
    "check_delegation",
    "list_scopes",
    "list_audit_events",
    "revoke_delegation",
    "request_delegation",
  ],
  load,
  title: ({ texts }, { certificate }) => titleWith(texts.delegation.title, certificate.agent.name),
  back: ({ at, texts }) => ({ to: at("/delegations"), text: texts.delegations.title }),
  render(visit, loaded) {
    const { certificate } = loaded;
    const words = visit.texts.delegation;
    return html`<p class="lead">${words.lead[delegationState(visit, certificate)]}</p>
      <div class="cards">
        <section class="card"><h2>${words.grant}</h2>${says(visit, loaded)}</section>
        <section class="card"><h2>${words.about}</h2>${about(visit, certificate)}${toRevoke(visit, certificate)}${toAskAgain(visit, loaded)}</section>
      </div>
      ${lastDecisions(visit, certificate.cert_id, loaded.events)}
      ${chain(visit, loaded.chain, certificate.status === "revoked")}
      ${certificateDetails(visit, certificate)}`;
  },
});

async function load({ call, params }: Visit) {
  const [certificate, checked, vocabulary, { events }] = await Promise.all([
    call("get_delegation", { params }),
    call("check_delegation", { params }),
    call("list_scopes"),
    call("list_audit_events", { query: { cert_id: params.cert_id, limit: "10" } }),
  ]);
  return { certificate, chain: checked, vocabulary, events };
}

function says({ texts }: Visit, { certificate, vocabulary }: Loaded): Html {
  const { agent, platform, approved_scope: scopes, expires_at: expiresAt, cert_json } = certificate;
  const constraints = cert_json.constraints as unknown[];
  const words = { vocabulary, platform: platform.name, descriptions: certificate.scope_descriptions };
  return grant(texts, words, { agent: agent.name, scopes, constraints, expiresAt });
}

function about(visit: Visit, certificate: CertificateAnswer): Html {
  const { texts, at } = visit;
  const words = texts.delegation;
  const { agent, platform, agent_id, declared_by, request_id, linked_cert_id, revoked_at } = certificate;
  return facts([
    [words.state, stateBadge(visit, certificate)],
    revoked_at !== null && [
      words.revoked,
      html`${time(revoked_at)} ${words.revokedBy(certificate.revoked_by)}`,
    ],
    revoked_at !== null && [words.reason, certificate.revoke_reason || quiet(words.noReason)],
    [words.agent, html`<a href=${at(`/agents/${agent_id}`)}><bdi>${agent.name}</bdi></a>`],
    [
      words.platform,
      html`<a href=${at(`/platforms/${platform.platform_id}`)}><bdi>${platform.name}</bdi></a>`,
    ],
    [
      words.approved,
      html`${time(certificate.issued_at)} ${words.approvedBy(certificate.approved_by ?? "")}${" "}
        <span class="quiet">${words.channels[certificate.approval_channel]}</span>`,
    ],
    declared_by !== null && [
      words.declared,
      words.declaredBy(objectName(declared_by), declared_by.cluster_id),
    ],
    [words.request, html`<a href=${at(`/requests/${request_id}`)}>${words.toRequest}</a>`],
    linked_cert_id !== null && [
      texts.request.linked,
      html`<a href=${at(`/delegations/${linked_cert_id}`)}>${texts.request.toLinked}</a>`,
    ],
  ]);
}

function toRevoke(visit: Visit, { cert_id, status }: CertificateAnswer): Html | undefined {
  const words = visit.texts.delegation;
  if (status === "revoked") return undefined;
  if (!visit.may("revoke_delegation")) return html`<p class="quiet">${words.mayNotRevoke}</p>`;
  return html`<p class="actions"><a class="button danger" href=${visit.at(`/delegations/${cert_id}/revoke`)}>${words.revoke}</a></p>`;
}

/** Returns a link that asks for the same again, once the delegation has ended. */
function toAskAgain(visit: Visit, { certificate, chain: { agent } }: Loaded): Html | undefined {
  const { cert_id, agent_id } = certificate;
  const isOver = ["expired", "revoked"].includes(delegationState(visit, certificate));
  if (!isOver || agent.disabled_at !== null || !visit.may("request_delegation")) return undefined;
  return html`<p class="actions"><a class="button" href=${visit.at(`/agents/${agent_id}/ask`, { again: cert_id })}>${visit.texts.delegation.askAgain}</a></p>`;
}

function quiet(text: string): Piece {
  return html`<span class="quiet">${text}</span>`;
}

function certificateDetails(visit: Visit, certificate: CertificateAnswer): Html {
  const words = visit.texts.delegation;
  const { cert_id, issued_at, expires_at, cert_json } = certificate;
  const mono = (text: unknown) => html`<span class="mono">${String(text)}</span>`;
  return html`<section class="card"><h2>${words.details}</h2>
    ${facts([
      [words.serial, mono(cert_id)],
      [words.version, String(cert_json.version)],
      [words.issuer, mono(cert_json.issuer_id)],
      [words.subject, mono(cert_json.subject_id)],
      [words.algorithms, words.hybrid],
      [words.from, time(issued_at)],
      [words.until, expires_at === null ? words.forever : time(expires_at)],
    ])}
    <p class="actions"><a href=${visit.at(`/delegations/${cert_id}/certificate.json`)}>${words.file}</a></p>
    <details><summary>${words.raw}</summary>
      ${copyBlock(visit.texts, { id: "certificate", text: JSON.stringify(cert_json, null, 2) })}</details>
  </section>`;
}

/** The page that downloads the signed certificate as a file. */
export const certificateFilePage = page<CertificateAnswer>({
  id: "certificate_file",
  path: "/console/delegations/{cert_id}/certificate.json",
  operations: ["get_delegation"],
  load: ({ call, params }) => call("get_delegation", { params }),
  file: (_visit, { cert_id, cert_json }) => ({
    name: `${cert_id}.json`,
    type: "application/json",
    content: `${JSON.stringify(cert_json, null, 2)}\n`,
  }),
});

type Step = { title: string; id: string; checks: Piece[]; fingerprint?: string };

/** Returns the steps from the root identity to the agent's key, each with the result of its check. */
function chain(visit: Visit, found: ChainAnswer, isRevoked: boolean): Html {
  const words = visit.texts.delegation;
  const { issuer, signature, agent } = found;
  const steps: Step[] = [
    {
      title: words.root,
      id: issuer.human_id,
      checks: [
        check(issuer.is_root_of_account, words.rootGood, words.rootBad),
        !issuer.is_id_of_key && badge(words.idBad, "bad"),
      ],
      fingerprint: issuer.key_fingerprint,
    },
    {
      title: words.certificate,
      id: found.cert_id,
      checks: [check(signature.holds, words.signatureGood, words.signatureBad(signature.failed ?? ""))],
    },
    {
      title: words.key,
      id: agent.agent_id,
      checks: [
        check(agent.is_key_of_agent, words.keyGood, words.keyBad),
        !agent.is_id_of_key && badge(words.idBad, "bad"),
        agent.disabled_at !== null && html`<p>${words.disabled} ${time(agent.disabled_at)}.</p>`,
      ],
      fingerprint: agent.key_fingerprint,
    },
  ];
  return html`<section class="card"><h2>${words.chain}</h2><p class="quiet">${words.chainLead}</p>
    <ol class="chain">${steps.map((step) => shown(visit, step))}</ol>
    ${revocationList(visit, found, isRevoked)}</section>`;
}

function shown({ texts }: Visit, { title, id, checks, fingerprint }: Step): Html {
  return html`<li><h3>${title}</h3>
    <p>${checks.map((each) => html`${each} `)}</p>
    <p class="mono quiet">${id}</p>
    ${fingerprint !== undefined && html`<p class="quiet">${texts.delegation.fingerprint} <span class="mono">${fingerprint}</span></p>`}
  </li>`;
}

function check(isGood: boolean, good: string, bad: string): Html {
  return isGood ? badge(good, "good") : badge(bad, "bad");
}

function revocationList(visit: Visit, { revocation_list }: ChainAnswer, isRevoked: boolean): Html {
  const words = visit.texts.delegation;
  const { human_id, listed } = revocation_list;
  const { pathname } = new URL(visit.outside.url(`/v1/service/revocations/${human_id}`));
  return html`<h3>${words.list}</h3>
    <p>${listed ? words.listed : isRevoked ? words.listEnded : words.unlisted} <a href=${pathname}>${words.toList}</a></p>`;
}

type Event = HistoryAnswer["events"][number];
function lastDecisions(visit: Visit, certId: string, events: readonly Event[]): Html {
  const words = visit.texts.delegation;
  return html`<section class="card"><h2>${words.decisions}</h2>
    ${table({
      caption: words.decisions,
      columns: [
        {
          label: words.when,
          cell: ({ event_id, occurred_at }) =>
            html`<a href=${visit.at(`/history/${event_id}`)}>${time(occurred_at)}</a>`,
        },
        { label: words.result, cell: ({ details }) => decisionBadge(visit.texts, details) },
        { label: words.scope, cell: ({ details }) => scopeOf(details) },
        { label: words.why, cell: ({ details }) => reasonText(visit.texts, details) },
      ],
      items: events,
      empty: words.noDecisions,
    })}
    ${events.length > 0 && html`<p class="actions"><a href=${visit.at("/history", { cert_id: certId })}>${words.allDecisions}</a></p>`}
  </section>`;
}

function scopeOf({ required_scope }: Event["details"]): Html | undefined {
  return required_scope === undefined ? undefined : html`<code>${required_scope}</code>`;
}
