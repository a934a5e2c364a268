import { html } from "../../../html/html.ts";
import { type Form, page, type Visit } from "../../core/page.ts";
import { copyBlock } from "../../elements/copyable.ts";
import { adoptionForms, placeIn } from "../../elements/declared/adoption.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** Which object of a cluster may take a platform over. */
export const platformAdoptionPage = page<Loaded>({
  id: "platform_adoption",
  path: "/console/platforms/{platform_id}/adoption",
  access: "onboarded",
  operations: [
    "get_platform_adoption",
    "confirm_platform_adoption",
    "withdraw_platform_adoption",
    "get_platform",
  ],
  load,
  title: ({ texts }, { platform }) => texts.adoption.title(platform.name),
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, { platform, adoption }) {
    const words = visit.texts.platforms;
    return html`<p class="lead">${words.adoptionExplain(platform.name)}</p>
      <p>${words.adoptionSpec}</p>
      ${copyBlock(visit.texts, { id: "adopt", text: `spec:\n  adopt: ${platform.platform_id}` })}
      ${adoptionForms(visit, {
        adoption,
        mayConfirm: visit.may("confirm_platform_adoption"),
        mayWithdraw: visit.may("withdraw_platform_adoption"),
      })}`;
  },
  forms: { confirm: confirmForm(), withdraw: withdrawForm() },
});

async function load({ call, params }: Visit) {
  const [platform, { adoption }] = await Promise.all([
    call("get_platform", { params }),
    call("get_platform_adoption", { params }),
  ]);
  return { platform, adoption };
}

function confirmForm(): Form {
  return {
    async submit({ call, params, at }, fields) {
      await call("confirm_platform_adoption", { params, body: placeIn(fields) });
      return { to: at(`/platforms/${params.platform_id}/adoption`), notice: "adoption_confirmed" };
    },
  };
}

function withdrawForm(): Form {
  return {
    async submit({ call, params, at }) {
      await call("withdraw_platform_adoption", { params });
      return { to: at(`/platforms/${params.platform_id}/adoption`), notice: "adoption_withdrawn" };
    },
  };
}
