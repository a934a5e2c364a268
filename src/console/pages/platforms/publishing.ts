import { type Html, html } from "../../../html/html.ts";
import type { OrganizationDomainAnswer } from "../../../organizations/domain_routes.ts";
import type { PlatformAnswer } from "../../../platforms/answers.ts";
import type { Form, Visit } from "../../core/page.ts";
import { selectField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { isOrganization, publishBadge } from "./shown.ts";

/** Whether a platform is published, and what may be done about it. `domains` are those of who may publish. */
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
      content: undefined,
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

/** The forms of {@link publishing}. */
export const publishingForms: Record<string, Form> = {
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
};
