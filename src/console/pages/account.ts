import { type Html, html } from "../../html/html.ts";
import type { Answers } from "../core/calls.ts";
import { page, signedIn, type Visit } from "../core/page.ts";
import { ACCEPT_INVITATION, ACCOUNT, addressFor, SIGN_IN } from "../core/places.ts";
import { textField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { table } from "../elements/listing.ts";
import { badge, copyable, facts, type Tone, withNames } from "../elements/values.ts";
import { CHANGE_ADDRESS } from "./address.ts";
import { loadMails, MAIL_FORM, mailForm, readMailForm } from "./mails.ts";
import { endSession, loadSessions, SESSION_FORM, sessionForm } from "./own_sessions.ts";
import { nameFields } from "./welcome.ts";

const NAME = `${ACCOUNT}/name`;
const DELETE_ACCOUNT = `${ACCOUNT}/delete`;

const TONES: Record<"enough" | "low" | "exhausted", Tone> = { enough: "good", low: "warn", exhausted: "bad" };

/** The page about the signed-in person, the accounts that they may act for, and their sessions. */
export const accountPage = page({
  id: "account",
  path: ACCOUNT,
  about: "person",
  operations: ["get_mail_choices", "change_mail_choices", "list_sessions", "end_session"],
  async load(visit) {
    const [choices, sessions] = await Promise.all([loadMails(visit), loadSessions(visit)]);
    return { choices, sessions };
  },
  title: ({ texts }) => texts.ownAccount.title,
  render: (visit, { choices, sessions }) =>
    html`${person(visit)}${accounts(visit)}${mailForm(visit, choices)}${sessionForm(visit, sessions)}${joining(visit)}
      <p><a href=${visit.own(DELETE_ACCOUNT)}>${visit.texts.deletion.link}</a></p>`,
  forms: {
    [MAIL_FORM]: {
      async submit(visit, fields) {
        await visit.call("change_mail_choices", { body: readMailForm(visit, fields) });
        return { to: visit.own(ACCOUNT), notice: "mails_chosen" };
      },
    },
    [SESSION_FORM]: {
      submit: async (visit, fields) => endSession(visit, fields.get("session_id"), await loadSessions(visit)),
    },
  },
});

function person(visit: Visit): Html {
  const { ownAccount: words } = visit.texts;
  const { first_name, last_name, email, account_type, organization_name, human_id } = signedIn(visit);
  return html`<section class="card">${facts([
    [
      words.name,
      html`<bdi>${first_name} ${last_name}</bdi><br /><a href=${visit.own(NAME)}>${words.changeName}</a>`,
    ],
    [
      words.email,
      html`${email}<br /><span class="quiet">${words.emailHint}</span><br /><a href=${visit.own(CHANGE_ADDRESS)}>${visit.texts.address.link}</a>`,
    ],
    [
      words.type,
      html`${words.types[account_type ?? "individual"]}${organization_name !== null && html`: <bdi>${organization_name}</bdi>`}`,
    ],
    human_id !== null && [
      words.identity,
      html`${copyable(visit.texts, { id: "root-identity", text: human_id })}<br /><span class="quiet">${words.identityHint}</span>`,
    ],
  ])}</section>`;
}

function accounts(visit: Visit): Html {
  const { ownAccount: words, acting } = visit.texts;
  const { accounts: all, account_id, first_name, last_name } = signedIn(visit);
  return html`<section class="card"><h2>${words.actsTitle}</h2>
    ${all.length > 0 && html`<p class="quiet">${words.actsLead}</p>`}
    ${table({
      caption: words.acts,
      items: all,
      empty: words.none,
      columns: [
        {
          label: words.account,
          cell: (each) => {
            const name = each.organization_name ?? `${first_name} ${last_name}`;
            return html`<a href=${addressFor(each, visit)}>${each.account_id === account_id ? withNames(words.itself, name) : html`<bdi>${name}</bdi>`}</a>
              ${each === visit.acting && html`<br /><span class="quiet">${words.current}</span>`}`;
          },
        },
        { label: words.role, cell: ({ role }) => acting.roles[role] },
        {
          label: words.may,
          cell: ({ role, organization_name }) =>
            organization_name === null ? words.everything : acting.roleHints[role],
        },
        {
          label: words.credit,
          cell: ({ credit }) => credit !== null && badge(words.levels[credit], TONES[credit]),
        },
      ],
    })}</section>`;
}

function joining({ texts: { ownAccount: words }, own }: Visit): Html {
  return html`<section class="card"><h2>${words.joinTitle}</h2><p>${words.join}</p>
    <p><a href=${own(ACCEPT_INVITATION)}>${words.joinLink}</a></p></section>`;
}

/** The page on which the signed-in person changes their name. */
export const namePage = page({
  id: "account_name",
  path: NAME,
  about: "person",
  operations: ["change_profile"],
  load: async () => undefined,
  title: ({ texts }) => texts.ownAccount.nameTitle,
  back: ({ own, texts }) => ({ to: own(ACCOUNT), text: texts.ownAccount.title }),
  render(visit) {
    const { ownAccount: words } = visit.texts;
    const { first_name, last_name } = signedIn(visit);
    return html`<p class="lead">${words.nameLead}</p>
      ${form(visit, {
        name: "profile",
        content: nameFields(visit, { first: first_name ?? "", last: last_name ?? "" }),
        submit: words.saveName,
      })}`;
  },
  forms: {
    profile: {
      async submit(visit, fields) {
        const body = { first_name: fields.get("first_name"), last_name: fields.get("last_name") };
        await visit.call("change_profile", { body });
        return { to: visit.own(ACCOUNT), notice: "renamed" };
      },
    },
  },
});

type Ends = Answers["preview_account_deletion"];

/** The page that shows what ends with the person's account, and deletes it with a code from a mail. */
export const deleteAccountPage = page<Ends>({
  id: "delete_account",
  path: DELETE_ACCOUNT,
  about: "person",
  operations: ["delete_account", "preview_account_deletion", "send_deletion_code"],
  load: ({ call }) => call("preview_account_deletion"),
  title: ({ texts }) => texts.deletion.title,
  back: ({ own, texts }) => ({ to: own(ACCOUNT), text: texts.ownAccount.title }),
  render: (visit, ends) =>
    visit.failure?.form === "delete"
      ? codeForm(visit)
      : html`${whatEnds(visit, ends)}${askForm(visit, ends)}`,
  forms: {
    send_code: {
      async submit(visit) {
        // The page is the answer to the form, so a reload sends the form again.
        await visit.call("send_deletion_code", { once: true });
        return { title: visit.texts.deletion.enterTitle, content: codeForm(visit) };
      },
    },
    delete: {
      errorFields: { invalid_code: "address_code" },
      faults: ({ address }) => ({ address_code: address.notACode }),
      async submit({ call, own, texts: { deletion: words, address } }, fields) {
        await call("delete_account", { body: { address_code: fields.get("address_code") } });
        return {
          title: words.deletedTitle,
          content: html`<p class="lead">${words.deleted}</p>
            <p><a class="button" href=${own(SIGN_IN)}>${address.signIn}</a></p>`,
        };
      },
    },
  },
});

function whatEnds({ texts }: Visit, { organizations, ...counts }: Ends): Html {
  const { deletion: words } = texts;
  return html`<p class="lead">${words.lead}</p>
    <section class="card"><h2>${words.ends}</h2>${facts([
      [words.delegations, String(counts.delegations)],
      [words.requests, String(counts.requests)],
      [words.platforms, String(counts.platforms)],
      [words.agents, String(counts.agents)],
    ])}<p>${words.also}</p></section>
    ${
      organizations.length > 0 &&
      html`<section class="card"><h2>${words.organizations}</h2><ul>${organizations.map(
        ({ organization_name, effect }) =>
          html`<li><bdi>${organization_name}</bdi> ${words.effects[effect]}.</li>`,
      )}</ul></section>`
    }
    <section class="card"><h2>${words.remains}</h2><p>${words.history}</p></section>`;
}

/** Returns the form that sends a code, unless one of the organizations prevents the deletion. */
function askForm(visit: Visit, { organizations }: Ends): Html | false {
  const { deletion: words } = visit.texts;
  if (organizations.some(({ effect }) => effect === "last_owner" || effect === "opened")) return false;
  return form(visit, {
    name: "send_code",
    once: true,
    content: html`<p>${words.sendHint}</p>`,
    submit: words.send,
  });
}

function codeForm(visit: Visit): Html {
  const { deletion: words, address } = visit.texts;
  return html`<p class="lead">${words.enterLead(signedIn(visit).email)}</p>
    ${form(visit, {
      name: "delete",
      tone: "danger",
      content: textField(visit, {
        form: "delete",
        name: "address_code",
        label: words.code,
        hint: address.codeHint,
        attributes: { autocomplete: "off", inputmode: "numeric", maxlength: 128, spellcheck: "false" },
      }),
      submit: words.delete,
      beside: html`<a href=${visit.own(ACCOUNT)}>${words.keep}</a>`,
    })}`;
}
