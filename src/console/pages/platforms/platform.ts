import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { OrganizationDomainAnswer } from "../../../organizations/domain_routes.ts";
import type { PlatformAnswer } from "../../../platforms/platform_answers.ts";
import { page, Redirect, type Visit } from "../../core/page.ts";
import { selectField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { scopeList } from "../../elements/scopes.ts";
import { badge, copyable, facts, type Tone, time, titleOf } from "../../elements/values.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about a platform: its settings, its application's connection, and whether it is published. */
export const platformPage = page<Loaded>({
  id: "platform",
  path: "/console/platforms/{platform_id}",
  operations: [
    "get_platform",
    "list_connected_products",
    "list_organization_domains",
    "publish_platform",
    "unpublish_platform",
  ],
  load,
  title: (_visit, { platform }) => titleOf(platform.name),
  back: ({ at, texts }) => ({ to: at("/platforms"), text: texts.platforms.title }),
  render: (visit, loaded) =>
    loaded.platform.state === "removing"
      ? removingNote(visit)
      : html`${declaredNote(visit, loaded.platform)}
    ${about(visit, loaded)}
    <div class="cards">${connection(visit, loaded)}${publishing(visit, loaded.platform, loaded.domains)}${more(visit, loaded)}</div>`,
  forms: {
    publish: {
      errorFields: { domain_not_verified: "domain" },
      async submit({ call, params, at }, fields) {
        await call("publish_platform", { params, body: { domain: fields.get("domain") } });
        return { to: at(`/platforms/${params.platform_id}`), notice: "published" };
      },
    },
    unpublish: {
      async submit({ call, params, at }) {
        await call("unpublish_platform", { params });
        return { to: at(`/platforms/${params.platform_id}`), notice: "unpublished" };
      },
    },
  },
});

async function load(visit: Visit) {
  const { call, params } = visit;
  const isPublisher = isOrganization(visit) && visit.may("publish_platform");
  const [platform, { domains }] = await Promise.all([
    call("get_platform", { params }).catch((error: unknown) => leadToProduct(visit, error)),
    isPublisher ? call("list_organization_domains") : { domains: [] },
  ]);
  return { platform, domains };
}

/** Leads a customer of the platform to the page about the product. Throws the error for everybody else. */
async function leadToProduct({ call, at, params }: Visit, error: unknown): Promise<never> {
  if (!(error instanceof ApiError) || error.code !== "not_found") throw error;
  const query = { platform_id: params.platform_id, limit: "1" };
  const [product] = (await call("list_connected_products", { query })).items;
  if (product === undefined) throw error;
  throw new Redirect(at(`/products/${product.connection_id}`));
}

function about(visit: Visit, { platform }: Loaded): Html {
  const words = visit.texts.platforms;
  const path = `/platforms/${platform.platform_id}`;
  const mayChange = visit.may("change_platform") && platform.declared_by === null;
  const mayRotate = visit.may("rotate_signing_secret");
  return html`<section class="card"><h2>${words.facts}</h2>
    ${facts([
      platform.description !== "" && [words.description, platform.description],
      [words.ceiling, scopeList(platform.default_allowed_scopes, platform.scope_descriptions)],
      [words.explanations, words.explanationValues[platform.explanation_values]],
      platform.redirect_uris.length > 0 && [
        words.redirectUris,
        html`<ul class="plain-list">${platform.redirect_uris.map((uri) => html`<li><code>${uri}</code></li>`)}</ul>`,
      ],
      [words.registered, time(platform.created_at)],
      [words.id, copyable(visit.texts, { id: "platform-id", text: platform.platform_id })],
    ])}
    ${
      (mayChange || mayRotate) &&
      html`<p class="actions">${mayChange && html`<a href=${visit.at(`${path}/change`)}>${words.change}</a>`}
      ${mayRotate && html`<a href=${visit.at(`${path}/signing-secret`)}>${visit.texts.signingSecret.open}</a>`}</p>`
    }
  </section>`;
}

function connection(visit: Visit, { platform }: Loaded): Html {
  const words = visit.texts.platforms;
  const path = `/connections/${platform.connection_id}`;
  return html`<section class="card"><h2>${words.connection}</h2>
    <p class="quiet">${words.connectionLead}</p>
    ${facts([
      [words.key, html`<code>${platform.api_key_prefix}…</code>`],
      [words.callback, callbackBadge(visit, platform)],
    ])}
    <p class="actions"><a href=${visit.at(path)}>${words.openConnection}</a>
      ${visit.may("get_callback") && html`<a href=${visit.at(`${path}/callback`)}>${words.openCallback}</a>`}
      ${visit.may("list_deliveries") && html`<a href=${visit.at(`${path}/deliveries`)}>${words.openDeliveries}</a>`}</p>
  </section>`;
}

function more(visit: Visit, { platform }: Loaded): Html {
  const words = visit.texts.platforms;
  const path = `/platforms/${platform.platform_id}`;
  return html`<section class="card"><h2>${visit.texts.customers.link}</h2>
      <p class="quiet">${visit.texts.customers.lead}</p>
      <p><a href=${visit.at(`${path}/customers`)}>${visit.texts.customers.link}</a></p>
    </section>
    <section class="card"><h2>${words.authority}</h2>
      <p class="quiet">${words.authorityLead}</p>
      <p><a href=${visit.at(`${path}/accepted`)}>${words.authorityLink}</a></p>
    </section>
    <section class="card"><h2>${visit.texts.adoption.about}</h2>
      <p class="quiet">${words.adoptionLead}</p>
      <p><a href=${visit.at(`${path}/adoption`)}>${visit.texts.adoption.link}</a></p>
    </section>`;
}

const PUBLISHED: Record<PlatformAnswer["publish_state"], Tone> = {
  draft: "plain",
  pending_review: "plain",
  published: "good",
  suspended: "warn",
};
const CALLBACK: Record<PlatformAnswer["callback_state"], Tone> = {
  active: "good",
  paused: "warn",
  suspended: "bad",
};

type Shown = Pick<PlatformAnswer, "callback_url" | "callback_state" | "declared_by">;

/** Returns whether the person acts for an organization. */
export function isOrganization({ account, session }: Visit): boolean {
  const isOwn = account === undefined || account === session?.account_id;
  return isOwn ? session?.account_type === "organization" : true;
}

/** Returns a badge with the publish state of a platform, or with its removal. */
export function publishBadge(
  { texts }: Visit,
  { publish_state, state }: Pick<PlatformAnswer, "publish_state" | "state">,
): Html {
  if (state === "removing") return badge(texts.platforms.removing, "warn");
  return badge(texts.platforms.states[publish_state], PUBLISHED[publish_state]);
}

/** Returns a badge that shows whether a callback URL is set and receives requests. */
export function callbackBadge({ texts }: Visit, { callback_url, callback_state }: Shown): Html {
  const { callbackStates, noCallback } = texts.platforms;
  return callback_url === null
    ? html`<span class="quiet">${noCallback}</span>`
    : badge(callbackStates[callback_state], CALLBACK[callback_state]);
}

/** Returns a phrase that names the cluster object that declares a platform, if any. */
export function declaredWords({ texts }: Visit, { declared_by }: Shown): string | undefined {
  if (declared_by === null) return undefined;
  return texts.platforms.declaredBy(declared_by.cluster_id, declared_by.namespace, declared_by.name);
}

/** Returns a note that a platform is being removed, in place of everything that could be done with it. */
export function removingNote({ texts }: Visit): Html {
  return html`<p class="notice">${texts.platforms.removingNow}</p>`;
}

/** Returns a note that a declared platform can be changed only through its cluster object. */
export function declaredNote(visit: Visit, shown: Shown): Html | undefined {
  const words = declaredWords(visit, shown);
  const { declared, declaredExplain } = visit.texts.platforms;
  return words === undefined
    ? undefined
    : html`<p class="notice"><strong>${declared}: ${words}.</strong> ${declaredExplain}</p>`;
}

/** Returns a platform's publish state and its forms. `domains` is empty unless the person may publish. */
export function publishing(
  visit: Visit,
  platform: PlatformAnswer,
  domains: readonly OrganizationDomainAnswer[],
): Html {
  const words = visit.texts.platforms;
  const { publish_state, published_domain } = platform;
  return html`<section class="card"><h2>${words.publishing}</h2>
    <p>${publishBadge(visit, platform)} ${published_domain !== null && words.publishedUnder(published_domain)}</p>
    ${publish_state === "suspended" && html`<p>${words.suspendedNow}</p>`}
    <p class="quiet">${words.publishingLead}</p>
    ${offer(visit, platform, domains)}
  </section>`;
}

function offer(
  visit: Visit,
  { publish_state }: PlatformAnswer,
  domains: readonly OrganizationDomainAnswer[],
): Html {
  const words = visit.texts.platforms;
  if (!isOrganization(visit)) return html`<p class="quiet">${words.personalOnly}</p>`;
  if (!visit.may("publish_platform")) return html`<p class="quiet">${words.ownersPublish}</p>`;
  if (publish_state === "published") {
    return form(visit, {
      name: "unpublish",
      submit: words.unpublish,
      tone: "quiet",
    });
  }
  const verified = domains.filter(({ verified_at }) => verified_at !== null);
  if (verified.length === 0) {
    return html`<p>${words.needsDomain} <a href=${visit.at("/organization/domains")}>${words.domains}</a></p>`;
  }
  return form(visit, {
    name: "publish",
    content: selectField(visit, {
      form: "publish",
      name: "domain",
      label: words.domain,
      choices: verified.map(({ domain }) => ({ value: domain, label: domain })),
    }),
    submit: words.publish,
  });
}
