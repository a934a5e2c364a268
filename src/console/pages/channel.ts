import type { ChannelAnswer } from "../../channels/routes.ts";
import { type Html, html } from "../../html/html.ts";
import { page, type Visit } from "../core/page.ts";
import { choicesOf, selectField, textField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { unlessNotFound } from "../elements/listing.ts";
import { facts, time } from "../elements/values.ts";

type Loaded = { channel: ChannelAnswer | undefined };

const SET = "set";
const REMOVE = "remove";

/** The page with which owners have requests sent to a channel. */
export const channelPage = page<Loaded>({
  id: "request_channel",
  path: "/console/requests/channel",
  operations: ["get_request_channel", "set_request_channel", "remove_request_channel"],
  load: async ({ call }) => ({ channel: await call("get_request_channel").catch(unlessNotFound) }),
  title: ({ texts }) => texts.channel.title,
  back: ({ at, texts }) => ({ to: at("/requests"), text: texts.requests.title }),
  render(visit, { channel }) {
    const words = visit.texts.channel;
    return html`<p class="lead">${words.lead}</p>
      <section class="card"><h2>${words.current}</h2>${channel === undefined ? html`<p>${words.none}</p>` : currentOne(visit, channel)}</section>
      ${visit.may("set_request_channel") && setting(visit, channel)}`;
  },
  forms: {
    [SET]: {
      async submit({ call, at }, fields) {
        const body = { app: fields.get("app") as ChannelAnswer["app"], url: fields.get("url").trim() };
        await call("set_request_channel", { body });
        return { to: at("/requests/channel"), notice: "channel_set" };
      },
    },
    [REMOVE]: {
      async submit({ call, at }) {
        await call("remove_request_channel", { once: true });
        return { to: at("/requests/channel"), notice: "channel_removed" };
      },
    },
  },
});

function currentOne(visit: Visit, channel: ChannelAnswer): Html {
  const { channel: words } = visit.texts;
  const { app, host, set_by, set_at, posted_at, fault } = channel;
  return html`${facts([
    [words.app, words.apps[app]],
    [words.host, host],
    [words.setBy, html`${set_by ?? words.unknown}, ${time(set_at)}`],
    [words.posted, posted_at === null ? words.never : time(posted_at)],
    fault !== null && [words.fault, words.faultOf(fault)],
  ])}
  ${visit.may("remove_request_channel") && form(visit, { name: REMOVE, tone: "quiet", submit: words.remove })}`;
}

function setting(visit: Visit, channel: ChannelAnswer | undefined): Html {
  const { channel: words } = visit.texts;
  return html`<section class="card"><h2>${channel === undefined ? words.add : words.replace}</h2>
    <p class="quiet">${words.how}</p>
    ${form(visit, {
      name: SET,
      content: html`${selectField(visit, {
        form: SET,
        name: "app",
        label: words.app,
        value: channel?.app ?? "slack",
        choices: choicesOf(words.apps),
      })}${textField(visit, {
        form: SET,
        name: "url",
        label: words.url,
        hint: words.urlHint,
        attributes: { type: "url", maxlength: 2048, autocomplete: "off", spellcheck: "false" },
      })}`,
      submit: words.save,
    })}</section>`;
}
