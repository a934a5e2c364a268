import type { CertificateAnswer } from "../../../delegations/answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { objectName } from "../../elements/declared/object_name.ts";
import { delegationState, stateBadge } from "../../elements/delegations/state.ts";
import { facts } from "../../elements/facts.ts";
import { grant } from "../../elements/grant.ts";
import { time } from "../../elements/time.ts";
import { chain } from "./chain.ts";
import { certificateDetails } from "./details.ts";
import { lastDecisions } from "./last_decisions.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** One delegation: how it stands, what it says, whose keys it joins, what was decided by it. */
export const delegationPage = page<Loaded>({
  id: "delegation",
  path: "/console/delegations/{cert_id}",
  access: "onboarded",
  operations: ["get_delegation", "check_delegation", "list_scopes", "list_audit_events", "revoke_delegation"],
  load,
  title: ({ texts }, { certificate }) => texts.delegation.title(certificate.agent.name),
  back: ({ at, texts }) => ({ to: at("/delegations"), text: texts.delegations.title }),
  render(visit, loaded) {
    const { certificate } = loaded;
    const words = visit.texts.delegation;
    return html`<p class="lead">${words.lead[delegationState(visit, certificate)]}</p>
      <div class="cards">
        <section class="card"><h2>${words.grant}</h2>${says(visit, loaded)}</section>
        <section class="card"><h2>${words.about}</h2>${about(visit, certificate)}${toRevoke(visit, certificate)}</section>
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
  const words = { vocabulary, platform: platform.name };
  return grant(texts, words, { agent: agent.name, scopes, constraints, expiresAt });
}

function about(visit: Visit, certificate: CertificateAnswer): Html {
  const { texts, at } = visit;
  const words = texts.delegation;
  const { agent, platform, agent_id, declared_by, request_id, revoked_at } = certificate;
  return facts([
    [words.state, stateBadge(visit, certificate)],
    revoked_at !== null && [
      words.revoked,
      html`${time(revoked_at)} ${words.revokedBy(certificate.revoked_by)}`,
    ],
    revoked_at !== null && [words.reason, certificate.revoke_reason || quiet(words.noReason)],
    [words.agent, html`<a href=${at(`/agents/${agent_id}`)}>${agent.name}</a>`],
    [words.platform, html`<a href=${at(`/platforms/${platform.platform_id}`)}>${platform.name}</a>`],
    [
      words.approved,
      html`${time(certificate.issued_at)} ${words.approvedBy(certificate.approved_by)}${" "}
        <span class="quiet">${words.channels[certificate.approval_channel]}</span>`,
    ],
    declared_by !== null && [
      words.declared,
      words.declaredBy(objectName(declared_by), declared_by.cluster_id),
    ],
    [words.request, html`<a href=${at(`/requests/${request_id}`)}>${words.toRequest}</a>`],
  ]);
}

function toRevoke(visit: Visit, { cert_id, status }: CertificateAnswer): Html | undefined {
  const words = visit.texts.delegation;
  if (status === "revoked") return undefined;
  if (!visit.may("revoke_delegation")) return html`<p class="quiet">${words.mayNotRevoke}</p>`;
  return html`<p class="actions"><a class="button danger" href=${visit.at(`/delegations/${cert_id}/revoke`)}>${words.revoke}</a></p>`;
}

function quiet(text: string): Piece {
  return html`<span class="quiet">${text}</span>`;
}
