import { type Html, html } from "../../../html/html.ts";
import { memberRoles } from "../../../route.ts";
import type { Answers } from "../../core/calls.ts";
import { icon } from "../../core/icons.ts";
import { page, signedIn, type Visit } from "../../core/page.ts";
import { checkField, choiceField, choicesOf, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { table } from "../../elements/listing.ts";
import { copyable, facts, time, titleOf } from "../../elements/values.ts";

type Data = Awaited<ReturnType<typeof load>>;

/** The page about the organization that the person acts for: its members, invitations and roles. */
export const organizationPage = page<Data>({
  id: "organization",
  path: "/console/organization",
  about: "organization",
  operations: ["get_organization", "list_organization_members", "list_invitations"],
  navigation: { order: 70, label: ({ organization }) => organization.navigation },
  load,
  title: (_, { organization }) => titleOf(organization.organization_name),
  render: (visit, data) =>
    html`${glance(visit, data)}${members(visit, data)}${invitations(visit, data)}${roles(visit)}`,
});

async function load(visit: Visit) {
  const [organization, { members }, invitations] = await Promise.all([
    visit.call("get_organization"),
    visit.call("list_organization_members"),
    visit.may("list_invitations") ? visit.call("list_invitations") : undefined,
  ]);
  return { organization, members, invitations: invitations?.invitations };
}

function glance(visit: Visit, { organization }: Data): Html {
  const { texts, at, may } = visit;
  const { organization: words, acting, domains, activity } = texts;
  const links = [
    may("change_organization") && html`<a href=${at("/organization/settings")}>${words.settings}</a>`,
    html`<a href=${at("/organization/domains")}>${domains.title}</a>`,
    may("list_organization_activity") && html`<a href=${at("/activity")}>${activity.title}</a>`,
    html`<a href=${at("/organization/leave")}>${words.leave}</a>`,
  ];
  return html`<section class="card"><h2>${words.facts}</h2>
    ${facts([
      [
        words.yourRole,
        html`${acting.roles[organization.role]}<br /><span class="quiet">${acting.roleHints[organization.role]}</span>`,
      ],
      [words.fourEyes, organization.four_eyes ? words.fourEyesOn : words.fourEyesOff],
      [words.connecting, words.connectors[organization.connecting]],
      [
        words.identity,
        html`${copyable(texts, { id: "root-identity", text: organization.human_id })}<br /><span class="quiet">${words.identityHint}</span>`,
      ],
      [words.since, time(organization.created_at)],
    ])}
    <p class="actions below">${links}</p></section>`;
}

function members(visit: Visit, { members }: Data): Html {
  const { texts, at, may } = visit;
  const { organization: words, acting } = texts;
  const change = {
    label: words.actions,
    cell: (each: Member) =>
      html`<a href=${at(`/organization/members/${each.account_id}`)}>${words.change}<span class="hidden-label">: ${each.email}</span></a>`,
  };
  return html`<section class="card"><h2>${words.members}</h2>
    ${table({
      caption: words.members,
      items: members,
      empty: "",
      columns: [
        { label: words.member, cell: (each) => who(visit, each) },
        { label: words.role, cell: ({ role }) => acting.roles[role] },
        { label: words.joined, cell: ({ joined_at }) => time(joined_at) },
        ...(may("change_organization_member") ? [change] : []),
      ],
    })}
    ${may("invite_organization_member") && html`<p class="below"><a class="button" href=${at("/organization/invite")}>${icon("add")}${words.invite}</a></p>`}
  </section>`;
}

type Member = Answers["change_organization_member"];

function who(visit: Visit, { account_id, email, first_name, last_name }: Member): Html {
  const isOwn = account_id === signedIn(visit).account_id;
  const name = [first_name, last_name].filter(Boolean).join(" ");
  return html`<bdi>${name}</bdi>${isOwn && ` (${visit.texts.organization.you})`}${name !== "" && html`<br />`}<span class="quiet">${email}</span>`;
}

function invitations(visit: Visit, { invitations: items }: Data): Html | undefined {
  const { texts, at, may } = visit;
  const { organization: words, acting } = texts;
  if (items === undefined) return undefined;
  const withdraw = {
    label: words.actions,
    cell: ({ invitation_id, email }: Answers["invite_organization_member"]) =>
      html`<a href=${at(`/organization/invitations/${invitation_id}`)}>${words.withdraw}<span class="hidden-label">: ${email}</span></a>`,
  };
  return html`<section class="card"><h2>${words.invitations}</h2>
    ${items.length > 0 && html`<p class="quiet">${words.invitationsLead}</p>`}
    ${table({
      caption: words.invitations,
      items,
      empty: words.noInvitations,
      columns: [
        { label: words.invited, cell: ({ email }) => email },
        { label: words.role, cell: ({ role }) => acting.roles[role] },
        { label: words.invitedBy, cell: ({ invited_by }) => invited_by },
        { label: words.ends, cell: ({ expires_at }) => time(expires_at) },
        ...(may("withdraw_invitation") ? [withdraw] : []),
      ],
    })}</section>`;
}

function roles({ texts: { organization: words, acting } }: Visit): Html {
  return html`<section class="card"><h2>${words.rolesTitle}</h2>
    ${table({
      caption: words.roles,
      items: memberRoles,
      empty: "",
      columns: [
        { label: words.role, cell: (role) => acting.roles[role] },
        { label: words.mayDo, cell: (role) => acting.roleHints[role] },
      ],
    })}</section>`;
}

/** The page about an organization's settings: its name and its rules. */
export const organizationSettingsPage = page<Answers["get_organization"]>({
  id: "organization_settings",
  path: "/console/organization/settings",
  about: "organization",
  operations: ["change_organization", "get_organization"],
  load: ({ call }) => call("get_organization"),
  title: ({ texts }) => texts.organization.settingsTitle,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { organization_name, four_eyes, connecting }) {
    const { organization: words } = visit.texts;
    return html`<section class="card"><h2>${words.name}</h2>${form(visit, {
      name: "rename",
      content: textField(visit, {
        form: "rename",
        name: "organization_name",
        label: words.name,
        hint: words.nameHint,
        value: organization_name,
        attributes: { autocomplete: "organization", maxlength: 200 },
      }),
      submit: words.rename,
    })}</section>
    <section class="card"><h2>${words.fourEyesTitle}</h2>${form(visit, {
      name: "four_eyes",
      content: checkField(visit, {
        form: "four_eyes",
        name: "four_eyes",
        label: words.fourEyesLabel,
        hint: words.fourEyesHint,
        value: four_eyes ? "on" : "",
      }),
      submit: words.saveFourEyes,
    })}</section>
    <section class="card"><h2>${words.connecting}</h2>${form(visit, {
      name: "connecting",
      content: choiceField(visit, {
        form: "connecting",
        name: "connecting",
        label: words.connectingLabel,
        hint: words.connectingHint,
        value: connecting,
        choices: choicesOf(words.connectors),
      }),
      submit: words.saveConnecting,
    })}</section>`;
  },
  forms: {
    rename: {
      async submit({ call, at }, fields) {
        await call("change_organization", { body: { organization_name: fields.get("organization_name") } });
        return { to: at("/organization"), notice: "renamed" };
      },
    },
    four_eyes: {
      async submit({ call, at }, fields) {
        await call("change_organization", { body: { four_eyes: fields.get("four_eyes") === "on" } });
        return { to: at("/organization"), notice: "rule_set" };
      },
    },
    connecting: {
      async submit({ call, at }, fields) {
        await call("change_organization", { body: { connecting: fields.get("connecting") } });
        return { to: at("/organization"), notice: "rule_set" };
      },
    },
  },
});
