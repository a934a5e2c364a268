import { html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page, type Visit } from "../../core/page.ts";
import { badge } from "../../elements/badge.ts";
import { textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { table } from "../../elements/listing.ts";
import { time } from "../../elements/time.ts";

/** The domains that an organization publishes under, and those that it is about to show. */
export const domainsPage = page<Answers["list_organization_domains"]>({
  id: "organization_domains",
  path: "/console/organization/domains",
  access: "onboarded",
  about: "organization",
  operations: ["list_organization_domains", "add_organization_domain"],
  load: ({ call }) => call("list_organization_domains"),
  title: ({ texts }) => texts.domains.title,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { domains }) {
    const words = visit.texts.domains;
    return html`<p class="lead">${words.lead}</p>
    <section class="card"><h2>${words.list}</h2>${table({
      caption: words.list,
      items: domains,
      empty: words.none,
      columns: [
        {
          label: words.domain,
          cell: ({ domain }) => html`<a href=${domainAddress(visit, domain)}>${domain}</a>`,
        },
        { label: words.state, cell: (each) => stateOf(visit, each) },
        {
          label: words.checked,
          cell: ({ checked_at }) => (checked_at === null ? words.never : time(checked_at)),
        },
      ],
    })}</section>
    ${
      visit.may("add_organization_domain") &&
      html`<section class="card"><h2>${words.addTitle}</h2>${form(visit, {
        name: "add",
        once: true,
        content: textField(visit, {
          form: "add",
          name: "domain",
          label: words.addLabel,
          hint: words.addHint,
          attributes: { autocomplete: "off", maxlength: 253, spellcheck: "false", autocapitalize: "none" },
        }),
        submit: words.add,
      })}</section>`
    }`;
  },
  forms: {
    add: {
      errorFields: { invalid_domain: "domain", domain_limit: "domain" },
      faults: ({ domains }) => ({ domain: domains.invalid }),
      async submit(visit, fields) {
        const body = { domain: fields.get("domain").trim() };
        const { domain } = await visit.call("add_organization_domain", { body, once: true });
        return { to: domainAddress(visit, domain), notice: "domain_added" };
      },
    },
  },
});

function domainAddress({ at }: Visit, domain: string): string {
  return at(`/organization/domains/${encodeURIComponent(domain)}`);
}

type Domain = Answers["add_organization_domain"];

/** How a domain is, in a word. */
export function stateOf({ texts: { domains: words } }: Visit, { verified_at, failing_since }: Domain) {
  if (verified_at === null) return badge(words.waiting, "plain");
  return failing_since === null ? badge(words.verified, "good") : badge(words.failing, "bad");
}
