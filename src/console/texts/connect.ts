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
    name: "see the id of your account, and the name below",
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
  roleLooks: "Only owners and approvers connect products for this organization. Ask one of them.",
};

/** Texts of the pages about the products to which an account is connected. */
export const PRODUCTS = {
  navigation: "Products",
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
  consentByUnknown: "Connected on",
  offered: "It asked for at most",
  end: "End the connection",
  endLead:
    "It stops at the same moment: its agents can do nothing for you, and it can ask for nothing. This cannot be undone. You can connect again, but nothing that ended comes back.",
};

/** Notices of the pages about products. */
export const PRODUCT_NOTICES = {
  product_narrowed: "Its agents can be lent less from now on.",
  product_ended: "The connection has ended. No decision allows its agents anything.",
};
