import type { ConnectRequestAnswer } from "../../../connect/decision_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import { page, signedIn, type Visit } from "../../core/page.ts";
import { addressFor } from "../../core/places.ts";
import { boxField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { consentChoices, isSensitive, pickedScopes, type ScopeWords } from "../../elements/scopes.ts";
import { titleWith, withNames } from "../../elements/values.ts";

type Shown = { request: ConnectRequestAnswer; words: ScopeWords };

/** The page on which a person connects a product of another account. The product sends the browser here. */
export const connectPage = page<Shown>({
  id: "connect",
  path: "/console/connect/{connect_request}",
  operations: ["get_connect_request", "list_scopes", "approve_connect_request", "propose_connect_request"],
  async load({ call, params }) {
    const [request, vocabulary] = await Promise.all([
      call("get_connect_request", { params }),
      call("list_scopes"),
    ]);
    const { platform, scope_descriptions: descriptions } = request;
    return { request, words: { vocabulary, platform: platform.name, descriptions } };
  },
  title: ({ texts }, { request }) => titleWith(texts.connect.title, request.platform.name),
  leadsTo: (_, { request }) => request.returns_to,
  render(visit, shown) {
    const { connect: words } = visit.texts;
    const { publisher, platform, is_test, account_label: label } = shown.request;
    return html`${
      is_test
        ? html`<p class="unverified">${withNames(words.draft, platform.name)}</p>`
        : html`<p>${words.by} ${publisher.domain !== null && html`<span class="verified"><span aria-hidden="true">✓ </span>${publisher.domain}<span class="hidden-label"> ${words.isDomain}</span></span>`} <strong><bdi>${publisher.name}</bdi></strong></p>`
    }
    ${label !== null && html`<p>${withNames(words.label, platform.name)}: <q><bdi>${label}</bdi></q></p>`}
    <p class="lead">${words.lendsNothing}</p>
    ${account(visit)}
    ${decision(visit, shown)}
    <p class="quiet">${words.back(shown.request.returns_to)}</p>`;
  },
  forms: {
    connect: {
      errorFields: { invalid_scopes: "scopes", ceiling_exceeded: "scopes" },
      async submit({ call, params }, fields) {
        const shownName = fields.get("shown_name").trim();
        const body = {
          scopes: pickedScopes(fields, "scopes"),
          consent_hash: fields.get("consent_hash"),
          ...(shownName !== "" && { shown_name: shownName }),
        };
        return { to: (await call("approve_connect_request", { params, body })).redirect_to };
      },
    },
    propose: {
      errorFields: { invalid_scopes: "scopes", ceiling_exceeded: "scopes" },
      async submit({ call, params }, fields) {
        const body = { scopes: pickedScopes(fields, "scopes"), consent_hash: fields.get("consent_hash") };
        return { to: (await call("propose_connect_request", { params, body, once: true })).redirect_to };
      },
    },
  },
});

/** Returns which account the person connects, and links to the page for their other accounts. */
function account(visit: Visit): Html {
  const { acting, texts, params } = visit;
  const words = texts.connect;
  const { accounts } = signedIn(visit);
  const name = (one: (typeof accounts)[number]) => one.organization_name ?? words.ownAccount;
  const others = accounts.filter((one) => one !== acting);
  return html`<p>${words.account} <strong><bdi>${acting === undefined ? words.ownAccount : name(acting)}</bdi></strong>.</p>
    ${
      others.length > 0 &&
      html`<p>${words.otherAccount}</p><ul class="plain-list">${others.map(
        (one) =>
          html`<li><a href=${addressFor(one, visit, `/connect/${params.connect_request}`)}><bdi>${name(one)}</bdi></a></li>`,
      )}</ul>`
    }`;
}

/** Returns the forms of what the person may do. A member with an approval may also propose more scopes. */
function decision(visit: Visit, shown: Shown): Html {
  const { permission, approved_scopes, scopes } = shown.request;
  switch (permission) {
    case "connect":
      return consent(visit, shown, scopes);
    case "connect_approved": {
      const approved = approved_scopes ?? [];
      return html`${consent(visit, shown, approved)}
        ${approved.length < scopes.length && html`<details class="card"><summary>${visit.texts.connect.proposeMore}</summary>${proposal(visit, shown)}</details>`}`;
    }
    case "propose":
      return proposal(visit, shown);
    default:
      return onlyDecline(visit, shown.request);
  }
}

/** Returns the form that connects. A member with an approval leaves what was chosen then. */
function consent(visit: Visit, { request, words: said }: Shown, scopes: readonly string[]): Html {
  const { connect: words } = visit.texts;
  const { approved_by } = request;
  return form(visit, {
    name: "connect",
    hidden: { consent_hash: request.consent_hash },
    content: html`${approved_by !== null && html`<p class="notice">${words.approvedBy(approved_by)}</p>`}
    ${boxField(visit, {
      form: "connect",
      name: "scopes",
      label: words.scopes,
      hint: words.scopesHint,
      choices: consentChoices(visit.texts, said, scopes),
      isTicked: (scope) => request.approved_scopes !== null || !isSensitive(said, scope),
    })}
    ${abilities(visit)}
    ${shownName(visit, request)}
    <p class="quiet">${words.end}</p>`,
    submit: words.connect,
    beside: declineLink(visit, request),
  });
}

/** Returns the field of the name. A member with an approval only sees the name of an existing connection. */
function shownName(visit: Visit, { permission, shown_name: shown }: ConnectRequestAnswer): Html {
  const label = visit.texts.connect.shownName;
  if (permission === "connect_approved" && shown !== null) return html`<p>${label}: <bdi>${shown}</bdi></p>`;
  const value = shown ?? nameOf(visit);
  return textField(visit, {
    form: "connect",
    name: "shown_name",
    label,
    value,
    attributes: { maxlength: 100 },
  });
}

/** Returns the form that proposes the product to those who may connect it. */
function proposal(visit: Visit, { request, words: said }: Shown): Html {
  const { connect: words } = visit.texts;
  return form(visit, {
    name: "propose",
    once: true,
    hidden: { consent_hash: request.consent_hash },
    content: html`<p class="notice">${words.proposeLead}</p>
    ${boxField(visit, {
      form: "propose",
      name: "scopes",
      label: words.scopes,
      hint: words.scopesHint,
      choices: consentChoices(visit.texts, said, request.scopes),
      isTicked: (scope) => !isSensitive(said, scope),
    })}
    ${abilities(visit)}`,
    submit: words.propose,
    beside: declineLink(visit, request),
  });
}

function abilities({ texts: { connect: words } }: Visit): Html {
  return html`<p>${words.can}</p><ul><li>${words.abilities.agents}</li><li>${words.abilities.ask}</li><li>${words.abilities.name}</li></ul>`;
}

function onlyDecline(visit: Visit, request: ConnectRequestAnswer): Html {
  return html`${!request.is_test && html`<p class="notice">${visit.texts.connect.roleLooks}</p>`}<p class="actions">${declineLink(visit, request)}</p>`;
}

/** Declining changes nothing here, so it is a link back to the product. */
function declineLink({ texts }: Visit, { declines_to }: ConnectRequestAnswer): Html {
  return html`<a class="button quiet" href=${declines_to}>${texts.connect.decline}</a>`;
}

function nameOf({ acting, session }: Visit): string {
  const own = [session?.first_name, session?.last_name].filter(Boolean).join(" ");
  return acting?.organization_name ?? own;
}

/**
 * The page to which the authorization endpoint sends a browser that must not return to the product, because
 * nobody knows who sent it. `reason` is an error code.
 */
export const connectRefusedPage = page<undefined>({
  id: "connect_refused",
  path: "/console/connect-refused",
  access: "public",
  operations: [],
  load: async () => undefined,
  title: ({ texts }) => texts.connect.refusedTitle,
  render({ query: { reason = "" }, texts: { connect: words } }) {
    const why = Object.hasOwn(words.refusals, reason) ? words.refusals[reason] : undefined;
    return html`<p class="lead">${words.refusedLead}</p>
      ${why !== undefined && html`<p>${why}</p><p class="quiet">${words.forPublisher} <code>${reason}</code></p>`}`;
  },
});
