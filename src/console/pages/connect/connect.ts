import type { ConnectRequestAnswer } from "../../../connect/decision_routes.ts";
import { type Html, html } from "../../../html/html.ts";
import { page, signedIn, type Visit } from "../../core/page.ts";
import { addressFor } from "../../core/places.ts";
import { boxField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { consentChoices, isSensitive, pickedScopes, type ScopeWords } from "../../elements/scopes.ts";

type Shown = { request: ConnectRequestAnswer; words: ScopeWords };

/** The page on which a person connects a product of another account. The product sends the browser here. */
export const connectPage = page<Shown>({
  id: "connect",
  path: "/console/connect/{connect_request}",
  operations: ["get_connect_request", "list_scopes", "approve_connect_request"],
  async load({ call, params }) {
    const [request, vocabulary] = await Promise.all([
      call("get_connect_request", { params }),
      call("list_scopes"),
    ]);
    const { platform, scope_descriptions: descriptions } = request;
    return { request, words: { vocabulary, platform: platform.name, descriptions } };
  },
  title: ({ texts }, { request }) => texts.connect.title(request.platform.name),
  leadsTo: (_, { request }) => request.returns_to,
  render(visit, shown) {
    const { connect: words } = visit.texts;
    const { publisher, platform, is_test, account_label: label } = shown.request;
    return html`${
      is_test
        ? html`<p class="unverified">${words.draft(platform.name)}</p>`
        : html`<p>${words.by} ${publisher.domain !== null && html`<span class="verified"><span aria-hidden="true">✓ </span>${publisher.domain}<span class="hidden-label"> ${words.isDomain}</span></span>`} <strong><bdi>${publisher.name}</bdi></strong></p>`
    }
    ${label !== null && html`<p>${words.label(platform.name)}: <q><bdi>${label}</bdi></q></p>`}
    <p class="lead">${words.lendsNothing}</p>
    ${account(visit)}
    ${visit.may("approve_connect_request") ? consent(visit, shown) : onlyDecline(visit, shown.request)}
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

function consent(visit: Visit, { request, words: said }: Shown): Html {
  const { connect: words } = visit.texts;
  return form(visit, {
    name: "connect",
    hidden: { consent_hash: request.consent_hash },
    content: html`${boxField(visit, {
      form: "connect",
      name: "scopes",
      label: words.scopes,
      hint: words.scopesHint,
      choices: consentChoices(visit.texts, said, request.scopes),
      isTicked: (scope) => !isSensitive(said, scope),
    })}
    <p>${words.can}</p><ul><li>${words.abilities.agents}</li><li>${words.abilities.ask}</li><li>${words.abilities.name}</li></ul>
    ${textField(visit, { form: "connect", name: "shown_name", label: words.shownName, value: nameOf(visit), attributes: { maxlength: 100 } })}
    <p class="quiet">${words.end}</p>`,
    submit: words.connect,
    beside: declineLink(visit, request),
  });
}

function onlyDecline(visit: Visit, request: ConnectRequestAnswer): Html {
  return html`<p class="notice">${visit.texts.connect.roleLooks}</p><p class="actions">${declineLink(visit, request)}</p>`;
}

/** Declining changes nothing here, so it is a link back to the product. */
function declineLink({ texts }: Visit, { declines_to }: ConnectRequestAnswer): Html {
  return html`<a class="button quiet" href=${declines_to}>${texts.connect.decline}</a>`;
}

function nameOf({ acting, session }: Visit): string {
  const own = [session?.first_name, session?.last_name].filter(Boolean).join(" ");
  return acting?.organization_name ?? own;
}
