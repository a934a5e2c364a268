/** Texts of the pages with which a person changes the address of their account. */
export const ADDRESS_TEXTS = {
  link: "Change your e-mail address",
  title: "Your e-mail address",
  lead: "You sign in with this address. To change it, you enter two codes: one from a mail to each address.",
  present: "Address now",
  newAddress: "New e-mail address",
  send: "Send the codes",
  enterTitle: "Enter both codes",
  enterLead: (email: string) =>
    `We sent a code to ${email}, and another one to the address that you have now. They can be used once, within 30 minutes.`,
  code: "Code from the mail to the address that you have now",
  newCode: "Code from the mail to the new address",
  codeHint: "Eight digits.",
  notACode: "A code has eight digits",
  change: "Change the address",
  effect:
    "All your other sign-ins end. For 7 days, a link in a mail to the former address can put that address back. An invitation to the former address is no longer valid, and clusters must name the new address.",
  again: "Send new codes",
  undoTitle: "Put the former address back?",
  undoLead:
    "This gives your account back the address that received this mail. Every sign-in of the account ends. Then sign in with that address.",
  undoCode: "Code in the link of the mail",
  undoCodeHint: "64 characters, after “code=”. Most browsers fill it in.",
  undo: "Put it back",
  undoneTitle: "The former address is back",
  undone: (email: string) =>
    `Sign in with ${email}. Then look at what was approved in your name, and at the platforms and agents of your account.`,
  signIn: "Sign in",
};

/** Texts of the page with which a person deletes their account. */
export const DELETION_TEXTS = {
  link: "Delete your account",
  title: "Delete your account",
  lead: "This cannot be undone. Read what ends.",
  ends: "What ends",
  platforms: "Platforms, with their keys and callbacks",
  agents: "Agents",
  delegations: "Delegations, which are revoked immediately",
  requests: "Waiting requests",
  organizations: "Your organizations",
  effects: {
    ends: "ends, because you are its only member",
    left: "continues without you. What you set up for it ends, unless another owner takes it over first",
    opened: "was opened with this account. Remove all other members, so that it ends",
    last_owner: "needs an owner. Make another member an owner, or remove all other members so that it ends",
  },
  also: "Your name and your e-mail address are erased, and every sign-in ends. Credit that is left is lost.",
  remains: "What remains",
  history:
    "The history of decisions and the credit postings remain. They show the id of your account instead of your address. A hash of the address remains, because each address gets the free credit only once. Organizations keep your address in their list of who did what. The key vault keeps the key of the account, so that everybody can check that its delegations are revoked.",
  send: "Send me a code",
  sendHint: "To delete the account, you enter a code from a mail.",
  enterTitle: "Enter the code to delete your account",
  enterLead: (email: string) => `We sent a code to ${email}. It can be used once, within 30 minutes.`,
  code: "Code",
  delete: "Delete the account",
  keep: "Keep the account",
  deletedTitle: "Your account is deleted",
  deleted: "You are signed out. If you sign in again with your address, you open a new account.",
};
