import { type Html, html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { copyable } from "../../elements/copyable.ts";
import { facts } from "../../elements/facts.ts";
import { scopeList } from "../../elements/scopes.ts";
import { time } from "../../elements/time.ts";
import { publishing, publishingForms } from "./publishing.ts";
import { callbackBadge, declaredNote, isOrganization } from "./shown.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** A platform: what it is, how its application reaches the service, whether it is published. */
export const platformPage = page<Loaded>({
  id: "platform",
  path: "/console/platforms/{platform_id}",
  access: "onboarded",
  operations: ["get_platform", "list_organization_domains", "publish_platform", "unpublish_platform"],
  load,
  title: (_visit, { platform }) => platform.name,
  back: ({ at, texts }) => ({ to: at("/platforms"), text: texts.platforms.title }),
  render: (visit, loaded) => html`${declaredNote(visit, loaded.platform)}
    ${about(visit, loaded)}
    <div class="cards">${connection(visit, loaded)}${publishing(visit, loaded.platform, loaded.domains)}${more(visit, loaded)}</div>`,
  forms: publishingForms,
});

async function load(visit: Visit) {
  const { call, params } = visit;
  const isPublisher = isOrganization(visit) && visit.may("publish_platform");
  const [platform, { domains }] = await Promise.all([
    call("get_platform", { params }),
    isPublisher ? call("list_organization_domains") : { domains: [] },
  ]);
  return { platform, domains };
}

function about(visit: Visit, { platform }: Loaded): Html {
  const words = visit.texts.platforms;
  const mayChange = visit.may("change_platform") && platform.declared_by === null;
  return html`<section class="card"><h2>${words.facts}</h2>
    ${facts([
      platform.description !== "" && [words.description, platform.description],
      [words.ceiling, scopeList(platform.default_allowed_scopes)],
      [words.registered, time(platform.created_at)],
      [words.id, copyable(visit.texts, { id: "platform-id", text: platform.platform_id })],
    ])}
    ${mayChange && html`<p class="actions"><a href=${visit.at(`/platforms/${platform.platform_id}/change`)}>${words.change}</a></p>`}
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
  return html`<section class="card"><h2>${words.authority}</h2>
      <p class="quiet">${words.authorityLead}</p>
      <p><a href=${visit.at(`${path}/accepted`)}>${words.authorityLink}</a></p>
    </section>
    <section class="card"><h2>${visit.texts.adoption.about}</h2>
      <p class="quiet">${words.adoptionLead}</p>
      <p><a href=${visit.at(`${path}/adoption`)}>${visit.texts.adoption.link}</a></p>
    </section>`;
}
