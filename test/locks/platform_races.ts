import { expect } from "vitest";
import type { TestApi } from "../support/api.ts";
import { insertDelivery } from "../support/deliveries.ts";
import type { HttpAnswer } from "../support/http.ts";
import { copyCustomers } from "../support/many_customers.ts";
import { createKey } from "../support/narrow_keys.ts";
import { delegated, registerPlatform } from "../support/platform_world.ts";
import { connect, lend } from "../support/two_companies.ts";
import {
  expectNoEvent,
  keyed,
  lockAccount,
  lockConnection,
  NOT_FOUND,
  type Owned,
  ofConnection,
  owned,
  pathOf,
  type Race,
  type RaceRow,
  removeConnection,
  type Sql,
} from "./races.ts";

const byOwner = (method: string, suffix: string, body?: unknown) => (own: Owned) =>
  own.person.client.call(method, pathOf(own, suffix), { body });

const aboutPlatform = (method: string, suffix: string, body?: unknown) => (own: Owned) =>
  own.person.client.call(method, `/v1/service/platforms/${own.platform.platformId}${suffix}`, { body });

const ALL_TIME = { since: "2001-01-01T00:00:00Z" };
const lockEndpoint = ({ platform }: Owned): Sql => [
  "select from webhook_endpoints where connection_id = $1 for share",
  platform.connectionId,
];
const pauseEndpoint = ({ platform }: Owned): Sql => [
  "update webhook_endpoints set state = 'paused', paused_at = now() where connection_id = $1",
  platform.connectionId,
];
const clearUrl = ({ platform }: Owned): Sql => [
  "update connections set callback_url = null where connection_id = $1",
  platform.connectionId,
];

/** A call by an owner who loses the role while it waits. */
const byFormerOwner = (call: (own: Owned, api: TestApi) => Promise<HttpAnswer>): RaceRow => ({
  title: "by an owner who loses the role",
  gets: ["403 forbidden"],
  async prepare(api) {
    const own = await owned(api);
    const { accountId } = own.person;
    return {
      holds: ["select from accounts where account_id = $1 for no key update", accountId],
      meanwhile: ["update accounts set own_role = 'auditor' where account_id = $1", accountId],
      call: () => call(own, api),
    };
  },
});

const accept = async (own: Owned, api: TestApi) =>
  aboutPlatform("PUT", `/accepted-principals/${(await api.person()).humanId}`, { scopes: ["data:read"] })(
    own,
  );
const replaceAccepted = aboutPlatform("PUT", "/accepted-principals", { accepted_principals: [] });

/** A call about the callback of a connection that another transaction holds. */
function callbackRace(
  title: string,
  gets: string,
  meanwhile: (own: Owned) => Sql,
  suffix: string,
  body?: unknown,
): RaceRow {
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const own = await owned(api);
      await insertDelivery(api.db, own.platform.connectionId, { at: api.clock.now() });
      const call = () => byOwner("POST", suffix, body)(own);
      return { holds: lockConnection(own), meanwhile: meanwhile(own), call };
    },
  };
}

function resendRace(
  title: string,
  gets: string,
  competing: (own: Owned, deliveryId: string) => Pick<Race, "holds" | "meanwhile">,
): RaceRow {
  return {
    title,
    gets: [gets],
    async prepare(api) {
      const own = await owned(api);
      const id = await insertDelivery(api.db, own.platform.connectionId, { at: api.clock.now() });
      return { ...competing(own, id), call: () => byOwner("POST", `/deliveries/${id}/resend`)(own) };
    },
  };
}

/** Races of the operations on platforms, connections, API keys, agents and callbacks. */
export const platformRaces: Record<string, RaceRow[]> = {
  change_platform: [
    ...ofConnection(aboutPlatform("PATCH", "", { name: "Store" })),
    {
      title: "whose ceiling another call narrows",
      gets: ["400 ceiling_widened"],
      async prepare(api) {
        const own = await owned(api);
        const narrow: Sql = [
          "update platforms set default_allowed_scopes = '{data:read}' where platform_id = $1",
          own.platform.platformId,
        ];
        const body = { default_allowed_scopes: ["data:read", "data:share"] };
        const call = () => aboutPlatform("PATCH", "", body)(own);
        return { holds: lockConnection(own), meanwhile: narrow, call };
      },
    },
  ],
  accept_principal: [...ofConnection(accept), byFormerOwner(accept)],
  replace_accepted_principals: [...ofConnection(replaceAccepted), byFormerOwner(replaceAccepted)],
  end_accepted_principal: ofConnection(aboutPlatform("DELETE", "/accepted-principals/0123456789abcdef")),
  change_connection: [
    ...ofConnection(byOwner("PATCH", "", { registry_answers: true })),
    byFormerOwner(byOwner("PATCH", "", { outside_verifiers: ["https://bank.example"] })),
  ],
  set_callback: [
    ...ofConnection(byOwner("PUT", "/callback", { callback_url: null })),
    {
      title: "while an attempt suspends it",
      gets: ["200"],
      async prepare(api) {
        const own = await owned(api);
        await insertDelivery(api.db, own.platform.connectionId, { at: api.clock.now() });
        return {
          holds: lockEndpoint(own),
          meanwhile: [
            `update webhook_endpoints set state = 'suspended', suspended_at = now(), suspend_reason = 'gone'
             where connection_id = $1`,
            own.platform.connectionId,
          ],
          call: () => byOwner("PUT", "/callback", { callback_url: "https://shop.example.com/new" })(own),
          async check() {
            const endpoint = { connection_id: own.platform.connectionId };
            expect(await api.db("webhook_endpoints").where(endpoint).pluck("state")).toEqual(["active"]);
          },
        };
      },
    },
  ],
  rotate_api_key: ofConnection(byOwner("POST", "/rotate-key")),
  rotate_signing_secret: ofConnection(({ person, platform }) =>
    person.client.post(`/v1/service/platforms/${platform.platformId}/rotate-signing-secret`),
  ),
  create_api_key: ofConnection(byOwner("POST", "/keys", { role: "verify" })),
  end_api_key: [
    {
      title: "that another call ends",
      gets: ["200"],
      async prepare(api) {
        const own = await owned(api);
        const { body } = await createKey(api, own.platform, { role: "verify" });
        const prefix = String(body.api_key_prefix);
        return {
          holds: lockConnection(own),
          meanwhile: ["update narrow_keys set ended_at = now() where key_prefix = $1", prefix],
          call: () => byOwner("DELETE", `/keys/${prefix}`)(own),
          check: () => expectNoEvent(api, own, "connection.key_ended"),
        };
      },
    },
  ],
  end_former_api_keys: ofConnection(byOwner("POST", "/end-former-keys"), { gets: ["200"] }),
  remove_connection: [
    ...ofConnection(byOwner("DELETE", ""), {
      gets: ["200"],
      check: (own, api) => expectNoEvent(api, own, "connection.removed"),
    }),
    {
      title: "while a decision reads the last of 22 customer connections",
      gets: ["200"],
      async prepare(api) {
        const own = await owned(api);
        const customer = await connect(api, own);
        await lend(api, customer);
        await copyCustomers(api.db, customer.connectionId, 21);
        const { connectionId } = customer;
        return {
          holds: ["select from connections where connection_id = $1 for key share", connectionId],
          call: () => byOwner("DELETE", "")(own),
        };
      },
    },
  ],
  create_agent: ofConnection((own, api) =>
    keyed(api, own, "POST", pathOf(own, "/agents"), { name: "bot", agent_type: "robot" }),
  ),
  create_account_agent: ofConnection((own) =>
    own.person.client.post("/v1/service/agents", {
      connection_id: own.platform.connectionId,
      name: "bot",
      agent_type: "robot",
    }),
  ),
  pause_callback: [
    ...ofConnection(byOwner("POST", "/callback/pause")),
    callbackRace("whose URL another call clears", "409 no_callback", clearUrl, "/callback/pause"),
  ],
  resume_callback: [
    ...ofConnection(byOwner("POST", "/callback/resume")),
    callbackRace("whose URL another call clears", "409 no_callback", clearUrl, "/callback/resume"),
  ],
  test_callback: [
    ...ofConnection(byOwner("POST", "/deliveries/test")),
    callbackRace("that another call pauses", "409 callback_inactive", pauseEndpoint, "/deliveries/test"),
  ],
  recover_deliveries: [
    ...ofConnection(byOwner("POST", "/deliveries/recover", ALL_TIME)),
    callbackRace(
      "of a callback that another call pauses",
      "409 callback_inactive",
      pauseEndpoint,
      "/deliveries/recover",
      ALL_TIME,
    ),
  ],
  rotate_webhook_secret: ofConnection(byOwner("POST", "/rotate-webhook-secret")),
  promote_webhook_secret: ofConnection(byOwner("POST", "/rotate-webhook-secret/promote"), {
    before: byOwner("POST", "/rotate-webhook-secret"),
  }),
  resend_delivery: [
    {
      title: "whose connection is removed",
      gets: NOT_FOUND,
      async prepare(api) {
        const own = await owned(api);
        const id = await insertDelivery(api.db, own.platform.connectionId, { at: api.clock.now() });
        const call = () => byOwner("POST", `/deliveries/${id}/resend`)(own);
        return { holds: lockConnection(own), meanwhile: removeConnection(own), call };
      },
    },
    resendRace("that another call resends", "409 delivery_under_way", (_, id) => ({
      holds: ["select from webhook_deliveries where delivery_id = $1 for share", id],
      meanwhile: [
        "update webhook_deliveries set state = 'pending', next_attempt_at = created_at, settled_at = null where delivery_id = $1",
        id,
      ],
    })),
    resendRace("whose callback another call pauses", "409 callback_inactive", (own) => ({
      holds: [
        "select from webhook_endpoints where connection_id = $1 for no key update",
        own.platform.connectionId,
      ],
      meanwhile: pauseEndpoint(own),
    })),
  ],
  delete_agent: [
    {
      title: "that another call deletes",
      gets: ["200"],
      async prepare(api) {
        const own = await delegated(api);
        const disable: Sql = ["update agents set disabled_at = now() where agent_id = $1", own.agentId];
        const call = () => byOwner("DELETE", `/agents/${own.agentId}`)(own);
        const check = () => expectNoEvent(api, own, "delegation.revoked");
        return { holds: lockConnection(own), meanwhile: disable, call, check };
      },
    },
  ],
  register_platform: [
    {
      title: "beside another registration",
      gets: ["201"],
      async prepare(api) {
        const person = await api.person({ organization_name: "Engines" });
        const call = async () => (await registerPlatform(person, {}, "/v1/service/platforms")).answer;
        return { holds: lockAccount(person.accountId), call };
      },
    },
  ],
  register_personal_platform: [
    {
      title: "for an account that its person deletes",
      gets: NOT_FOUND,
      async prepare(api) {
        const person = await api.person();
        const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
        return {
          holds: lockAccount(person.accountId),
          meanwhile: ["update accounts set own_role = null where account_id = $1", person.accountId],
          call: () => person.client.post("/v1/service/platforms/personal", body),
        };
      },
    },
    {
      title: "beside another registration",
      gets: ["201", "409 platform_limit"],
      async prepare(api) {
        const person = await api.person();
        const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
        const call = () => person.client.post("/v1/service/platforms/personal", body);
        return { holds: lockAccount(person.accountId), call, times: 2 };
      },
    },
  ],
};
