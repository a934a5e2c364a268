/** Texts of the page on which a person connects a product. */
export const CONNECT = {
  title: (product: string) => `Connect ${product}?`,
  by: "From",
  isDomain: "(verified domain)",
  draft: (product: string) =>
    `${product} is a draft. Only members of its publisher can connect to it, to test it.`,
  unproved: (publisher: string, product: string) =>
    `An account that calls itself “${publisher}” runs “${product}”. It has proved no domain. Approve only if you know it.`,
  runBy: (publisher: string) => `An account that calls itself ${publisher}. It has proved no domain`,
  label: (product: string) => `${product} says that this is for its account`,
  lendsNothing: "Connecting lends nothing yet. Each agent must ask you first, and you can refuse.",
  can: "If you connect, the product can:",
  abilities: {
    agents: "make agents for you",
    ask: "ask you to lend them authority",
    name: "see the id of your account, and the name that it shows",
  },
  scopes: "Its agents may be lent at most",
  scopesHint: "Clear what you will never lend.",
  account: "You connect",
  ownAccount: "your own account",
  otherAccount: "Choose another account:",
  shownName: "Name that the publisher sees",
  end: "You can narrow or end the connection at any time, under Products.",
  connect: "Connect",
  decline: "Do not connect",
  back: (origin: string) => `Either way, you return to ${origin}.`,
  refusedTitle: "You cannot connect from here",
  refusedLead: "Nothing has happened. Go back to the product and try again.",
  refusals: {
    invalid_redirect_uri:
      "The product did not say correctly where you return to, so this service cannot be sure who sent you.",
    invalid_request: "The product sent an incomplete or outdated request.",
    not_found:
      "This service does not know the product that sent you here. Its publisher may have removed it.",
  } as Record<string, string | undefined>,
  forPublisher: "If it happens again, tell the product's publisher this error code:",
  roleLooks: "Your role does not decide about this request for this organization.",
  propose: "Propose",
  proposeLead:
    "Your role does not connect products for this organization. You can propose this one. Those who may connect it get a mail. You then return without a connection. After an approval, come here again from the product: one click connects.",
  proposeMore: "Propose more than was approved",
  approvedBy: (who: string) => `${who} approved this product for you. One click connects it.`,
};

/** Texts of the pages about products that members propose to connect. */
export const PROPOSALS = {
  title: "Proposed and approved products",
  lead: "Products that members would like to connect. Developers can connect an approved product with one click for 30 days.",
  none: "No product is proposed or approved.",
  product: "Product",
  publisher: "Publisher",
  state: "State",
  states: {
    proposed: "waits for a decision",
    approved: "approved",
    changed: "approved, but the product has changed since",
  },
  changedLead:
    "The product has changed since the approval, so the approval has no effect. Somebody can propose it again.",
  by: "Proposed by",
  when: "Proposed",
  approvedBy: "Approved by",
  lapses: "Lapses",
  ends: "Approval ends",
  back: "Returns to",
  about: "About it",
  scopes: "Its agents may be lent at most",
  scopesHint: "Clear what you will never lend.",
  lendsNothing: "Connecting lends nothing yet. Each agent must ask first, and can be refused.",
  approveTitle: "Approve it",
  approveLead:
    "For 30 days, developers of this organization can connect this product with these scopes. You can end the approval at any time. It also ends when you may no longer connect products.",
  approve: "Approve",
  decline: "Decline",
  declineLead: "The member who proposed it gets a mail. The product does not learn that it was proposed.",
  end: "End the approval",
  endLead: "Nobody can connect the product with it any longer. An existing connection stays.",
  roleLooks: "Only those who may connect products for this organization decide about this.",
};

/** Texts of the pages about the products to which an account is connected. */
export const PRODUCTS = {
  navigation: "Products",
  proposals: "Proposed and approved products",
  title: "Connected products",
  lead: "Products of other companies that may make agents for you and ask you to lend them authority. You can narrow or end each connection.",
  none: "No product is connected. A product that supports it has a button that leads you here.",
  name: "Product",
  publisher: "Publisher",
  draft: "draft",
  delegations: "Live delegations",
  used: "Last used",
  never: "not yet",
  connected: "Connected",
  shownName: "It sees you as",
  agents: "Agents",
  toAgents: "All agents",
  toDelegations: "All delegations",
  toHistory: "Decisions",
  about: "About it",
  scopes: "Its agents may be lent at most",
  scopesHint: "Clear what you will never lend again. Only connecting again at the product allows more.",
  narrow: "Narrow",
  consent: "What was read when it was connected",
  consentBy: (who: string) => `${who} connected it on`,
  approvedBy: (who: string | null) => `${who ?? "A former member"} had approved it on`,
  consentByUnknown: "Connected on",
  offered: "It asked for at most",
  endAll: "End all connections",
  endAllLead:
    "All products of this list, on all its pages, stop at the same moment. Their agents can do nothing for you, and they can ask for nothing. This cannot be undone.",
  end: "End the connection",
  endLead:
    "It stops at the same moment: its agents can do nothing for you, and it can ask for nothing. This cannot be undone. You can connect again, but nothing that ended comes back.",
};

/** Texts of the page that replaces a platform's signing secret. */
export const SIGNING_SECRET = {
  open: "Replace the signing secret",
  title: "Replace the signing secret",
  lead: "With the signing secret, your server exchanges the code of a customer who connects. You get a new one, shown once. Connections and their API keys stay as they are.",
  declared:
    "A manifest in a cluster declares this platform. Its API key is therefore replaced too, and the operator writes both into its Secret within 10 minutes. The former key is good for a day more.",
  grace: "The former secret stays valid for",
  graceHint: "Only one former secret is valid, so one of an earlier replacement ends now.",
  submit: "Replace the secret",
  madeTitle: "The new signing secret",
  made: "Signing secret",
  formerGood: "The former secret stays valid until",
  formerEnded: "The former secret has ended.",
  back: "Back to the platform",
  onceTitle: "This was done already",
  onceMade:
    "The secret was replaced when the form was sent the first time, and the new one was shown then. No page shows it twice. If you did not see it, replace the secret again.",
};

/** Texts of the pages about the customers of a platform. */
export const CUSTOMERS = {
  title: (platform: string) => `Customers of ${platform}`,
  lead: "Accounts that have connected to this platform. You see the name that each chose to show, and what happens at its connection.",
  link: "Customers",
  none: "Nobody is connected. Send people to the authorization endpoint with a redirect URI of this platform.",
  nothing: "No customer matches.",
  filter: "Filter customers",
  search: "Part of the name",
  state: "Show",
  states: { active: "connected", ended: "ended" },
  name: "Name",
  connected: "Connected",
  ended: "Ended",
  delegations: "Live delegations",
  used: "Last used",
  agents: "Agents",
  about: "About the connection",
  scopes: "Agents may be lent at most",
  account: "Account id (org_id)",
  connection: "Connection id",
  stored:
    "Store your own rows under the connection id. If the customer leaves and returns, the id is a new one.",
  keysLead:
    "Your application makes agent keys and verify keys with the full key. They stay valid when the full key is replaced or the customer connects again, until you end them.",
  rotate: "Replace the API key",
  rotateLead: "You get a new key of this connection, shown once, and the event connection.key_rotated.",
  onceMade: "The key was replaced before, and was shown then. If nobody kept it, replace the key again.",
  back: "Back to the customer",
  end: "End the connection",
  endLead:
    "The API key ends, agents stop, and the customer's delegations end at the same moment. This cannot be undone. The customer can connect again.",
};

/** Notices of the pages about products and customers. */
export const PRODUCT_NOTICES = {
  proposal_approved: "Approved. A developer can connect it now.",
  proposal_ended: "Declined or ended.",
  customer_ended: "The customer's connection has ended.",
  product_narrowed: "Its agents can be lent less from now on.",
  products_ended: "All connections have ended. No decision allows the agents of these products anything.",
  product_ended: "The connection has ended. No decision allows its agents anything.",
};
