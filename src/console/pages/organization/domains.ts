import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page, type Visit } from "../../core/page.ts";
import { textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { table } from "../../elements/listing.ts";
import { badge, copyable, facts, time } from "../../elements/values.ts";

/** The page with an organization's domains, verified or not. */
export const domainsPage = page<Answers["list_organization_domains"]>({
  id: "organization_domains",
  path: "/console/organization/domains",
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

function stateOf({ texts: { domains: words } }: Visit, { verified_at, failing_since }: Domain) {
  if (verified_at === null) return badge(words.waiting, "plain");
  return failing_since === null ? badge(words.verified, "good") : badge(words.failing, "bad");
}

/** A domain whose record is missing for this many days is no longer verified. */
const LAPSE_DAYS = 7;

type Platform = Answers["get_platform"];
type Data = { domain: Answers["add_organization_domain"]; published: Platform[] };

/** The page about one domain: its verification record, and the platforms published under it. */
export const domainPage = page<Data>({
  id: "organization_domain",
  path: "/console/organization/domains/{domain}",
  about: "organization",
  operations: [
    "list_organization_domains",
    "list_platforms",
    "verify_organization_domain",
    "remove_organization_domain",
  ],
  async load(visit) {
    const { domains } = await visit.call("list_organization_domains");
    const domain = domains.find((each) => each.domain === visit.params.domain);
    if (domain === undefined) throw new ApiError("not_found");
    return {
      domain,
      published: domain.verified_at === null ? [] : await publishedUnder(visit, domain.domain),
    };
  },
  title: (_, { domain }) => domain.domain,
  back: ({ at, texts }) => ({ to: at("/organization/domains"), text: texts.domains.title }),
  render: (visit, data) =>
    html`${state(visit, data)}${record(visit, data)}${platforms(visit, data)}${removal(visit, data)}`,
  forms: {
    check: {
      async submit({ call, params, here }) {
        await call("verify_organization_domain", { params });
        return { to: here, notice: "domain_verified" };
      },
    },
    remove: {
      async submit({ call, params, at }) {
        await call("remove_organization_domain", { params });
        return { to: at("/organization/domains"), notice: "domain_removed" };
      },
    },
  },
});

async function publishedUnder(visit: Visit, domain: string): Promise<Platform[]> {
  const found: Platform[] = [];
  let cursor: string | undefined;
  do {
    const { items, next_cursor } = await visit.call("list_platforms", { query: { limit: "100", cursor } });
    found.push(
      ...items.filter((each) => each.publish_state === "published" && each.published_domain === domain),
    );
    cursor = next_cursor ?? undefined;
  } while (cursor !== undefined);
  return found;
}

function state(visit: Visit, { domain }: Data): Html {
  const { domains: words } = visit.texts;
  const { verified_at, checked_at, failing_since, created_at } = domain;
  return html`<section class="card">${facts([
    [words.state, stateOf(visit, domain)],
    verified_at !== null && [words.since, time(verified_at)],
    [words.checked, checked_at === null ? words.never : time(checked_at)],
    [words.added, time(created_at)],
  ])}
  ${failing_since !== null && html`<p class="refusal below">${words.failingSince(LAPSE_DAYS)}</p>`}</section>`;
}

function record(visit: Visit, { domain: { record, verified_at } }: Data): Html {
  const { texts, may } = visit;
  const { domains: words } = texts;
  return html`<section class="card"><h2>${words.recordTitle}</h2><p>${words.recordLead}</p>
    ${facts([
      [words.type, html`<code>${record.type}</code>`],
      [
        words.name,
        html`${copyable(texts, { id: "record-name", text: record.name })}<br /><span class="quiet">${words.nameHint}</span>`,
      ],
      [words.value, copyable(texts, { id: "record-value", text: record.value })],
    ])}
    ${
      may("verify_organization_domain") &&
      form(visit, {
        name: "check",
        content: html`<p class="quiet below">${words.checkHint}</p>`,
        submit: verified_at === null ? words.check : words.checkAgain,
      })
    }</section>`;
}

function platforms({ texts: { domains: words }, at }: Visit, { published }: Data): Html {
  return html`<section class="card"><h2>${words.publishTitle}</h2>
    ${published.length === 0 ? html`<p class="quiet">${words.nothingPublished}</p>` : list(published, at)}
    <p class="below">${words.publishes} <a href=${at("/platforms")}>${words.platforms}</a></p></section>`;
}

function list(published: Platform[], at: Visit["at"]): Html {
  return html`<ul>${published.map(
    ({ platform_id, name }) =>
      html`<li><a href=${at(`/platforms/${platform_id}`)}><bdi>${name}</bdi></a></li>`,
  )}</ul>`;
}

function removal(visit: Visit, { published }: Data): Html | undefined {
  const { texts, at, may } = visit;
  const { domains: words } = texts;
  if (!may("remove_organization_domain")) return undefined;
  return html`<section class="card"><h2>${words.removeTitle}</h2>${form(visit, {
    name: "remove",
    content: html`<p>${words.removeLead}</p>
      ${published.length > 0 && html`<p>${words.removeSuspends}</p>${list(published, at)}`}`,
    submit: words.remove,
    tone: "danger",
  })}</section>`;
}
