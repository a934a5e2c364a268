import type { UseAnswer } from "../../../delegations/certificates/certificate_use.ts";
import { type Html, html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { delegationState } from "../../elements/delegations.ts";
import { textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { table } from "../../elements/listing.ts";
import { labelledScope, labelOf, scopeList } from "../../elements/scopes.ts";
import { objectName, time, titleWith, withNames } from "../../elements/values.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page that confirms a revocation. It first shows what the revocation will stop. */
export const revokePage = page<Loaded>({
  id: "revoke_delegation",
  path: "/console/delegations/{cert_id}/revoke",
  operations: ["revoke_delegation", "get_delegation", "get_delegation_use"],
  load,
  title: ({ texts }, { certificate }) => titleWith(texts.revoke.title, certificate.agent.name),
  back: ({ at, texts }, { certificate }) => ({
    to: at(`/delegations/${certificate.cert_id}`),
    text: texts.delegation.title(certificate.agent.name),
  }),
  render(visit, loaded) {
    const { certificate } = loaded;
    const words = visit.texts.revoke;
    const state = delegationState(visit, certificate);
    if (state === "revoked") return html`<p>${words.already}</p>`;
    return html`<p class="lead">${state === "expired" ? words.ended : words.lead}</p>
      ${certificate.linked_cert_id !== null && html`<p class="notice">${words.linkedStays}</p>`}
      ${stops(visit, loaded)}
      <section class="card">${form(visit, {
        name: "revoke",
        once: true,
        content: textField(visit, {
          form: "revoke",
          name: "reason",
          label: words.reason,
          hint: words.reasonHint,
          required: false,
          attributes: { maxlength: 500, autocomplete: "off" },
        }),
        submit: words.submit,
        tone: "danger",
        beside: html`<a href=${visit.at(`/delegations/${certificate.cert_id}`)}>${words.cancel}</a>`,
      })}</section>`;
  },
  forms: {
    revoke: {
      async submit({ call, params, at }, fields) {
        const reason = fields.get("reason").trim();
        await call("revoke_delegation", { params, body: reason === "" ? {} : { reason }, once: true });
        return { to: at(`/delegations/${params.cert_id}`), notice: "revoked" };
      },
    },
  },
});

async function load({ call, params }: Visit) {
  const [certificate, use] = await Promise.all([
    call("get_delegation", { params }),
    call("get_delegation_use", { params }),
  ]);
  return { certificate, use };
}

function stops(visit: Visit, { certificate, use }: Loaded): Html {
  const { texts, at } = visit;
  const words = texts.revoke;
  const { agent, agent_id, declared_by } = certificate;
  const others = withNames((name = "") => words.others(name, use.other_active), agent.name);
  return html`<section class="card"><h2>${words.allows}</h2>
    ${scopeList(certificate.approved_scope, certificate.scope_descriptions)}
    <h2>${words.stops}</h2>
    <p>${words.used(use.allowed, use.more, use.days)} ${lastUse(visit, use)}</p>
    ${
      use.by_scope.length > 0 &&
      table({
        caption: words.scope,
        columns: [
          { label: words.scope, cell: ({ scope }) => labelledScope(scope, labelOf(certificate, scope)) },
          { label: words.count, cell: ({ allowed }) => allowed.toLocaleString("en") },
        ],
        items: use.by_scope,
        empty: "",
      })
    }
    ${use.denied > 0 && html`<p class="quiet">${words.denied(use.denied)}</p>`}
    <p>${others}${use.other_active > 0 && html` <a href=${at("/delegations", { agent_id, state: "active" })}>${words.toOthers}</a>`}</p>
    ${declared_by !== null && html`<p>${words.declared(objectName(declared_by), declared_by.cluster_id)}</p>`}
  </section>`;
}

function lastUse({ texts, now }: Visit, { last_allowed_at }: UseAnswer): Html | undefined {
  if (last_allowed_at === null) return undefined;
  const seconds = (now.getTime() - Date.parse(last_allowed_at)) / 1000;
  return html`${texts.revoke.last}: ${time(last_allowed_at)}, ${texts.revoke.ago(seconds)}.`;
}
