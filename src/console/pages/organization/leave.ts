import { html } from "../../../html/html.ts";
import { page, signedIn } from "../../core/page.ts";
import { ACCOUNT } from "../../core/places.ts";
import { form } from "../../elements/forms/form.ts";
import { isLastOwner } from "./member.ts";

type Data = { name: string; isLastOwner: boolean };

/** Where a member leaves an organization. */
export const leavePage = page<Data>({
  id: "organization_leave",
  path: "/console/organization/leave",
  access: "onboarded",
  about: "organization",
  operations: ["leave_organization", "get_organization", "list_organization_members"],
  async load(visit) {
    const [{ organization_name }, { members }] = await Promise.all([
      visit.call("get_organization"),
      visit.call("list_organization_members"),
    ]);
    const own = members.find(({ account_id }) => account_id === signedIn(visit).account_id);
    return { name: organization_name, isLastOwner: own !== undefined && isLastOwner(members, own) };
  },
  title: ({ texts }) => texts.organization.leaveTitle,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { name, isLastOwner }) {
    const { organization: words } = visit.texts;
    const isSaid = visit.failure !== undefined;
    return html`${
      isLastOwner
        ? !isSaid && html`<p class="refusal">${words.lastOwner}</p>`
        : form(visit, {
            name: "leave",
            content: html`<p>${words.leaveLead(name)}</p>`,
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
