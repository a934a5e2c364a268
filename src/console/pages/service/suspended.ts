import { html } from "../../../html/html.ts";
import type { SuspendedAnswer } from "../../../installation/suspended_route.ts";
import { page } from "../../core/page.ts";
import { pager, table } from "../../elements/listing.ts";
import { time } from "../../elements/time.ts";

/** Callbacks that get nothing, and what tells their owner; for who looks after the service. */
export const suspendedPage = page<SuspendedAnswer>({
  id: "service_suspended",
  path: "/console/service/suspended",
  access: "onboarded",
  about: "installation",
  operations: ["list_suspended_endpoints"],
  load: (visit) => visit.call("list_suspended_endpoints", { query: { cursor: visit.query.cursor } }),
  title: (visit) => visit.texts.service.suspended.title,
  back: ({ at, texts }) => ({ to: at("/service"), text: texts.service.navigation }),
  render(visit, { items, next_cursor }) {
    const words = visit.texts.service.suspended;
    return html`<p class="lead">${words.lead}</p>
      <section class="card">${table({
        caption: words.caption,
        columns: [
          { label: words.host, cell: ({ host }) => host ?? words.noHost },
          { label: words.since, cell: ({ suspended_at }) => time(suspended_at) },
          { label: words.reason, cell: ({ reason }) => words.reasons[reason] },
          { label: words.held, cell: ({ held }) => words.atMost(held) },
          { label: words.account, cell: ({ account_id }) => html`<code>${account_id}</code>` },
          { label: words.connection, cell: ({ connection_id }) => html`<code>${connection_id}</code>` },
        ],
        items,
        empty: words.empty,
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});
