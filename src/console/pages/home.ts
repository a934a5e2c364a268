import { html } from "../../html/html.ts";
import { page, signedIn } from "../core/page.ts";

/** Where people look first. */
export const homePage = page({
  id: "home",
  path: "/console",
  access: "onboarded",
  operations: ["get_credits"],
  navigation: { order: 0, label: (texts) => texts.navigation.home },
  load: (visit) => visit.call("get_credits", { query: { limit: "1" } }),
  title: ({ texts }) => texts.home.title,
  render(visit, credits) {
    const { home } = visit.texts;
    return html`<p class="lead">${home.hello(signedIn(visit).email)}</p>
      <section class="card"><h2>${home.credit}</h2><p>${home.balance(credits.balance_usd)}</p></section>`;
  },
});
