import { ApiError } from "../../errors.ts";
import { html } from "../../html/html.ts";
import { APPEARANCE } from "../core/appearance.ts";
import { page, themes } from "../core/page.ts";
import { wayBack } from "../core/places.ts";

/** The page that keeps a theme in this browser. Each page has its form in the footer. */
export const appearancePage = page<undefined>({
  id: "appearance",
  path: APPEARANCE,
  access: "public",
  operations: [],
  load: async () => undefined,
  title: ({ texts }) => texts.appearance.title,
  render: ({ texts }) => html`<p class="lead">${texts.appearance.lead}</p>`,
  forms: {
    theme: {
      async submit(visit, fields) {
        const { session, cookie, own, keepTheme } = visit;
        // Nobody else can sign out or see anything by this form, so it needs a token only with a session.
        if (session !== undefined && fields.get("csrf") !== cookie("csrf")) throw new ApiError("csrf_failed");
        keepTheme(themes.find((theme) => theme === fields.get("theme")));
        return { to: own(wayBack(fields.get("back"))) };
      },
    },
  },
});
