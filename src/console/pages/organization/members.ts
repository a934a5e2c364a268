import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page, signedIn, type Visit } from "../../core/page.ts";
import { ACCOUNT } from "../../core/places.ts";
import { choiceField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { facts, time, titleWith, withNames } from "../../elements/values.ts";
import { roleChoices } from "./invitations.ts";

type Member = Answers["change_organization_member"];
type Data = { member: Member; isLastOwner: boolean };

/**
 * The page about a member of an organization, with forms that change the member's role or remove the member.
 */
export const memberPage = page<Data>({
  id: "organization_member",
  path: "/console/organization/members/{account_id}",
  about: "organization",
  operations: ["change_organization_member", "remove_organization_member", "list_organization_members"],
  async load(visit) {
    const { members } = await visit.call("list_organization_members");
    const member = members.find(({ account_id }) => account_id === visit.params.account_id);
    if (member === undefined) throw new ApiError("not_found");
    return { member, isLastOwner: isLastOwner(members, member) };
  },
  title: ({ texts }, { member }) => titleWith(texts.organization.memberTitle, nameOf(member)),
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render: (visit, data) =>
    html`${known(visit, data)}${data.isLastOwner ? undefined : html`${setupCard(visit, data)}${changes(visit, data)}`}`,
  forms: {
    role: {
      errorFields: { last_owner: "role" },
      async submit({ call, params, at }, fields) {
        await call("change_organization_member", { params, body: { role: fields.get("role") } });
        return { to: at("/organization"), notice: "role_changed" };
      },
    },
    remove: {
      async submit({ call, params, at, own, session }) {
        await call("remove_organization_member", { params });
        if (session?.account_id === params.account_id) return { to: own(ACCOUNT), notice: "left" };
        return { to: at("/organization"), notice: "member_removed" };
      },
    },
  },
});

function isLastOwner(members: readonly Member[], { account_id, role }: Member): boolean {
  return role === "owner" && !members.some((each) => each.role === "owner" && each.account_id !== account_id);
}

function nameOf({ first_name, last_name, email }: Member): string {
  return [first_name, last_name].filter(Boolean).join(" ") || email;
}

function known(visit: Visit, { member, isLastOwner }: Data): Html {
  const { organization: words, acting, ownAccount } = visit.texts;
  return html`<section class="card">${facts([
    [ownAccount.email, member.email],
    [
      words.role,
      html`${acting.roles[member.role]}<br /><span class="quiet">${acting.roleHints[member.role]}</span>`,
    ],
    [words.joined, time(member.joined_at)],
  ])}
  ${member.account_id === signedIn(visit).account_id && html`<p class="below">${words.itsYou}</p>`}
  ${isLastOwner && html`<p class="refusal below">${words.lastOwner}</p>`}</section>`;
}

/** Returns what ends with the membership, with links to the pages on which an owner takes it over. */
function setupCard(visit: Visit, { member }: Data): Html | undefined {
  const { organization: words } = visit.texts;
  if (member.setups.length === 0) return undefined;
  return html`<section class="card"><h2>${words.setupsTitle}</h2><p class="quiet">${words.setupsLead}</p>
    ${setupList(visit, member)}</section>`;
}

function setupList({ texts, at }: Visit, { setups }: Member): Html {
  const { setupKinds } = texts.organization;
  return html`<ul>${setups.map((setup) => {
    const [kind = "", ...rest] = setup.split("/");
    const what = rest.join("/");
    const label = Object.hasOwn(setupKinds, kind) ? setupKinds[kind as keyof typeof setupKinds] : kind;
    return html`<li>${label}: <a href=${at(pathOf(kind, what))}>${what}</a></li>`;
  })}</ul>`;
}

function pathOf(kind: string, what: string): string {
  switch (kind) {
    case "namespace_binding":
      return `/clusters/${what.split("/").map(encodeURIComponent).join("/")}`;
    case "accepted_principals":
      return `/platforms/${encodeURIComponent(what)}/accepted`;
    case "outside_verifiers":
      return `/connections/${encodeURIComponent(what)}/change`;
    case "platform_adoption":
      return `/platforms/${encodeURIComponent(what)}/adoption`;
    case "agent_adoption":
      return `/agents/${encodeURIComponent(what)}/adoption`;
    default:
      return "/clusters";
  }
}

function changes(visit: Visit, { member }: Data): Html {
  const { organization: words } = visit.texts;
  return html`<section class="card"><h2>${words.roleTitle}</h2><p class="quiet">${words.roleLead}</p>
    ${form(visit, {
      name: "role",
      content: choiceField(visit, {
        form: "role",
        name: "role",
        label: words.role,
        value: member.role,
        choices: roleChoices(visit.texts),
      }),
      submit: words.saveRole,
    })}</section>
  <section class="card"><h2>${words.removeTitle}</h2>
    ${form(visit, {
      name: "remove",
      content: html`<p class="quiet">${words.removeLead}</p>`,
      submit: words.remove,
      tone: "danger",
    })}</section>`;
}

type Leaving = { name: string; isLastOwner: boolean; own: Member | undefined };

/** The page on which a member leaves an organization. */
export const leavePage = page<Leaving>({
  id: "organization_leave",
  path: "/console/organization/leave",
  about: "organization",
  operations: ["leave_organization", "get_organization", "list_organization_members"],
  async load(visit) {
    const [{ organization_name }, { members }] = await Promise.all([
      visit.call("get_organization"),
      visit.call("list_organization_members"),
    ]);
    const own = members.find(({ account_id }) => account_id === signedIn(visit).account_id);
    return { name: organization_name, isLastOwner: own !== undefined && isLastOwner(members, own), own };
  },
  title: ({ texts }) => texts.organization.leaveTitle,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { name, isLastOwner, own }) {
    const { organization: words } = visit.texts;
    const isSaid = visit.failure !== undefined;
    return html`${
      isLastOwner
        ? !isSaid && html`<p class="refusal">${words.lastOwner}</p>`
        : form(visit, {
            name: "leave",
            content: html`<p>${withNames(words.leaveLead, name)}</p>
              ${own !== undefined && own.setups.length > 0 && html`<p>${words.leaveEnds}</p>${setupList(visit, own)}`}`,
            submit: words.leaveButton,
            tone: "danger",
          })
    }`;
  },
  forms: {
    leave: {
      async submit({ call, own }) {
        await call("leave_organization");
        return { to: own(ACCOUNT), notice: "left" };
      },
    },
  },
});
