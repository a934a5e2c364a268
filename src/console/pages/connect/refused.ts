import { html } from "../../../html/html.ts";
import { page } from "../../core/page.ts";

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
