import { ApiError } from "../../errors.ts";
import { html } from "../../html/html.ts";
import { APPEARANCE, themeForm } from "../core/appearance.ts";
import { page, themes } from "../core/page.ts";
import { wayBack } from "../core/places.ts";

/** The page that keeps a theme in this browser. The end of each page has a link to it. */
export const appearancePage = page<undefined>({
  id: "appearance",
  path: APPEARANCE,
  access: "public",
  operations: [],
  load: async () => undefined,
  title: ({ texts }) => texts.appearance.title,
  render: (visit) => html`<p class="lead">${visit.texts.appearance.lead}</p>
    ${themeForm(visit, visit.query.back)}`,
  forms: {
    theme: {
      async submit(visit, fields) {
        const { session, cookie, own, keepTheme } = visit;
        // This form changes only the theme, so it needs no token without a session.
        if (session !== undefined && fields.get("csrf") !== cookie("csrf")) throw new ApiError("csrf_failed");
        keepTheme(themes.find((theme) => theme === fields.get("theme")));
        return { to: own(wayBack(fields.get("back"))) };
      },
    },
  },
});
