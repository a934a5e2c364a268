/** Texts of the page on which a person connects a product. */
export const CONNECT = {
  title: (product: string) => `Connect ${product}?`,
  by: "From",
  isDomain: "(verified domain)",
  draft: (product: string) =>
    `${product} is a draft. Only members of its publisher can connect to it, to test it.`,
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
  connect: "Connect",
  decline: "Do not connect",
  back: (origin: string) => `Either way, you return to ${origin}.`,
  roleLooks: "Only owners and approvers connect products for this organization. Ask one of them.",
};
