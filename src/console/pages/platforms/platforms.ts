import { html } from "../../../html/html.ts";
import type { PlatformAnswer } from "../../../platforms/platform_answers.ts";
import { icon } from "../../core/icons.ts";
import { page, type Visit } from "../../core/page.ts";
import { pager, table } from "../../elements/listing.ts";
import { badge, time } from "../../elements/values.ts";
import { callbackBadge, declaredWords, isOrganization, publishBadge } from "./platform.ts";

/** The page with the account's platforms, and the link to register one. */
export const platformsPage = page<Awaited<ReturnType<typeof load>>>({
  id: "platforms",
  path: "/console/platforms",
  operations: ["list_platforms", "list_namespace_bindings"],
  navigation: {
    order: 40,
    label: (texts) => texts.platforms.navigation,
    also: ["/console/connections", "/console/clusters"],
  },
  load,
  title: ({ texts }) => texts.platforms.title,
  render(visit, { items, next_cursor, asking }) {
    const words = visit.texts.platforms;
    const isOneOnly = !isOrganization(visit) && items.some(({ state }) => state === "active");
    return html`<p class="lead">${words.lead}</p>
      ${
        asking > 0 &&
        html`<p class="notice">${visit.texts.clusters.asking(asking)}. <a href=${visit.at("/clusters")}>${visit.texts.clusters.look}</a></p>`
      }
      <p class="actions">${
        visit.may("register_platform") &&
        (isOneOnly
          ? html`<span class="quiet">${words.oneOnly}</span>`
          : html`<a class="button" href=${visit.at("/platforms/new")}>${icon("add")}${words.register}</a>`)
      }<a href=${visit.at("/clusters")}>${words.clusters}</a></p>
      <section class="card">${table<PlatformAnswer>({
        caption: words.title,
        items,
        empty: words.none,
        columns: [
          {
            label: words.name,
            cell: ({ platform_id, name }) =>
              html`<a href=${visit.at(`/platforms/${platform_id}`)}><bdi>${name}</bdi></a>`,
          },
          {
            label: words.state,
            cell: (platform) => {
              const declared = declaredWords(visit, platform);
              return html`${publishBadge(visit, platform)}${declared && html` ${badge(words.declared)} <span class="quiet">${declared}</span>`}`;
            },
          },
          { label: words.callback, cell: (platform) => callbackBadge(visit, platform) },
          {
            label: words.key,
            cell: ({ api_key_prefix, connection_id }) =>
              api_key_prefix !== null &&
              html`<a href=${visit.at(`/connections/${connection_id}`)}><code>${api_key_prefix}…</code></a>`,
          },
          { label: words.registered, cell: ({ created_at }) => time(created_at) },
        ],
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});

async function load({ call, query }: Visit) {
  const [platforms, { namespace_bindings }] = await Promise.all([
    call("list_platforms", { query: { cursor: query.cursor } }),
    call("list_namespace_bindings"),
  ]);
  return { ...platforms, asking: namespace_bindings.filter(({ status }) => status === "asking").length };
}
